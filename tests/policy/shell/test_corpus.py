"""The judge of shell lines, through the policy that an owner would write: what it must and must not let run."""

import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from tests.policy.shell.bash_oracle import BASH, observe
from tests.policy.shell.shell_corpus import ALLOWED, BLOCKED, NONE, NOT_ALLOWED, NOT_BLOCKED, POLICY, Line

from sayso import Policy, ToolCall


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Policy:
    base: Path = tmp_path_factory.mktemp("policy")
    with warnings.catch_warnings(action="ignore"):  # the owner is told that wrappers are allowed, and means it
        return Policy.from_dict(POLICY, base=base)


def words(policy: Policy, lines: Iterable[Line]) -> Iterator[tuple[str, str]]:
    """Yield what the policy says about each line, and a sentence for whoever expected something else."""
    for line in lines:
        verdict = policy.judge(ToolCall(tool="shell", args={"command": line.text}))
        yield verdict.approval, f"{line.text!a} is {verdict.approval!r} ({verdict.reason}), but: {line.why}"


@pytest.mark.proves("H13")
def test_a_line_that_is_not_proved_harmless_does_not_run_unasked(policy: Policy) -> None:
    assert [told for word, told in words(policy, NOT_ALLOWED) if word not in {"required", "blocked"}] == []


@pytest.mark.proves("H13")
def test_a_blocked_command_is_found_wherever_it_hides(policy: Policy) -> None:
    assert [told for word, told in words(policy, BLOCKED) if word != "blocked"] == []


def test_a_line_that_only_mentions_a_blocked_command_is_not_blocked(policy: Policy) -> None:
    assert [told for word, told in words(policy, NOT_BLOCKED) if word == "blocked"] == []


def test_an_ordinary_line_of_allowed_commands_runs(policy: Policy) -> None:
    assert [told for word, told in words(policy, ALLOWED) if word != "none"] == []


# The corpus itself.


def test_the_corpus_is_large_and_says_nothing_twice() -> None:
    lists = (NOT_ALLOWED, BLOCKED, NOT_BLOCKED, ALLOWED)
    assert all(len(lines) >= least for lines, least in zip(lists, (800, 250, 100, 300), strict=True))
    for lines in lists:
        assert len({line.text for line in lines}) == len(lines)
    assert not {line.text for line in ALLOWED} & {line.text for line in (*NOT_ALLOWED, *BLOCKED)}
    assert not {line.text for line in NOT_BLOCKED} & {line.text for line in BLOCKED}


@pytest.mark.skipif(BASH is None, reason="there is no bash here")
def test_bash_runs_only_allowed_commands_in_the_lines_that_must_run() -> None:
    """The expectation is right, whatever the judge says."""
    allowed = [tuple(pattern.split()) for pattern in NONE]
    for line, seen in zip(ALLOWED, observe([line.text for line in ALLOWED]), strict=True):
        assert not seen.syntax_error, line
        assert not seen.files, line
        assert seen.argvs_when_true, line
        for argv in (*seen.argvs_when_true, *seen.argvs_when_false):
            assert any(argv[: len(pattern)] == pattern for pattern in allowed), (line, argv)
