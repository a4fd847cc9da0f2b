"""Whatever the lexer accepts, bash reads in the same way: random scripts, with the real bash as the oracle.

`SAYSO_FUZZ_SEED` gives another seed; `--slow` gives it ten minutes.
"""

import os
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import PurePosixPath
from typing import Protocol

import pytest
from tests.policy.shell.bash_oracle import Argv, Observation, counted, observe
from tests.policy.shell.script_maker import scripts

from sayso.policy.shell.lexer import NotProvable, Part, lex

SEED = int(os.environ.get("SAYSO_FUZZ_SEED", "20260820"))
BATCH = 64
SHOWN = 5
LEAST_SHARE = 0.05


class Redirect(Protocol):
    """What this test reads of a redirection: `2`, `>&` and `1` of `2>&1`."""

    @property
    def fd(self) -> str: ...
    @property
    def operator(self) -> str: ...
    @property
    def target(self) -> str: ...


@dataclass
class Prediction:
    """The commands that would run, unless a redirection that may fail makes it unsure."""

    argvs: list[Argv] = field(default_factory=list[Argv])
    sure: bool = True


@dataclass
class Fuzz:
    """How many scripts were generated and accepted, and what went wrong."""

    seed: int
    generated: int = 0
    accepted: int = 0
    mismatches: list[str] = field(default_factory=list[str])

    def run(self, seconds: float) -> None:
        source = self.accepted_scripts()
        end = time.monotonic() + seconds
        while time.monotonic() < end and len(self.mismatches) < SHOWN:
            batch = list(islice(source, BATCH))
            if not batch:
                break
            seen = observe([script for script, _ in batch])
            for (script, parts), observation in zip(batch, seen, strict=True):
                problems = list(compare(parts, observation))
                if problems:
                    self.mismatches.append("\n  ".join([repr(script), *problems]))

    def accepted_scripts(self) -> Iterator[tuple[str, Sequence[Part]]]:
        for script in scripts(self.seed):
            self.generated += 1
            try:
                parts = lex(script)
            except NotProvable:
                if self.generated > 1000 and self.accepted < self.generated * LEAST_SHARE / 10:
                    return  # nearly nothing is accepted: say so instead of looking on without end
                continue
            self.accepted += 1
            yield script, parts

    def verify(self) -> None:
        told = f"seed {self.seed}: {self.generated} scripts, {self.accepted} of them accepted"
        print(told)
        shown = "\n".join(self.mismatches[:SHOWN])
        assert not self.mismatches, f"{told}, and bash reads some of these otherwise:\n{shown}"
        assert self.accepted >= self.generated * LEAST_SHARE, f"{told}: that proves nothing"


# What the parts say that bash will do.


def predict(parts: Sequence[Part], *, succeeds: bool) -> Prediction:
    """Work out what runs if every command succeeds, or if every one fails."""
    prediction = Prediction()
    for and_or in split(parts, ("&&", "||", "|", "|&")):
        status, operator = True, "&&"
        for pipeline in split(and_or, ("|", "|&")):
            if status == (operator == "&&"):
                status = run(pipeline, prediction, succeeds=succeeds)
            operator = pipeline[-1].operator
    return prediction


def split(parts: Sequence[Part], joining: Sequence[str]) -> Iterator[list[Part]]:
    """Cut the parts after each whose operator does not join it to the next."""
    group: list[Part] = []
    for part in parts:
        group.append(part)
        if part.operator not in joining:
            yield group
            group = []
    if group:
        yield group


def run(pipeline: Sequence[Part], prediction: Prediction, *, succeeds: bool) -> bool:
    """Note what a pipeline runs, and return its status: that of its last command."""
    status = True
    for part in pipeline:
        if (part.argv and part.argv[0].startswith("%")) or not all(map(surely_opens, part.redirects)):
            prediction.sure = False  # `%` stands for `fg %` if bash need not fork for it
        found = bool(part.argv) and "/" not in part.argv[0]  # the oracle hears nothing of a name with a slash
        if found:
            prediction.argvs.append(part.argv)
        status = succeeds if found else not part.argv
    return status


def surely_opens(redirect: Redirect) -> bool:
    """Whether a redirection works in the folder of the oracle, whatever ran before."""
    if is_copy(redirect):
        return len(redirect.fd) < 2 and len(redirect.target) < 2
    if redirect.target == "/dev/null":
        return True
    if ">" in redirect.operator:
        return re.fullmatch(r"[\w ]+", redirect.target) is not None
    return redirect.target == "f"


def is_copy(redirect: Redirect) -> bool:
    """Whether it copies a descriptor, such as `2>&1`."""
    return redirect.operator in (">&", "<&") and re.fullmatch(r"\d+", redirect.target, re.ASCII) is not None


def announced_files(parts: Sequence[Part]) -> set[str]:
    """The files that the parts say they write, as names in the folder."""
    writes = (each for part in parts for each in part.redirects if ">" in each.operator and not is_copy(each))
    return {str(PurePosixPath(each.target)) for each in writes if each.target != "/dev/null"}


# What bash did.


def compare(parts: Sequence[Part], seen: Observation) -> Iterator[str]:
    """Yield every difference between what the parts say and what bash did."""
    if seen.syntax_error:
        yield f"is a syntax error to bash, but was read as {parts}"
    for succeeds, argvs in ((True, seen.argvs_when_true), (False, seen.argvs_when_false)):
        prediction = predict(parts, succeeds=succeeds)
        listed, ran = counted(prediction.argvs), counted(argvs)
        # Where a redirection may fail, its command may not run: then nothing may run that the parts do not list.
        if ran != listed if prediction.sure else not ran <= counted(part.argv for part in parts):
            outcome = "succeeds" if succeeds else "fails"
            yield f"if every command {outcome}, bash runs {sorted(ran.elements())}, not {sorted(listed.elements())}"
    unannounced = set(seen.files) - announced_files(parts)
    if unannounced:
        yield f"touches {sorted(unannounced)}, of which {parts} say nothing"


def test_bash_runs_exactly_what_the_lexer_reads() -> None:
    fuzz = Fuzz(SEED)
    fuzz.run(seconds=10)
    fuzz.verify()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_bash_runs_exactly_what_the_lexer_reads_for_ten_minutes() -> None:
    fuzz = Fuzz(SEED + 1)
    fuzz.run(seconds=600)
    fuzz.verify()


@pytest.mark.parametrize(
    ("script", "when_true", "when_false"),
    [
        ("a && b || c", "ab", "ac"),
        ("a || b && c", "ac", "ab"),
        ("a | b && c; d", "abcd", "abd"),
        ("a && b & c || d\ne", "abce", "acde"),
        ("a |& b || c | d & e", "abe", "abcde"),
        ("a/b && c", "", ""),
        ("a/b || c", "c", "c"),
    ],
)
def test_the_prediction_follows_the_operators(script: str, when_true: str, when_false: str) -> None:
    """The arithmetic of the fuzz itself."""
    parts = lex(script)
    assert "".join(argv[0] for argv in predict(parts, succeeds=True).argvs) == when_true
    assert "".join(argv[0] for argv in predict(parts, succeeds=False).argvs) == when_false
