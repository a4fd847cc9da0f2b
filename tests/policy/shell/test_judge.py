"""Shell lines under rules of a policy file: what a rule matches, what it is not enough for, and how it is told."""

import logging
import os
from pathlib import Path
from typing import Any

import pytest

from sayso import Policy, ToolCall, Verdict
from sayso.core.model import Approval

RULES = (
    {"pattern": "ls", "approval": "none"},
    {"pattern": "git status", "approval": "none"},
    {"pattern": "git commit", "approval": "required", "note": "look at the diff"},
    {"pattern": "git push --force", "approval": "blocked", "note": "ask in the team first"},
    {"pattern": "env", "approval": "none"},
    {"pattern": "bash", "approval": "none"},
)


def policy_of(
    *rules: dict[str, Any],
    default: str = "required",
    zones: dict[str, Any] | None = None,
    base: Path | None = None,
    **sections: Any,
) -> Policy:
    shell = {"default": default, "rules": list(rules or RULES), **sections}
    sandbox = {"sandbox": {"zones": zones}} if zones else {}
    return Policy.from_dict({"default": "none", "shell": shell, **sandbox}, base=base)


def judge(policy: Policy, line: str) -> Verdict:
    return policy.judge(ToolCall(tool="shell", args={"command": line}))


def approval(policy: Policy, line: str) -> Approval:
    return judge(policy, line).approval


# What a rule matches.


@pytest.mark.parametrize("pattern", ["git commit -m 'a b'", 'git commit -m "a b"', "  git  commit\t-m a\\ b "])
def test_a_pattern_is_split_into_words_as_the_shell_does_it(pattern: str) -> None:
    policy = policy_of({"pattern": pattern, "approval": "none"})
    assert approval(policy, 'git commit -m "a b" file') == "none"
    assert approval(policy, "git commit -m a b") == "required"


def test_a_quoted_word_of_a_pattern_stands_for_itself() -> None:
    policy = policy_of({"pattern": "find . -name '*.py'", "approval": "none"}, {"pattern": "'['", "approval": "none"})
    assert approval(policy, "find . -name '*.py'") == "none"
    assert approval(policy, "find . -name a.py") == "required"
    assert approval(policy, "'[' a") == "none"


@pytest.mark.proves("R38")
def test_of_all_rules_that_match_the_strictest_decides_whatever_their_order_and_length() -> None:
    loose, strict = {"pattern": "git push", "approval": "none"}, {"pattern": "git", "approval": "required"}
    for rules in ((loose, strict), (strict, loose)):
        assert approval(policy_of(*rules), "git push") == "required"
    longer = {"pattern": "git push origin", "approval": "none"}
    assert approval(policy_of({"pattern": "git push", "approval": "blocked"}, longer), "git push origin") == "blocked"


@pytest.mark.proves("R47")
def test_a_command_may_be_asked_about_once_per_session() -> None:
    policy = policy_of({"pattern": "git commit", "approval": "once_per_session"}, *RULES[:2])
    assert approval(policy, "git commit && ls") == "once_per_session"
    assert approval(policy, "git commit && id") == "required"


def test_a_program_of_a_trusted_folder_is_the_one_that_rules_name() -> None:
    policy = policy_of(trusted_dirs=["/usr/bin", "/opt/tools/"])
    assert approval(policy, "/usr/bin/git status") == approval(policy, "/opt/tools/ls") == "none"
    assert approval(policy, "/usr/bin/evil/git status") == approval(policy, "/bin/ls") == "required"
    assert approval(policy_of(), "/usr/bin/git status") == "required"


def test_a_blocked_program_is_blocked_in_every_folder() -> None:
    assert approval(policy_of(), "/somewhere/git push --force") == "blocked"


# What a rule is not enough for.


@pytest.mark.proves("H13")
@pytest.mark.parametrize("name", ["TZ", "LC_ALL", "LC_TIME"])
def test_a_variable_that_the_owner_calls_inert_may_be_set(name: str) -> None:
    policy = policy_of(inert_assignments=["TZ", "LC_*"])
    assert approval(policy, f"{name}=x ls") == approval(policy, f"env {name}=x ls") == "none"
    assert approval(policy, f"{name}=x PATH=. ls") == "required"
    assert approval(policy_of(), f"{name}=x ls") == approval(policy_of(), f"env {name}=x ls") == "required"


