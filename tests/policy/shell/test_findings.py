"""Findings of the second attack on the shell judge: each example asks or is blocked, behind the rules it passed."""

import pytest

from sayso import Policy
from sayso.core.model import ToolCall

# Rules, and lines that ran unasked behind them although a stricter rule was meant.
BLOCKED: tuple[tuple[dict[str, str], str], ...] = (
    ({"docker compose": "none", "docker compose down": "blocked"}, "docker compose -f prod.yml down -v"),
    ({"aws ec2": "none", "aws ec2 terminate-instances": "blocked"}, "aws ec2 --region x terminate-instances"),
    ({"aws s3": "none", "aws s3 rm": "blocked"}, "aws s3 --region x rm s3://b/k"),
    ({"gh pr": "none", "gh pr merge": "blocked"}, "gh pr -R o/r merge 1"),
    ({"kubectl rollout": "none", "kubectl rollout undo": "blocked"}, "kubectl rollout -n prod undo deploy/x"),
    (
        {"gcloud compute": "none", "gcloud compute instances delete": "blocked"},
        "gcloud compute --project p instances delete x",
    ),
    ({"rm": "none", "rm -rf": "blocked"}, "rm --r --f build"),
    ({"git reset": "none", "git reset --hard": "blocked"}, "git reset --h"),
)
CARVED: tuple[tuple[dict[str, str], str], ...] = (
    ({"rm": "none", "rm -rf": "required"}, "rm -fr build"),
    ({"rm": "none", "rm -rf": "required"}, "rm build -rf"),
    ({"rm": "none", "rm -rf": "required"}, "rm --recursive --force x"),
    ({"pip": "none", "pip install": "required"}, "pip -q install x"),
    ({"npm": "none", "npm publish": "required"}, "npm --silent publish"),
    ({"kubectl": "none", "kubectl delete": "required"}, "kubectl -n prod delete pod x"),
    ({"git commit": "none", "git commit --amend": "required"}, "git commit -m x --amend"),
    ({"docker run": "none", "docker run --privileged": "required"}, "docker run --rm --privileged x"),
    ({"terraform": "none", "terraform apply": "required"}, "terraform -chdir=x apply"),
    ({"chmod": "none", "chmod -R": "required"}, "chmod 777 -R ."),
)
# A rule, and lines that ran unasked behind it.
ASKS: dict[str, tuple[str, ...]] = {
    "awk": ("awk 'BEGIN{x=1system(\"touch pwned\")}'", "awk 'BEGIN{x=1getline}'"),
    "printf": ("printf 'abc%n' PATH", "printf 'abc%n' HOME"),
    "curl": ("curl -w 'a\n%output{pwned}' https://example.org",),
    "git push --dry-run": ("git push --dry-run --no-dry-run",),
    "git clean -n": ("git clean -n --no-dry-run -fd",),
    "git add -n": ("git add -n --no-dry-run .",),
    "git rm -n": ("git rm -n --no-dry-run x",),
    "git fetch -n": ("git fetch -n --no-dry-run",),
    "git apply --check": ("git apply --check --apply p.diff",),
    "git apply --stat": ("git apply --stat --apply p.diff",),
    "npm pack --dry-run": ("npm pack --dry-run --no-dry-run",),
    "apt-get -s install": ("apt-get -s install x --no-simulate",),
    "kubectl apply --dry-run=client": ("kubectl apply --dry-run=client -f x --dry-run=none",),
    "helm upgrade --dry-run": ("helm upgrade --dry-run x y --dry-run=false",),
    "aws ec2 run-instances --dry-run": ("aws ec2 run-instances --dry-run --no-dry-run",),
    "psql -l": ("psql -l -o '|touch pwned'",),
    "sqlite3 app.db .tables": ("sqlite3 app.db .tables '.shell touch pwned'",),
    "tmux ls": ("tmux ls ';' run-shell 'touch pwned'",),
    "watch -n 5 ls": ("watch -n 5 ls ';' touch pwned",),
    "hg status": ("hg status --config 'alias.status=!touch pwned'",),
    "hg log": ("hg log --config extensions.x=evil.py",),
    "svn diff": ("svn diff --diff-cmd ./evil",),
    "gcc -fsyntax-only": (
        "gcc -fsyntax-only -wrapper ./evil a.c",
        "gcc -fsyntax-only -fplugin=./evil.so a.c",
        "gcc -fsyntax-only @args",
    ),
    "openssl dgst": ("openssl dgst -engine ./evil.so f", "openssl dgst -provider evil f"),
    "openssl x509": ("openssl x509 -in c.pem -out pwned",),
    "nginx -t": ("nginx -t -c ./evil.conf",),
    "node --check": ("node --check -r ./evil.js x.js",),
    "node --test": ("node --test -r ./evil.js",),
    "exiftool": ("exiftool -if 'system(1)' x.jpg", "exiftool -config evil x.jpg"),
    "mlr --icsv": ("mlr --icsv put 'system(\"id\")' f", "mlr --icsv -I cat f"),
    "ss": ("ss -D pwned",),
    "terraform plan": ("terraform plan -out=pwned",),
    "aws logs describe-log-groups": (
        "aws logs describe-log-groups --log-group-name-prefix file://secret",
        "aws logs describe-log-groups --endpoint-url http://127.0.0.1:9",
    ),
    "xmllint": ("xmllint -o pwned f", "xmllint -output pwned f", "xmllint -shell f"),
    "npm audit": ("npm audit fix",),
    "git fetch": ("git fetch origin +a:b", "git fetch +a:b"),
    "kubectl get": ("kubectl get pods --kuberc=x",),
    "kubectl cluster-info": ("kubectl cluster-info dump --output-directory=x",),
}


def judged(rules: dict[str, str], line: str) -> str:
    shell = {"default": "required", "rules": [{"pattern": each, "approval": word} for each, word in rules.items()]}
    policy = Policy.from_dict({"default": "required", "shell": shell})
    return policy.judge(ToolCall(tool="shell", args={"command": line})).approval


@pytest.mark.proves("R49", "H13")
@pytest.mark.parametrize(("rules", "line"), BLOCKED)
def test_a_block_is_found_behind_values_and_in_every_abbreviation(rules: dict[str, str], line: str) -> None:
    assert judged(rules, line) == "blocked"


@pytest.mark.proves("R49", "H13")
@pytest.mark.parametrize(("rules", "line"), CARVED)
def test_a_question_inside_a_looser_rule_is_found_in_every_spelling(rules: dict[str, str], line: str) -> None:
    assert judged(rules, line) == "required"


@pytest.mark.proves("R49", "H13")
@pytest.mark.parametrize(("rule", "line"), [(rule, line) for rule, lines in ASKS.items() for line in lines])
def test_what_a_rule_does_not_say_asks(rule: str, line: str) -> None:
    assert judged({rule: "none"}, line) == "required"


@pytest.mark.parametrize("line", ["find . -maxdepth 1 -type f -ls", "find . -maxdepth 1 -type f -exec ls -l {} +"])
def test_words_of_find_are_no_bundled_letters(line: str) -> None:
    assert judged({"find": "none", "ls": "none", "find -delete": "blocked"}, line) == "none"
