"""Ordinary programs that their owner lets run: which options are asked about all the same, and which are not."""

from collections.abc import Iterable
from pathlib import Path

import pytest

from sayso import Policy, ToolCall

ALLOWED = (
    "python -m pytest", "python3 -m json.tool", "uv run", "poetry run mypy", "coverage run", "npx", "py.test",
    "pytest", "mypy", "ruff check", "ruff format", "pylint", "flake8", "pip list", "pip show", "pip install",
    "pip config", "cargo test", "cargo clippy", "go test", "go build", "go vet", "go list", "go env", "npm test",
    "pnpm test", "make test", "eslint", "prettier", "tsc", "pyright", "nm", "objdump", "ar", "less", "bat", "batcat",
    "awk", "sed", "gsed", "gsort", "gdate", "gfind", "date", "git", "split", "file", "sort", "uniq", "xxd", "man",
    "yq", "fd", "rg", "kubectl get", "kubectl logs", "curl", "wget", "ssh", "scp", "rsync", "apt", "apt-get", "gh pr",
    "gh api", "gh repo", "journalctl", "systemctl status", "dpkg", "rpm", "uv pip", "diff", "diff3", "iconv", "xmllint",
)  # fmt: skip
ASKS: tuple[str, ...] = (
    # Other programs behind a runner, and by another name.
    "python -m pytest -p evilp", "python -m pytest --basetemp=sub test_a.py", "python -m pytest --junitxml=pwn",
    "python3 -m json.tool in out", "uv run pytest -p evil", "uv run --with evil pytest", "uv run python -m pytest -c x",
    "poetry run mypy --config-file x", "coverage run -m pytest -p evil", "coverage run --rcfile=x -m pytest",
    "coverage run --source src -m pytest -p evil", "npx -p evil eslint", "npx --no-install eslint --fix",
    "npx eslint --fix", "npx eslint -c evil.js", "py.test -p evil", "batcat --pager=evil f", "gsort -o pwn f",
    "gdate -s 2020", "gfind . -delete", "gfind . -exec id ';'", "gsed -i p f",
    # less takes several options from one word.
    "less '-N+!id>pwn' f", "less '--LINE-NUMBERS +!id>pwn' f", "less '--squeeze-blank-lines --log-file=pwn' f",
    "less '-p$+!id' f", "less -opwn f", "less +G f", "less f +!id", "less --log-file=pwn f", "less -Nopwn f",
    # git.
    "git branch --sort=refname pwn", "git branch --format=x pwn", "git branch --list --no-list pwn",
    "git branch --format --list pwn", "git branch -v pwn", "git branch -a pwn", "git branch --track pwn origin/x",
    "git remote -v add evil http://x", "git remote add evil http://x", "git remote remove origin",
    "git remote rm origin", "git remote rename a b", "git remote set-url origin http://x", "git remote prune origin",
    "git remote update", "git remote set-head origin -a", "git remote -v set-url --push origin x",
    "git reflog expire --expire=now --all", "git reflog delete 'HEAD@{1}'", "git tag pwn", "git tag -a pwn -m x",
    "git tag --sort=refname pwn", "git tag --format --list pwn", "git tag -d v1", "git tag -v v1",
    "git bisect run ./evil", "git submodule foreach evil", "git config core.pager evil", "git config --add a.b c",
    "git config --global alias.st '!evil'", "git config --unset a.b",
    "git config core.pager -l", "git fetch ext::evil", "git push -f",
    "git push origin --mirror", "git push -uf origin main", "git clone ext::evil",
    "git push origin +main", "git push origin :main",
    # Options of developers' tools.
    "pytest --html=x", "pytest --cov-report=html:out", "pytest --cov-report html", "pytest --cov-config=x",
    "pytest -p no:x -p evil", "pytest -W error::evil.Thing", "pytest --pdb", "pytest --trace", "pytest --tx popen",
    "pytest --inline-snapshot=fix", "pytest -kfoo -pevil",
    "mypy --python-executable=./evil src", "mypy --config-file x", "mypy --html-report out src", "mypy --junit-xml x",
    "mypy --install-types --non-interactive", "mypy --cache-dir=x src", "mypy --txt-rep out src", "mypy @args",
    "ruff check --fix", "ruff check --fix-only", "ruff check --unsafe-fixes --fix", "ruff check --add-noqa",
    "ruff check -o pwn", "ruff check --output-file=pwn", "ruff check --config x", "ruff check --cache-dir x",
    "ruff format --config 'exclude=[]'", "ruff check @args",
    "pylint --init-hook='import evil' src", "pylint --load-plugins=evil src", "pylint --rcfile=x src",
    "pylint -f evil.Reporter src", "pylint --output=pwn src", "pylint --output-format=json:pwn src",
    "flake8 --output-file=pwn", "flake8 --config x", "flake8 --append-config=x", "flake8 --tee --output-f x",
    "pip list --log pwn", "pip list --cache-dir x", "pip list --index-url http://x", "pip list -i http://x",
    "pip list --extra-index-url=http://x", "pip list --proxy x", "pip list --cert x", "pip list --python ./evil",
    "pip install --target x y", "pip install -t x y", "pip install --prefix x y", "pip config set global.index-url x",
    "uv pip install --index-url http://x y",
    "cargo test -- --logfile pwn", "cargo test -- --logfile=pwn", "cargo clippy --fix", "cargo clippy -- -C linker=x",
    "cargo test --config x", "cargo test -Z x",
    "go test -exec ./evil ./...", "go test --exec=./evil", "go build -toolexec ./evil", "go vet -vettool=./evil",
    "go build -o pwn", "go test -c", "go test -C ..", "go build -overlay x", "go build -modfile=x",
    "go build -ldflags=-X", "go build -gcflags all=-N", "go test -cpuprofile pwn", "go test -coverprofile=pwn",
    "go test -memprofile pwn", "go test -trace pwn", "go test -outputdir pwn", "go test -args -test.cpuprofile=x",
    "go env -w GOFLAGS=-exec=x", "go env -u GOFLAGS", "go test ./... -update",
    "npm test --registry=http://x", "npm test --script-shell=x", "npm test -sc x", "pnpm test --dir x",
    "make test -j 4 deploy", "make test 4", "make test --jobs 4 -f x",
    "eslint --fix src", "eslint -c x src", "eslint --config x src", "eslint --rulesdir x src", "eslint --plugin x src",
    "eslint --resolve-plugins-relative-to x src", "eslint -o pwn src", "eslint -f ./evil.js src",
    "eslint --parser ./evil.js src", "eslint --fix-dry-run src",
    "prettier --plugin=./evil.js src", "prettier --write src", "prettier -w src", "prettier --config x src",
    "prettier --check --parser ./evil.js src",
    "tsc", "tsc -p .", "tsc --noEmit false", "tsc --noEmit --noEmit False", "tsc --noEmit --generateTrace pwn",
    "tsc --noEmit --incremental --tsBuildInfoFile pwn", "tsc --noEmit @args", "tsc --init", "tsc --noEmit --outDir x",
    "pyright --pythonpath ./evil", "pyright --createstub x", "pyright -p x",
    "nm --plugin ./evil.so a.o", "nm --plug=./evil.so a.o", "objdump --plugin=x a.o", "ar --plugin x t a.a", "nm @args",
    # Languages.
    "awk '{print > \"x\"}' f", "awk '{print \"a\" > \"x\"}' f", "awk '{if ($3 > 5) print > \"x\"}' f",
    "awk '{printf \"%s\\n\", $1 > \"x\"}' f", "awk '/foo|bar/ {print | \"sh\"}' f", "awk '{print($1) > \"x\"}' f",
    "awk 'BEGIN{for(print \"x\" > \"pwn\";0;);}'", "awk '$1 > 5 {system(\"id\")}' f", "awk '{print /\"/ > \"pwn\"}' f",
    "awk '/[/]\"/ {print > \"pwn\"}' f", "awk '{a = 1 / 2; print 1 > \"pwn\" / 2}' f", "awk 1 /inet/tcp/0/x/80",
    "awk '{ \"id\" | getline x }' f", "awk '{print >> \"x\"}' f", "awk 'BEGIN{ARGV[1]=\"/inet/tcp/0/x/80\";ARGC=2}'",
    "sed -ne 'w pwn' f", "sed -e 's/x/\\' -e 'p;s,/e;#,x,' f", "sed 's/[^/]*e$//e' f", "sed '1~2w pwn' f",
    "sed 's/[[:space:]]*$//w pwn' f", "sed -n '1\\x77 pwn' f", "sed -nie p f",
    # Others.
    "split --filter='sh -c id' f", "split --fil=id f", "split --f id f", "file -Z f", "file -bZ f",
    "file --uncompress-noreport f", "bat cache --build", "bat --pager=evil f", "bat --paging=always f",
    "sort -k1 -o pwn f", "uniq -f 1 a b", "uniq -f -f a b", "xxd -l 4 a pwn", "date -Is -s 2020", "date 01010101",
    "man --pager=x ls", "yq -i .a f", "fd -tf -x rm", "rg -uz x", "iconv -o pwn f", "xmllint --output pwn f",
    "diff -rl a b", "diff3 --diff-program=./evil a b c",
    # Other machines, and this one.
    "kubectl get pods --kubeconfig=x", "kubectl get pods -s http://x", "kubectl get pods --server=http://x",
    "kubectl get pods --token=x", "kubectl get pods --cache-dir=x", "kubectl get pods --profile=cpu",
    "kubectl get pods --profile-output=pwn", "kubectl get --raw /x", "kubectl get -f x.yaml", "kubectl logs -f -s x p",
    "curl -o pwn http://x", "curl -O http://x", "curl -sO http://x", "curl -d @f http://x", "curl -T f http://x",
    "curl -K x", "curl --config x", "curl -X DELETE http://x", "curl -F a=@f http://x", "curl -H @f http://x",
    "curl -k https://x", "curl -D pwn http://x", "curl -c pwn http://x", "curl --trace pwn http://x",
    "curl --output-dir x http://x", "curl -x http://evil http://x", "curl gopher://x:6379/_x", "curl '{gopher}://x/_a'",
    "curl -w '%output{pwn}' http://x", "curl -w @f http://x", "curl -so pwn http://x", "curl --unix-socket x http://y",
    "curl http://x --next -d a http://y",
    "wget http://x", "wget -O pwn http://x", "wget -O - -o pwn http://x", "wget -qO- -e use_proxy=yes http://x",
    "wget --post-file=f -O- http://x", "wget -i f -O-", "wget -O- --use-askpass=evil http://x", "wget -r -O- http://x",
    "ssh -o ProxyCommand=evil host", "ssh host -o ProxyCommand=evil", "ssh host -oProxyCommand=evil ls",
    "ssh -F x host", "ssh -R 1:x:1 host", "ssh -qp 22 host -oProxyCommand=x", "ssh -- host -oProxyCommand=x",
    "ssh host 'ls; id'", "ssh host ls '>' x", "ssh host 'ls $(id)'", "ssh host 'a|b'", "ssh host 'X=1 ls'",
    "ssh host find . -delete", "ssh host 'git branch pwn'", "ssh -E pwn host ls",
    "ssh host uv run ssh other", "ssh host uv run pytest -p evil",
    "scp -S ./evil a host:b", "scp -o ProxyCommand=x a h:b", "rsync -e ./evil a b", "rsync --log-file=pwn a b",
    "apt list -o APT::x=y", "apt -c x list", "apt-get update -oDir::x=y", "apt-get update --option=x",
    "gh pr view --web", "gh pr view -w", "gh repo clone x -- --config=core.x=evil", "gh api -X DELETE repos/x",
    "gh api repos/x -f a=b", "journalctl --vacuum-size=1", "journalctl --vacuum-t=1s", "journalctl --rotate",
    "journalctl --flush", "journalctl --cursor-file=pwn", "systemctl status -H evil", "dpkg --pre-invoke=id -l",
    "rpm -qa --pipe=id", "rpm -E '%(id)'",
)  # fmt: skip
RUNS: tuple[str, ...] = (
    "python -m pytest -q tests", "python -m pytest -k 'p and c'", "python3 -m json.tool in", "uv run pytest -q",
    "uv run --frozen pytest -x", "uv run mypy src", "poetry run mypy src", "coverage run --source=src -m pytest -q",
    "npx eslint src", "py.test -q", "gsort -k2 f", "gdate +%F", "batcat f", "bat --paging=never f", "bat -n f",
    "less f", "less -N f", "less -RSX f", "less --LINE-NUMBERS f", "less -x4 f", "less -SR -- f",
    "git branch", "git branch -a", "git branch --sort=-committerdate", "git branch --list 'feat/*' --format='%(x)'",
    "git branch --contains HEAD", "git branch --merged main -r", "git branch -vv --no-color", "git tag", "git tag -l",
    "git tag -l 'v1*'", "git tag -n5", "git tag -n 'v1*'", "git tag --points-at HEAD", "git tag --contains abc",
    "git tag --sort=-v:refname", "git remote", "git remote -v", "git remote show origin", "git remote get-url origin",
    "git reflog", "git reflog show main", "git config --get user.name", "git config -l", "git config --list --global",
    "git log -S 'std::vector'", "git log -S std::vector", "git diff --text", "git commit -m 'use std::vector'",
    "git grep 'a::b'", "git submodule status", "git bisect log", "git stash list",
    "git push -u origin main", "git push origin HEAD:main", "git clone --filter=blob:none https://x/y",
    "pytest --co -q", "pytest -p no:cacheprovider", "pytest --cov=src --cov-report=term-missing", "pytest -kfoo",
    "pytest --cov src --cov-report term", "pytest -mslow", "pytest -n4 --dist loadfile", "pytest -rA -vv --tb=short",
    "pytest -W error::DeprecationWarning", "pytest -Werror", "pytest tests/test_a.py::test_x", "pytest --timeout=60",
    "mypy src", "mypy --strict --python-version 3.11 src", "mypy -p sayso", "ruff check", "ruff check --diff src",
    "ruff check --output-format=github --select E,F", "ruff format", "ruff format --check src", "ruff check --no-fix",
    "pylint src", "pylint -E --disable=all --enable=E src", "pylint -f json src", "flake8 --max-line-length=100 src",
    "pip list", "pip list --outdated", "pip list --format=json", "pip show -f requests", "pip install --pre x",
    "pip install -r requirements.txt", "pip install -rrequirements.txt", "pip config list", "uv pip list",
    "cargo test", "cargo test -- --nocapture --test-threads=1", "cargo clippy -- -D warnings", "cargo test -p x",
    "cargo clippy --all-targets -- -Dwarnings -Aclippy::x", "go test ./...", "go test -v -run TestX -count=1 ./...",
    "go test -race -cover ./x", "go build ./...", "go vet ./...", "go list -m -json all", "go env GOPATH",
    "npm test", "npm test -s", "npm test -- -t name", "npm test --silent", "pnpm test", "make test -j 4",
    "make test -j4 -k", "make test --no-print-directory", "make test -kj 4", "eslint src --ext .ts,.tsx",
    "eslint --max-warnings 0 -f json src", "prettier --check .", "prettier -c src --parser typescript", "prettier f",
    "tsc --noEmit", "tsc --noEmit -p tsconfig.json", "tsc -noEmit --skipLibCheck", "tsc --version", "pyright",
    "pyright --outputjson src", "nm -D a.so", "objdump -d a.o", "ar t a.a",
    "awk '{printf \"%s\\n\", $1}' f", "awk '$3 > 5' f", "awk 'NR>=10 && NR<=20' f", "awk '/foo|bar/' f",
    "awk -F: '{print $1}' f", "awk '{s+=$1} END {print s/NR}' f", "awk '$3 > 5 {print $1}' f",
    "awk '{if ($3 > 5) print $1}' f", "awk '/a|b/ {n++} END {printf \"%d\\n\", n}' f", "awk '!seen[$0]++' f",
    "awk '{s+=$1} END {printf \"%.2f\\n\", s/NR}' f", "awk '/^[[:space:]]*$/ || NR > 3' f",
    "awk -F'\\t' '{print $2}' f",
    "awk 'BEGIN{while (i > 3) {i--; print i}}'",
    "sed -n '1~2p' f", "sed 's/[^/]*$//' f", "sed -ne 1p f", "sed 's/[[:space:]]*$//' f", "sed -E 's/^[ \\t]+//' f",
    "sed -n '/foo/{p;q}' f", "sed -e 's/a/b/' -e 's/where/there/' f", "gsed -n 5p f",
    "split -l 100 f", "split --bytes=1M f x", "file f", "file -b --mime-type f", "file -Fz f", "sort -t: -k2 f",
    "uniq -f 1 a", "uniq -c -w 3 a", "xxd -l 32 f", "xxd -s 16 -c 8 f", "date -Iseconds", "date -Is", "date -u +%s",
    "date -d 'next friday' +%F", "date -dyesterday", "date --rfc-3339=seconds", "date -r f", "man -k printf",
    "yq -ojson . f", "fd -tx", "fd -e py", "rg -tzig x", "rg -ezoo", "diff -u a b", "diff -Ilabel a b", "iconv -f x f",
    "kubectl get pods", "kubectl get pods -A -o wide", "kubectl get pods -ojson -lapp=users -nkube-system",
    "kubectl logs -f pod", "kubectl logs --tail=100 -c main pod", "kubectl get pods --context staging",
    "curl http://x", "curl -sSfL https://x/y", "curl -s -o /dev/null -w '%{http_code}' http://x", "curl localhost:80/x",
    "curl -so /dev/null -w '%{http_code}\\n' http://x", "curl -I --max-time 5 https://x", "curl -v -m5 http://x",
    "curl -H 'Accept: application/json' --compressed https://x", "curl 'https://x/{a,b}'", "curl --retry 3 http://x",
    "wget -qO- http://x", "wget -q -O - http://x", "wget --spider http://x", "wget -S -O /dev/null http://x",
    "ssh host", "ssh -p 22 -l me host uptime", "ssh host ls -la /var/log", "ssh host 'tail -n 100 /var/log/x'",
    "ssh host git status", "scp a host:b", "scp -P 22 a host:b", "rsync -av a b", "rsync -avn a b",
    "apt list --installed", "apt-get update -q", "apt-get -t stable-backports update", "gh pr list --state open",
    "gh pr view 1 --json title -q .title", "gh pr checks 1 --watch", "gh api repos/x --jq .name", "gh repo clone x",
    "journalctl -u x -n 50 --no-pager", "journalctl --since today --reverse", "systemctl status x", "dpkg -l",
    "rpm -qa", "rpm -qi x",
)  # fmt: skip


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Policy:
    rules = [{"pattern": each, "approval": "none"} for each in ALLOWED]
    shell = {"default": "required", "rules": rules}
    return Policy.from_dict({"default": "required", "shell": shell}, base=tmp_path_factory.mktemp("policy"))


