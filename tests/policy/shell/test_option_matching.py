"""A stricter rule inside a looser one is found in every spelling, and everyday lines beside it are not taken for it."""

from functools import cache

import pytest
from tests.policy.shell import spelling_corpus, spelling_corpus_services

from sayso import Policy, ToolCall, Verdict

CASES = {**spelling_corpus.CASES, **spelling_corpus_services.CASES}
SPELLED = [(name, line) for name, case in CASES.items() for lines in case.spelled.values() for line in lines]
EVERYDAY = [(name, line) for name, case in CASES.items() for line in case.everyday]


@cache
def policy_of(name: str, approval: str) -> Policy:
    case = CASES[name]
    rules = [{"pattern": each, "approval": "none"} for each in case.looser]
    rules += [{"pattern": each, "approval": approval} for each in case.stricter]
    return Policy.from_dict({"default": "required", "shell": {"default": "required", "rules": rules}})


def judge(policy: Policy, line: str) -> Verdict:
    return policy.judge(ToolCall(tool="shell", args={"command": line}))


@pytest.mark.proves("R49", "H13")
@pytest.mark.parametrize(("name", "line"), SPELLED, ids=ascii)
def test_another_spelling_of_what_is_blocked_is_blocked(name: str, line: str) -> None:
    verdict = judge(policy_of(name, "blocked"), line)
    assert verdict.approval == "blocked", verdict.reason


@pytest.mark.proves("H13")
@pytest.mark.parametrize(("name", "line"), SPELLED, ids=ascii)
def test_another_spelling_of_what_asks_never_runs_unasked(name: str, line: str) -> None:
    assert judge(policy_of(name, "required"), line).approval == "required"


@pytest.mark.proves("R49")
@pytest.mark.parametrize(("name", "line"), EVERYDAY, ids=ascii)
def test_an_everyday_line_is_not_taken_for_what_is_blocked(name: str, line: str) -> None:
    verdict = judge(policy_of(name, "blocked"), line)
    assert verdict.approval != "blocked", verdict.reason


def test_the_corpus_is_large_and_says_nothing_twice() -> None:
    for lines in (SPELLED, EVERYDAY):
        assert len(lines) >= 200
        assert len(set(lines)) == len(lines)
    assert not set(SPELLED) & set(EVERYDAY)
