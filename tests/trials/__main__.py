"""Measures the profiles: runs every harmless option of the installed programs, and tells what else they did."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sys
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

from tests.trials.plan import Trial, plan
from tests.trials.sandbox import HOME_PREFIX, LIMIT, Outcome, Sandbox
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
    notes: tuple[str, ...] = ()  # lines of the profile that do not end well, so that they prove little


class Part(NamedTuple):
    """Result of a part of the trials of one program."""

    options: frozenset[tuple[str, str]]
    runs: int
    accepted: int
    violations: tuple[str, ...]
    notes: tuple[str, ...]


PART = 150  # trials that are run one behind another; the bare line is run for each part anew


def measure(sandbox: Sandbox, program: str, profile: ProfileData) -> Measured:
    """Run every trial of a program."""
    parts = [measure_part(sandbox, trials) for trials in parts_of(sandbox, program, profile)]
    return together(program, version(sandbox, program), parts)


def parts_of(sandbox: Sandbox, program: str, profile: ProfileData) -> list[list[Trial]]:
    """Return the trials of a program in parts, each with the bare line as its first."""

    def help_of(command: str) -> str:
        return "".join(sandbox.run([*command.split(), word]).output for word in ("--help", "-h"))

    groups = list(plan(profile, program, help_of))
    return [[each[0], *each[at : at + PART]] for each in groups for at in range(1, max(len(each), 2), PART)]


def measure_part(sandbox: Sandbox, trials: Sequence[Trial]) -> Part:
    """Run the bare line, and each of the trials behind it."""
    bare = sandbox.run(trials[0].argv)
    violations = [*told(trials[0], bare, Effects())]
    notes = [] if bare.code in FINE else [f"`{' '.join(trials[0].argv)}` ends with {bare.code}: {bare.output[-200:]!r}"]
    limit = LIMIT if bare.code is None else min(2 + 4 * bare.took, 2 * LIMIT)
    accepted = 0
    for trial in trials[1:]:
        outcome = sandbox.run(trial.argv, min(limit, 2.0) if bare.code is None else limit)
        accepted += outcome.code == bare.code and bare.code in FINE
        violations += told(trial, outcome, bare.effects)
    options = frozenset((trial.command, trial.option) for trial in trials[1:])
    return Part(options, len(trials) - 1, accepted, tuple(violations), tuple(notes))


FINE = frozenset({0, 1, None})  # 1: what diff ends with; None: a program that shows something until it is ended


def together(program: str, version_of_it: str, parts: Sequence[Part]) -> Measured:
    """Return the result of all parts."""
    return Measured(
        program,
        version_of_it,
        len(frozenset[tuple[str, str]]().union(*(each.options for each in parts))),
        sum(each.runs for each in parts),
        sum(each.accepted for each in parts),
        tuple(dict.fromkeys(violation for each in parts for violation in each.violations)),
        tuple(dict.fromkeys(note for each in parts for note in each.notes)),
    )


def told(trial: Trial, outcome: Outcome, bare: Effects) -> Iterator[str]:
    """Yield what a run did beyond the bare line (or, for that line, beyond what its profile says)."""
    found = outcome.effects
    others = frozenset(each for each in found.started if not _is_itself(each, trial.argv[0]))
    kinds = {
        "writes": frozenset(_unexpected(found.wrote - bare.wrote, bare.wrote, trial)),
        "starts": others - bare.started,  # programs that the bare line does not start are never expected
        "reaches": frozenset(_beyond(found.reached - bare.reached, trial)),
    }
    for kind, things in kinds.items():
        if things and (trial.option or kind not in trial.effects):
            shown = " ".join(trial.argv)
            yield f"`{shown}` {kind}: {', '.join(sorted(things)[:4])}"


def _unexpected(paths: frozenset[str], bare: frozenset[str], trial: Trial) -> Iterator[str]:
    """Yield the paths that the profile does not expect: it says that the line writes, but not anywhere."""
    places = frozenset(map(_place, bare))
    for path in paths:
        if "writes" not in trial.effects or "pwned" in path or _place(path) not in places:
            yield path


def _place(path: str) -> str:
    """Return the first folder of a path in the sandbox (`.git`), or its beginning elsewhere."""
    _, inside, rest = path.partition(HOME_PREFIX)
    words = rest.split("/")[1:] if inside else path.split("/")[1:]
    return re.sub(r"\d+|[0-9a-f]{6,}", "#", "/".join(words[:2] if len(words) > 2 else words))


def _beyond(addresses: frozenset[str], trial: Trial) -> Iterator[str]:
    """Yield the addresses that the profile does not expect: it says that the line reaches something, but not what."""
    for address in addresses:
        if "reaches" not in trial.effects or re.search(r"port=htons\(9\)|process|listens|RTM_", address):
            yield address


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


class Sandboxes:
    """Sandboxes for work on several threads: each thread gets one that nobody else uses."""

    def __init__(self, count: int) -> None:
        """Make them."""
        self._count = count
        self._free: SimpleQueue[Sandbox] = SimpleQueue()
        for _ in range(count):
            self._free.put(Sandbox())

    @contextlib.contextmanager
    def one(self) -> Generator[Sandbox]:
        """Lend a sandbox."""
        sandbox = self._free.get()
        try:
            yield sandbox
        finally:
            self._free.put(sandbox)

    def close(self) -> None:
        """Remove them all."""
        for _ in range(self._count):
            self._free.get().close()


def measure_all(programs: Sequence[str], count: int) -> Iterator[tuple[str, Measured | None]]:
    """Yield the result of each program, None if it is not installed or has no trial; several trials run at once."""
    sandboxes = Sandboxes(count)

    def prepare(program: str) -> tuple[str, list[list[Trial]]]:
        with sandboxes.one() as sandbox:
            if shutil.which(program, path=sandbox.path) is None:
                return "", []
            parts = parts_of(sandbox, program, read_profile(profile_files()[program]))
            return version(sandbox, program) if parts else "", parts

    def run(trials: list[Trial]) -> Part:
        with sandboxes.one() as sandbox:
            return measure_part(sandbox, trials)

    with ThreadPoolExecutor(count) as workers:
        begun = [(program, workers.submit(prepare, program)) for program in programs]
        for program, prepared in begun:
            version_of_it, groups = prepared.result()
            parts = list(workers.map(run, groups))
            result = together(program, version_of_it, parts)
            yield program, result if result.runs or result.violations else None
    sandboxes.close()


def main(arguments: Sequence[str]) -> int:
    """Measure these programs, or all that are installed; the exit code tells of violations."""
    names = [each for each in arguments if each != "--write"]
    unknown = next((each for each in names if each not in profile_files()), None)
    if unknown is not None:
        print(f"There is no profile of {unknown!r}; add a file, as docs/profiles.md says.", file=sys.stderr)
        return 2
    results: list[Measured] = []
    wanted = names or sorted(profile_files())
    for at, (program, result) in enumerate(measure_all(wanted, os.cpu_count() or 1), start=1):
        if result is None:
            continue
        results.append(result)
        counts = f"{result.options} options, {result.runs} runs, {result.accepted} accepted"
        print(f"{at}/{len(wanted)} {program}: {counts}, {len(result.violations)} violations")
        print("".join(f"  {each}\n" for each in (*result.violations, *result.notes)), end="", flush=True)
    if not results:
        print("None of these programs is installed and has a trial in its profile.", file=sys.stderr)
        return 2
    if "--write" in arguments:
        before = PAGE.read_text(encoding="utf-8") if names and PAGE.exists() else ""
        PAGE.write_text(page(results, datetime.now(UTC).date().isoformat(), before), encoding="utf-8")
    return 1 if any(each.violations for each in results) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
