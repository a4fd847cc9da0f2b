"""A stricter rule inside a looser one is found in every spelling, and everyday lines beside it are not taken for it."""

from collections.abc import Iterable
from functools import cache
from pathlib import Path

import pytest
from tests.policy.shell import spelling_corpus, spelling_corpus_services

from sayso import Policy, ToolCall, Verdict

CASES = {**spelling_corpus.CASES, **spelling_corpus_services.CASES}
SPELLED = {name: [line for lines in case.spelled.values() for line in lines] for name, case in CASES.items()}
EVERYDAY = {name: case.everyday for name, case in CASES.items()}


@cache
def policy_of(name: str, approval: str) -> Policy:
    case = CASES[name]
    return policy_with({**dict.fromkeys(case.looser, "none"), **dict.fromkeys(case.stricter, approval)})


def policy_with(rules: dict[str, str]) -> Policy:
    given = [{"pattern": pattern, "approval": approval} for pattern, approval in rules.items()]
    return Policy.from_dict({"default": "required", "shell": {"default": "required", "rules": given}})


def judge(policy: Policy, line: str) -> Verdict:
    return policy.judge(ToolCall(tool="shell", args={"command": line}))


def words(policy: Policy, lines: Iterable[str]) -> dict[str, str]:
    """Return what the policy says about each line."""
    return {line: judge(policy, line).approval for line in lines}


@pytest.mark.proves("R49", "H13")
@pytest.mark.parametrize("name", CASES)
def test_another_spelling_of_what_is_blocked_is_blocked(name: str) -> None:
    found = words(policy_of(name, "blocked"), SPELLED[name])
    assert found == dict.fromkeys(SPELLED[name], "blocked")


@pytest.mark.proves("H13")
@pytest.mark.parametrize("name", CASES)
def test_another_spelling_of_what_asks_never_runs_unasked(name: str) -> None:
    found = words(policy_of(name, "required"), SPELLED[name])
    assert found == dict.fromkeys(SPELLED[name], "required")


@pytest.mark.proves("R49")
@pytest.mark.parametrize("name", CASES)
def test_an_everyday_line_is_not_taken_for_what_is_blocked(name: str) -> None:
    assert "blocked" not in words(policy_of(name, "blocked"), EVERYDAY[name]).values()


@pytest.mark.proves("H13")
def test_only_words_that_may_be_the_value_of_an_option_are_skipped() -> None:
    policy = policy_with({"docker": "none", "docker compose down": "blocked"})
    assert judge(policy, "docker -a b compose -c d -e=f -g h down").approval == "blocked"
    for line in (
        "docker compose x down",
        "docker -a=b x compose down",
        "docker compose -f x y down",
        "docker x compose down",
    ):
        assert judge(policy, line).approval != "blocked"


def test_a_rule_that_allows_still_takes_exactly_its_words() -> None:
    policy = policy_with({"git log --oneline": "none", "docker compose logs": "none"})
    assert judge(policy, "git log --oneline x").approval == "none"
    for line in ("git log x --oneline", "git log --onel", "docker compose -f x logs", "docker-compose logs"):
        assert judge(policy, line).approval == "required"


# What is told, and what is remembered.


def test_the_question_names_the_rule_that_it_may_be() -> None:
    policy = policy_with(
        {"rm": "none", "rm -rf": "required", "git commit": "none", "git commit --quiet": "once_per_session"}
    )
    verdict = judge(policy, "rm x -fr")
    assert verdict.reason == "it may run `rm -rf`, which asks"
    assert str(verdict.rule) == "policy shell.rules[1]"
    once = judge(policy, "git commit -m x -q")
    assert (once.approval, once.reason) == (
        "once_per_session",
        "it may run `git commit --quiet`, which asks once per session",
    )


def test_a_note_and_an_expiry_count_for_other_spellings_too() -> None:
    stricter = {"pattern": "rm -rf", "approval": "required", "note": "look at the folder", "expires": "5m"}
    rules = [{"pattern": "rm", "approval": "none"}, {"pattern": "git push", "approval": "required"}, stricter]
    policy = Policy.from_dict({"default": "none", "shell": {"default": "required", "rules": rules}})
    assert judge(policy, "rm x -fr").reason == "it may run `rm -rf`, which asks: look at the folder"
    assert judge(policy, "rm x -fr").expires == judge(policy, "git push; rm x -fr").expires == 300


def test_an_explanation_shows_the_looser_rule_and_the_one_that_was_suspected() -> None:
    policy = policy_with({"rm": "none", "git push": "required", "rm -rf": "required"})
    _, considered = policy.explain(ToolCall(tool="shell", args={"command": "git push && rm -r x -f"}))
    shown = [(each.part, each.approval, str(each.rule)) for each in considered if each.part]
    assert shown == [
        ("git push", "required", "policy shell.rules[1]"),
        ("rm -r x -f", "none", "policy shell.rules[0]"),
        ("rm -r x -f", "required", "policy shell.rules[2]"),
    ]


@pytest.mark.proves("H13")
def test_a_question_that_stands_beside_another_is_not_answered_by_its_memory() -> None:
    policy = policy_with(
        {"git push": "required", "git commit": "none", "git commit --amend": "required", "echo": "none"}
    )
    assert judge(policy, "git push").scopes
    assert judge(policy, "git push && git commit -m x").scopes
    for line in ("git push && git commit -m x --amend", "git commit -m x --amend", "git push; git commit --am"):
        assert not judge(policy, line).scopes


@pytest.mark.proves("H13")
@pytest.mark.parametrize(
    "line",
    ["docker exec c rm -fr x", "ssh host 'rm x -rf'", "echo 'rm x -rf' | bash", "npx rm -r x -f", "env -S 'rm x -rf'"],
)
def test_a_rule_that_asks_is_found_where_a_block_would_be(line: str) -> None:
    looser = ("docker exec", "ssh", "npx", "bash", "echo", "env", "rm")
    policy = policy_with({**dict.fromkeys(looser, "none"), "rm -rf": "required"})
    assert judge(policy, line).approval == "required"


@pytest.mark.proves("H13")
@pytest.mark.parametrize("line", ["ssh me@prod", "ssh -l me PROD", "ssh ssh://me@prod:22", "ssh -v prod. uptime"])
def test_a_host_that_asks_is_found_in_every_spelling(line: str) -> None:
    policy = policy_with({"ssh": "none", "ssh prod": "required"})
    assert judge(policy, line).approval == "required"
    assert judge(policy, "ssh me@production uptime").approval == "none"


# The corpus itself.


def test_the_corpus_is_large_and_says_nothing_twice() -> None:
    spelled, everyday = ([(name, line) for name in CASES for line in table[name]] for table in (SPELLED, EVERYDAY))
    for lines in (spelled, everyday):
        assert len(lines) >= 200
        assert len(set(lines)) == len(lines)
    assert not set(spelled) & set(everyday)


def test_a_path_is_the_same_one_from_the_root_of_the_file_system(tmp_path: Path) -> None:
    rules = [{"pattern": "cat", "approval": "none"}, {"pattern": "cat keys/.env", "approval": "blocked"}]
    policy = Policy.from_dict({"default": "required", "shell": {"default": "required", "rules": rules}}, base=tmp_path)
    for path in ("keys/.env", "x/../keys/.env", "./keys/./.env"):
        assert judge(policy, f"cat {tmp_path}/{path}").approval == "blocked"