@pytest.mark.proves("H13")
def test_operands_are_expanded_only_where_the_rule_says_so() -> None:
    policy = policy_of(
        {"pattern": "ls", "approval": "none", "operand_expansion": ["glob"]},
        {"pattern": "cat", "approval": "none", "operand_expansion": ["glob", "tilde"]},
        {"pattern": "wc", "approval": "none"},
    )
    assert approval(policy, "ls *.py") == approval(policy, "cat *.py") == approval(policy, "cat ~/x") == "none"
    assert approval(policy, "ls ~/x") == approval(policy, "wc *.py") == approval(policy, "wc ~/x") == "required"
    assert approval(policy, "ls $x") == approval(policy, "l* x") == "required"


@pytest.mark.proves("H13")
@pytest.mark.parametrize("line", ["env git commit", "bash -c 'git commit'", "ls; git commit", "ls | git commit"])
def test_what_is_asked_about_is_asked_about_inside_other_commands_too(line: str) -> None:
    assert approval(policy_of(), line) == "required"


@pytest.mark.proves("H13")
@pytest.mark.parametrize(
    "line",
    ["env git push --force", "bash -c 'git push --force'", "(git push --force)", "git push origin --force main"],
)
def test_what_is_blocked_is_blocked_inside_other_commands_too(line: str) -> None:
    assert approval(policy_of(), line) == "blocked"


@pytest.mark.proves("H13")
@pytest.mark.parametrize(
    ("line", "expected"),
    [("ls $(ls)", "required"), ("ls $x", "required"), ("ls $(id)", "blocked"), ("id $x", "blocked")],
)
def test_where_the_rest_is_blocked_an_unprovable_line_is_asked_about_only_if_rules_name_all_of_it(
    line: str, expected: Approval
) -> None:
    assert approval(policy_of(default="blocked"), line) == expected


@pytest.mark.parametrize("line", ["", "   ", "# nothing", "\n"])
@pytest.mark.parametrize("default", ["required", "blocked"])
def test_a_line_without_a_command_never_runs_unasked(line: str, default: str) -> None:
    assert approval(policy_of(default=default), line) in {"required", "blocked"}


# Redirections.


@pytest.fixture
def zoned(tmp_path: Path) -> Policy:
    """Lines that run in a folder with three zones in it."""
    for name in ("scratch", "output", "docs"):
        (tmp_path / name).mkdir()
    zones: dict[str, Any] = {"scratch": {"approval": "none"}, "output": {}, "docs": {"mode": "ro"}}
    return policy_of(base=tmp_path, zones=zones)


@pytest.mark.proves("H13", "R52")
@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("scratch/a", "required"),
        ("./scratch/a", "required"),
        ("output/a", "required"),
        ("docs/a", "blocked"),
        ("scratch/../docs/a", "blocked"),
        ("a", "blocked"),
        ("/etc/passwd", "blocked"),
        ("../a", "blocked"),
        ("scratch/.bashrc", "blocked"),
        ("/dev/null", "none"),
    ],
)
def test_what_a_redirection_writes_is_judged_by_the_zones(zoned: Policy, target: str, expected: Approval) -> None:
    assert approval(zoned, f"ls > {target}") == expected


@pytest.mark.proves("H13")
def test_without_zones_a_redirection_to_a_file_is_asked_about() -> None:
    assert approval(policy_of(), "ls > a") == approval(policy_of(), "ls >> /etc/passwd") == "required"
    assert approval(policy_of(), "ls > /dev/null 2>&1") == approval(policy_of(), "ls < a") == "none"


@pytest.mark.proves("H13")
def test_a_link_does_not_lead_a_redirection_out_of_its_zone(zoned: Policy, tmp_path: Path) -> None:
    (tmp_path / "scratch" / "link").symlink_to(os.fspath(tmp_path / "docs"))
    assert approval(zoned, "ls > scratch/link/a") == "blocked"


# How it is told.


def test_a_verdict_names_the_rule_its_note_and_every_part() -> None:
    verdict = judge(policy_of(), "ls && git commit -m x")
    assert verdict.reason == "'git commit -m x': `git commit` is 'required': look at the diff"
    assert str(verdict.rule) == "policy shell.rules[2]"
    assert verdict.metadata is not None
    assert [(part["part"], part["approval"], part["rule"]) for part in verdict.metadata["parts"]] == [
        ("ls", "none", "policy shell.rules[0]"),
        ("git commit -m x", "required", "policy shell.rules[2]"),
    ]
    blocked = judge(policy_of(), "git push --force")
    assert "ask in the team first" in blocked.reason
    assert str(blocked.rule) == "policy shell.rules[3]"


