"""Measures the profiles: runs every harmless option of the installed programs, and tells what else they did."""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from tests.trials.plan import Trial, plan
from tests.trials.sandbox import HOME_PREFIX, Outcome, Sandbox
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
    help_text = sandbox.run([program, "--help"]).output if profile.harmless == "any" else ""
    for trials in plan(profile, program, help_text):
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
        "writes": _lasting(found.wrote) - bare.wrote,
        "starts": others - bare.started,
        "reaches": found.reached - bare.reached,
    }
    for kind, things in kinds.items():
        # Programs that the bare line does not start are never expected.
        if things and (kind not in trial.effects or (kind == "starts" and trial.option)):
            shown = " ".join(trial.argv)
            yield f"`{shown}` {kind}: {', '.join(sorted(things)[:4])}"


def _lasting(paths: frozenset[str]) -> frozenset[str]:
    """Leave out temporary files with random names, which a program makes for itself outside of its folder."""
    scratch = f"{tempfile.gettempdir()}/"
    return frozenset(each for each in paths if not each.startswith(scratch) or HOME_PREFIX in each)


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


def page(results: Sequence[Measured], today: str, before: str = "") -> str:
    """Return the page of the docs with the results; of other programs, those of the page before stay."""
    rows = {line.split(" | ")[0]: line for line in before.splitlines() if _ROW.match(line)}
    for each in results:
        counts = f"{each.options} | {each.runs} | {each.accepted} | {len(each.violations)} |"
        rows[f"| {each.program}"] = f"| {each.program} | {each.version.replace('|', ' ')} | {counts}"
    numbers = [[int(cell) for cell in line.split(" | ")[2:4]] for line in rows.values()]
    options, runs = (sum(column) for column in zip(*numbers, strict=True))
    head = HEAD.format(today=today, programs=len(rows), options=options, runs=runs)
    return head + "\n".join([*(rows[name] for name in sorted(rows)), ""])


_ROW = re.compile(r"\| \S+ \| [^|]*\| \d+ \|")
HEAD = """# Measured profiles

Written by `python3 dev.py harmless --write` on {today}: {programs} programs, {options} spellings of harmless options,
{runs} runs.

Each option that a [profile](profiles.md) calls harmless was run in the line that the profile gives as its `trial`, with
a sample value and with values as an attacker would give them (of a program whose every option is harmless, those that
its `--help` names), in a sandbox without a network, under a trace of system calls. A violation
is a file written, a program started or an address reached that neither the bare line nor the profile's `effects`
account for. *Accepted* counts the runs that ended with the exit code of the bare line: a run that the program refuses
proves little. Programs that are not installed, and sub-commands without a `trial`, are not here;
their profiles rest on manuals.

| program | version | spellings | runs | accepted | violations |
|---|---|---:|---:|---:|---:|
"""
PAGE = Path(__file__).parents[2] / "docs" / "measured-profiles.md"


def measure_apart(program: str) -> Measured | None:
    """Measure a program in a sandbox of its own; None if it is not installed or has no trial."""
    sandbox = Sandbox()
    try:
        if shutil.which(program, path=sandbox.path) is None:
            return None
        result = measure(sandbox, program, read_profile(profile_files()[program]))
    finally:
        sandbox.close()
    return result if result.runs or result.violations else None


def main(arguments: Sequence[str]) -> int:
    """Measure these programs, or all that are installed; the exit code tells of violations."""
    names = [each for each in arguments if each != "--write"]
    unknown = next((each for each in names if each not in profile_files()), None)
    if unknown is not None:
        print(f"There is no profile of {unknown!r}; add a file, as docs/profiles.md says.", file=sys.stderr)
        return 2
    results: list[Measured] = []
    wanted = names or sorted(profile_files())
    with ThreadPoolExecutor(os.cpu_count()) as workers:
        for at, (program, result) in enumerate(zip(wanted, workers.map(measure_apart, wanted), strict=True), start=1):
            if result is None:
                continue
            results.append(result)
            counts = f"{result.options} options, {result.runs} runs, {len(result.violations)} violations"
            print(f"{at}/{len(wanted)} {program}: {counts}")
            print("".join(f"  {each}\n" for each in result.violations), end="", flush=True)
    if not results:
        print("None of these programs is installed and has a trial in its profile.", file=sys.stderr)
        return 2
    if "--write" in arguments:
        before = PAGE.read_text(encoding="utf-8") if names and PAGE.exists() else ""
        PAGE.write_text(page(results, datetime.now(UTC).date().isoformat(), before), encoding="utf-8")
    return 1 if any(each.violations for each in results) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
