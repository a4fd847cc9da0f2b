"""Lines with which an attacker once got through: each ran, or hid, something that its owner had not allowed."""

from pathlib import Path

import pytest

from sayso import Policy, ToolCall
from sayso.errors import PolicyError

ALLOWED_PROGRAMS = (
    "git status",
    "git log",
    "git diff",
    "git show",
    "git branch",
    "git grep",
    "git ls-remote",
    "git tag",
    "ls",
    "cat",
    "grep",
    "rg",
    "find",
    "sort",
    "sed",
    "head",
    "tail",
    "wc",
    "cut",
    "uniq",
    "tr",
    "date",
    "diff",
    "file",
    "stat",
    "tree",
    "jq",
    "tar",
    "man",
    "env",
    "nice",
    "timeout",
    "xargs",
    "nohup",
    "awk",
    "tee",
    "pytest",
    "npm test",
    "make test",
    "less",
    "bat",
    "fd",
    "shuf",
    "xxd",
    "printf",
    "test",
    "hostname",
    "echo",
    "cd",
    "yq",
    "stdbuf",
    "setsid",
    "command",
    "bash -c",
    "bash",
    "nice -n 10 timeout",
    "sudo nice",
)
RAN_UNASKED = (
    "echo 'touch pwn /Q' | sed 's/[/]Q/;s,/e;#,x,'",
    "sed -n '/[/p;s,/]/w pwn,x,' a",
    "test -v 'a[$(touch pwn)]'",
    "printf -v 'a[$(touch pwn)]' x",
    "printf -v PATH %s /tmp/evil && ls",
    "git grep -e foo -e -- -O./evil",
    "git ls-remote --sort -- --upload-pack=./evil .",
    "git log --decorate-refs -- --output=pwn",
    "sort --random-source -- -o pwn a",
    "git branch --format -- -D foo",
    "git tag --format -- -d v1",
    "tar -tf -- --checkpoint=1 '--checkpoint-action=exec=touch pwn'",
    "nice -n 10 timeout 5 touch pwn",
    "sudo nice rm -rf x",
    "find a b -exec uniq {} +",
    "find sub/HEAD -execdir git status \\;",
    "cd sub && git status",
    "xxd a pwn",
    "less --lesskey-src=lk a",
    "less '+!touch pwn' a",
    "npm test -script-shell=./evil",
    "npm test ---script-shell=x",
    "yq -y --in-place '.k=2' y.yml",
    "hostname newname",
    "date --rfc-3339 seconds 9999",
    "sort --temporary-directory=x a",
    "bash -c 'touch pwn' x",
    "bash -c -x 'touch pwn'",
    "bash -ec 'touch pwn'",
    "find a -exec awk {} f \\;",
    "ls &>/dev/null touch pwn",
    "sh -c 'ls &>/dev/null touch pwn'",
    "tar cIf 'touch pwn' -t a",
    "tar cf -t a",
    "tar xf --list",
    "find -D -exec ls . -exec touch pwn \\;",
    "sed -n '/[^]/p;s,/]/w pwn,x,' a",
    "command cd sub && git status",
    "less -p 'x\n!touch pwn1\n' a",
    "echo x | less --Log-file=pwn",
    "git branch pwn",
    "make test deploy",
    "echo x | tee -",
)
RAN_ALTHOUGH_BLOCKED = (
    "echo $x \\\\\nrm foo",
    "echo $x # note \\\nrm foo",
    "echo a\r#; rm foo",
    "echo a\u3000#; rm foo",
    "echo ${a/ #/}; rm foo",
    "eval eval eval eval eval rm foo",
    "echo rm -rf foo | sh",
    "printf '%s %s' rm foo | sh",
    "eval $(echo rm foo)",
    'bash -c "$(echo rm foo)"',
    "source <(echo 'rm foo')",
    ". /dev/stdin <<< 'rm foo'",
    "<<<x rm foo",
    "xargs<<<foo rm",
    "{fd}>/dev/null rm foo",
    '"$@" rm foo',
    '"${a[@]}" rm foo',
    "env -Srm foo",
    "env -vSrm foo",
    "env --split-string=rm foo",
    "env -S'rm\\_foo'",
    "r$(:)m foo",
    "r``m foo",
    "{r,x}m foo",
    "${x:-rm} foo",
    "/bin/r[^x] foo",
    "/bin/r[[:alpha:]] foo",
    "/bin/b?sh -c 'rm foo'",
    "$BASH -c 'rm foo'",
    "strace rm x",
    "unshare rm",
    "taskset 1 rm x",
    "jobs -x rm x",
    "x=rm; $x foo",
    'set -- rm foo; "$@"',
    "for x in rm; do $x foo; done",
    "$(echo rm) foo",
    "hash -p /bin/rm ls; ls foo",
    "[[ 'a[$(rm foo)]' -eq 0 ]]",
    "test -v 'a[$(rm foo)]'",
    "cat <<EOF\nit's\nEOF\nrm x",
    "bash <<EOF\nrm x\nEOF",
    "cat <<EOF | sh\nrm x\nEOF",
    "cat <<EOF\n$(rm x)\nEOF",
    "ls &>/dev/null rm foo",
    'cmd="rm foo"; eval "$cmd"',
    'cmd="rm foo"; bash -c "$cmd"',
    "echo rm foo | xargs env",
)
BLOCKED_FOR_NOTHING = (
    "git commit -m \"$(cat <<'EOF'\ncurl support is gone\nrm old\nEOF\n)\"",
    'echo "Built $(date); rm the old one"',
    "bash deploy.sh rm",
    "sudo -E grep rm f",
    "ssh host docker rm x",
    "xargs -a list grep curl",
    "case $x in rm) ;; esac",
    "cat > f <<'EOF'\nrm x\nEOF",
    "git log --grep 'rm x'",
    "for f in a b; do echo rm; done",
    "cat > a.md <<'EOF'\nUse `rm foo` or $(curl x)\nEOF",
    "git commit -F - <<'EOF'\nuse `rm` less\nEOF",
)