def reasons(policy: Policy, lines: Iterable[str]) -> dict[str, str]:
    """Return why each line asks; an empty text if it runs."""
    verdicts = {line: policy.judge(ToolCall(tool="shell", args={"command": line})) for line in lines}
    return {line: "" if verdict.approval == "none" else verdict.reason for line, verdict in verdicts.items()}


@pytest.mark.proves("R49", "H13")
def test_an_allowed_program_is_asked_about_where_it_runs_writes_or_sends_something(policy: Policy) -> None:
    found = reasons(policy, ASKS)
    assert [line for line, reason in found.items() if not reason] == []
    assert [line for line, reason in found.items() if "no rule names" in reason or "cannot be proven" in reason] == []


@pytest.mark.proves("R49")
def test_an_allowed_program_runs_unasked_with_options_that_are_harmless(policy: Policy) -> None:
    assert {line: reason for line, reason in reasons(policy, RUNS).items() if reason} == {}


@pytest.mark.proves("H13")
@pytest.mark.parametrize(
    "line",
    [
        "ls | xargs python -m pytest",
        "ls | xargs python3.11 -m pytest",
        "ls | xargs uv run mypy",
        "ls | xargs pipenv run",
        "find . -exec uniq {} +",
    ],
)
def test_arguments_that_nobody_knows_yet_are_asked_about_behind_a_runner_too(line: str, tmp_path: Path) -> None:
    rules = [
        {"pattern": each, "approval": "none"}
        for each in ("ls", "xargs", "find", "pipenv run", "python3.11 -m", *ALLOWED)
    ]
    shell = {"default": "required", "rules": rules}
    verdict = Policy.from_dict({"default": "required", "shell": shell}, base=tmp_path).judge(
        ToolCall(tool="shell", args={"command": line})
    )
    assert verdict.approval == "required"