def test_a_verdict_about_what_no_rule_names_says_so() -> None:
    verdict = judge(policy_of(default="blocked"), "id")
    assert (verdict.reason, str(verdict.rule)) == ("no rule names 'id'", "policy shell.default")
    assert judge(policy_of(default="blocked"), "git rebase x").reason == "no rule names 'git rebase'"


def test_rules_under_the_name_shell_rules_are_told_by_that_name() -> None:
    data = {"default": "none", "shell_default": "blocked", "shell_rules": [{"pattern": "ls", "allowed": True}]}
    policy = Policy.from_dict(data)
    assert str(judge(policy, "ls").rule) == "policy shell_rules[0]"
    assert str(judge(policy, "id").rule) == "policy shell_default"


def test_the_words_about_a_long_line_are_few(zoned: Policy) -> None:
    for line in ("ls " + "x" * 9000, "id " + "x" * 9000, "ls > scratch/" + "x" * 9000):
        assert len(judge(zoned, line).reason) < 500


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("git", "bare `git` can run any program"),
        ("python3", "'python3' runs whatever code it is given"),
        ("bash", "'bash' runs whatever code it is given"),
        ("npx", "'npx' runs other programs; name what it may run"),
        ("sudo", "'sudo' runs other programs; those are judged too"),
    ],
)
def test_an_owner_who_lets_nearly_anything_run_is_told(
    pattern: str, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, logger="sayso"):
        policy = policy_of({"pattern": pattern, "approval": "none"})
    (warning,) = policy.warnings
    assert "shell.rules[0]" in warning
    assert said in warning
    assert caplog.messages == [warning]
    assert policy_of({"pattern": pattern, "approval": "required"}).warnings == ()


def test_both_files_warnings_are_kept_when_one_lies_over_the_other() -> None:
    bare = policy_of({"pattern": "git", "approval": "none"})
    snake = policy_of({"pattern": "python", "approval": "none"})
    assert bare.over(snake).warnings == (*snake.warnings, *bare.warnings)


# Self-tests.


@pytest.mark.parametrize("line", ["git status", "git status -s", "ls; git status", "'git' status", "ls | git status x"])
def test_a_self_test_that_holds_lets_the_file_load(line: str) -> None:
    rule = {"pattern": "git status", "approval": "none", "match": [line], "not_match": ["git stash", "echo git status"]}
    policy_of(rule)


# Large things.


@pytest.mark.proves("H13")
@pytest.mark.parametrize("word", ["x", "'x' ", "$x ", "(", "\\\n", "`", '"', "a=b ", "<<x\n", "{a,", "; ls"])
def test_a_line_of_a_megabyte_is_judged_and_never_let_run(word: str) -> None:
    line = "ls " + word * (1_000_000 // len(word))
    assert approval(policy_of(), line) in {"required", "blocked"}


@pytest.mark.proves("H13")
def test_what_is_blocked_is_found_at_the_end_of_a_megabyte() -> None:
    assert approval(policy_of(), "ls " + "x " * 500_000 + "; git push --force") == "blocked"


@pytest.mark.parametrize(
    "line",
    [
        "eval 'cd sub'; ls", "eval cd sub && ls", "eval 'ls; cd sub' || ls", "command eval 'cd sub'; ls",
        'eval "eval \'cd sub\'"; ls', "eval \"c''d sub\"; ls", "eval builtin cd sub; ls", "eval " * 12 + "ls; ls",
    ],
)  # fmt: skip
def test_a_script_of_eval_that_changes_the_folder_does_so_for_what_follows(line: str) -> None:
    rules = [{"pattern": word, "approval": "none"} for word in ("eval", "cd", "ls", "command", "builtin")]
    assert approval(policy_of(*rules), line) == "required"
    assert approval(policy_of(*rules), "eval 'ls'; eval 'ls -l' && eval 'cd sub'") == "none"


@pytest.mark.parametrize("options", ["-i", "-", "-u GIT_CONFIG_COUNT", "--unset=HOME", "A=b -i"])
def test_taking_variables_away_from_a_command_is_asked_about(options: str) -> None:
    policy = policy_of(*RULES, inert_assignments=["A"])
    assert approval(policy, f"env {options} git status") == "required"
    assert approval(policy, "env A=b git status -u") == "none"