def policy(folder: Path, approval: str, patterns: tuple[str, ...]) -> Policy:
    rules = [{"pattern": each, "approval": approval} for each in patterns]
    return Policy.from_dict({"default": "required", "shell": {"default": "required", "rules": rules}}, base=folder)


def judged(rules: Policy, line: str) -> str:
    return rules.judge(ToolCall(tool="shell", args={"command": line})).approval


@pytest.mark.proves("H13")
@pytest.mark.parametrize("line", RAN_UNASKED, ids=ascii)
def test_what_ran_unasked_is_asked_about(line: str, tmp_path: Path) -> None:
    assert judged(policy(tmp_path, "none", ALLOWED_PROGRAMS), line) != "none"


@pytest.mark.proves("H13")
@pytest.mark.parametrize("line", RAN_ALTHOUGH_BLOCKED, ids=ascii)
def test_what_ran_although_it_is_blocked_is_found(line: str, tmp_path: Path) -> None:
    assert judged(policy(tmp_path, "blocked", ("rm", "curl", "git push --force")), line) == "blocked"


@pytest.mark.parametrize("line", BLOCKED_FOR_NOTHING, ids=ascii)
def test_what_only_mentions_a_blocked_command_is_not_blocked(line: str, tmp_path: Path) -> None:
    assert judged(policy(tmp_path, "blocked", ("rm", "curl", "git push --force")), line) != "blocked"


# A rule that blocks one spelling of an option means the others too.

FLAGS = {
    "default": "none",
    "shell": {
        "default": "required",
        "rules": [
            *({"pattern": each, "approval": "none"} for each in ("rm", "git push", "sed", "npm install")),
            *({"pattern": each, "approval": "blocked"} for each in ("rm -rf", "git push --force", "sed -i")),
            {"pattern": "npm install --global", "approval": "blocked"},
        ],
    },
}


@pytest.mark.proves("R49", "H13")
@pytest.mark.parametrize(
    "command",
    [
        "rm --recursive --force x", "rm --recursive -f x", "rm -Rf x", "rm --rec --for x", "rm -r --force x",
        "git push -f", "git push -uf origin main", "git push origin +main", "git push origin -f", "sed --in-place x",
        "sed --in-place=.bak x", "npm install -g x", "npm -g install x",
    ],
)  # fmt: skip
def test_an_option_is_blocked_in_whatever_way_it_is_spelt(command: str) -> None:
    verdict = Policy.from_dict(FLAGS).judge(ToolCall(tool="shell", args={"command": command}))
    assert verdict.approval == "blocked"


@pytest.mark.proves("R49")
@pytest.mark.parametrize("command", ["rm -r x", "rm -f x", "rm --force x", "git push -u origin main", "sed -n 1p x"])
def test_other_options_of_the_same_command_are_not_blocked_with_it(command: str) -> None:
    verdict = Policy.from_dict(FLAGS).judge(ToolCall(tool="shell", args={"command": command}))
    assert verdict.approval == "none"


ENGINE = {
    "default": "none",
    "shell": {
        "default": "required",
        "inert_assignments": ["TZ"],
        "rules": [
            *({"pattern": each, "approval": "none"} for each in ("xargs", "pip list", "git status", "git log", "grep")),
            *({"pattern": each, "approval": "none", "operand_expansion": ["glob"]} for each in ("echo", "ls")),
        ],
    },
}


def engine(command: str) -> str:
    return Policy.from_dict(ENGINE).judge(ToolCall(tool="shell", args={"command": command})).approval


@pytest.mark.proves("R49", "H13")
@pytest.mark.parametrize(
    "command",
    [
        "echo install | xargs -I list pip list ./evil", "echo install | xargs -Ilist pip list ./evil",
        "echo x | xargs -I git git status", "echo x | xargs -n 1 -I status git status",
    ],
)  # fmt: skip
def test_what_xargs_reads_never_takes_the_place_of_what_a_rule_names(command: str) -> None:
    assert engine(command) == "required"


@pytest.mark.proves("R49", "H13")
@pytest.mark.parametrize(
    "command",
    [
        "echo {a[PATH=0]}>/dev/null; git status", "TZ='a[$(touch x)]' ls {b[TZ]}>/dev/null", "ls {b[TZ]}</dev/null",
        "echo {a[0]}>&2", "echo {a['x']}>/dev/null",
    ],
)  # fmt: skip
def test_a_redirection_into_an_index_is_not_provable(command: str) -> None:
    assert engine(command) == "required"


@pytest.mark.parametrize(
    "command",
    ["ls | xargs -I {} grep x {}", "ls | xargs -I% grep x %", "git --no-pager log -3", "echo {} > /dev/null", "ls {a}"],
)
def test_ordinary_lines_that_look_like_those_run(command: str) -> None:
    assert engine(command) == "none"


def test_options_before_the_sub_command_are_still_looked_at() -> None:
    assert engine("git --no-pager -c core.pager=x log") == "required"
    assert engine("git --no-pager push") == "required"


@pytest.mark.parametrize("pattern", ["git log # only", "# git", "git #"])
def test_a_pattern_with_a_remark_is_a_mistake(pattern: str) -> None:
    with pytest.raises(PolicyError, match="use plain words"):
        Policy.from_dict({"default": "none", "shell": {"rules": [{"pattern": pattern, "approval": "none"}]}})
