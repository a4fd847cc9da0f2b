"""Measures the profiles: runs every harmless option of the installed programs, and tells what else they did."""

from __future__ import annotations

import re
import shutil
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.trials.plan import Trial, plan
from tests.trials.sandbox import Outcome, Sandbox
from tests.trials.trace import Effects

from sayso.policy.shell.proof.catalogue import profile_files, read_profile
from sayso.policy.shell.proof.profile import ProfileData


class Measured(NamedTuple):
    """Result for one program: its version, the runs, those that the program accepted, and the violations."""

    program: str
    version: str
    options: int
    runs: int
    accepted: int
    violations: tuple[str, ...]


def measure(sandbox: Sandbox, program: str, profile: ProfileData) -> Measured:
    """Run every trial of a program."""
    counts: Counter[str] = Counter()
    options: set[tuple[str, str]] = set()
    violations: list[str] = []
    for trials in plan(profile, program):
        bare = sandbox.run(trials[0].argv)
        violations += told(trials[0], bare, Effects())
        for trial in trials[1:]:
            outcome = sandbox.run(trial.argv)
            counts.update(runs=1, accepted=outcome.code == bare.code)
            options.add((trial.command, trial.option))
            violations += told(trial, outcome, bare.effects)
    return Measured(
        program, version(sandbox, program), len(options), counts["runs"], counts["accepted"], tuple(violations)
    )


def told(trial: Trial, outcome: Outcome, bare: Effects) -> Iterator[str]:
    """Yield what a run did beyond the bare line (or, for that line, beyond what its profile says)."""
    found = outcome.effects
    others = frozenset(each for each in found.started if not _is_itself(each, trial.argv[0]))
    kinds = {
        "writes": found.wrote - bare.wrote,
        "starts": others - bare.started,
        "reaches": found.reached - bare.reached,
    }
    for kind, things in kinds.items():
        # Programs that the bare line does not start are never expected.
        if things and (kind not in trial.effects or (kind == "starts" and trial.option)):
            shown = " ".join(trial.argv)
            yield f"`{shown}` {kind}: {', '.join(sorted(things)[:4])}"
    if outcome.code is None:
        yield f"`{' '.join(trial.argv)}` did not end"


def _is_itself(started: str, program: str) -> bool:
    """Whether a program starts itself or a part of itself, as git starts git-upload-pack."""
    return re.fullmatch(rf"{re.escape(program)}(?:-[\w-]+)?", Path(started).name) is not None


def version(sandbox: Sandbox, program: str) -> str:
    """Return the first line of what the program says of its version."""
    said = sandbox.run([program, "--version"])
    return (
        next((line.strip()[:60] for line in said.output.splitlines() if any(map(str.isdigit, line))), "")
        if said.code == 0
        else ""
    )


def table(results: Sequence[Measured]) -> str:
    """Return the results as a table in Markdown."""
    rows = [
        f"| {each.program} | {each.version.replace('|', ' ')} | {each.options} | {each.runs} | {each.accepted} "
        f"| {len(each.violations)} |"
        for each in results
    ]
    return "\n".join(
        ["| program | version | options | runs | accepted | violations |", "|---|---|---:|---:|---:|---:|", *rows]
    )


def main(arguments: Sequence[str]) -> int:
    """Measure these programs, or all that are installed; the exit code tells of violations."""
    target = Path(arguments[arguments.index("--write") + 1]) if "--write" in arguments else None
    names = [each for each in arguments if not each.startswith("-") and each != str(target)]
    sandbox = Sandbox()
    results: list[Measured] = []
    try:
        for program in names or sorted(profile_files()):
            if shutil.which(program, path=sandbox.path) is None:
                print(f"{program}: not installed", file=sys.stderr)
                continue
            result = measure(sandbox, program, read_profile(profile_files()[program]))
            if result.runs or result.violations:
                results.append(result)
                print(f"{program}: {result.options} options, {result.runs} runs, {len(result.violations)} violations")
                print("".join(f"  {each}\n" for each in result.violations), end="", flush=True)
    finally:
        sandbox.close()
    if target is not None:
        target.write_text(table(results) + "\n", encoding="utf-8")
    return 1 if any(each.violations for each in results) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
