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

from tests.trials.plan import ATTACKS, SLOW_ATTACKS, Trial, plan
from tests.trials.sandbox import HOME_PREFIX, LIMIT, Outcome, Sandbox
from tests.trials.trace import Effects

from sayso.policy.shell.proof.catalogue import profile_files, read_profile
from sayso.policy.shell.proof.profile import ProfileData


class Measured(NamedTuple):
    """Result for one program: its version, the runs, those that the program accepted, and the violations."""

    program: str
    version: str
    options: int
    taken: int  # options that one run or more accepted
    runs: int
    accepted: int
    violations: tuple[str, ...]
    notes: tuple[str, ...] = ()  # lines of the profile that do not end well, so that they prove little
    refused: tuple[str, ...] = ()  # options that no run accepted


class Part(NamedTuple):
    """Result of a part of the trials of one program."""

    options: frozenset[tuple[str, str]]
    taken: frozenset[tuple[str, str]]
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
    fine = tells(sandbox, trials, bare)
    notes = [] if fine else [f"`{' '.join(trials[0].argv)}` ends with {bare.code}: {bare.output[-200:]!r}"]
    limit = LIMIT if bare.code is None else min(2 + 4 * bare.took, 2 * LIMIT)
    accepted: list[tuple[str, str]] = []
    attached: set[str] = set()  # options that take their value in one word
    runs = 0
    for trial in trials[1:]:
        if (bare.took > SLOW or not fine) and trial.value in SKIPPED:
            continue
        for argv in (trial.argv, trial.apart) if trial.apart and trial.option not in attached else (trial.argv,):
            outcome = sandbox.run(argv, min(limit, 2.0) if bare.code is None else limit)
            runs += 1
            violations += told(trial._replace(argv=argv), outcome, bare.effects)
            if outcome.code == 0 or (fine and outcome.code == bare.code):
                accepted.append((trial.command, trial.option))
                attached.update([trial.option] if argv == trial.argv else [])
                break
    options = frozenset((trial.command, trial.option) for trial in trials[1:])
    return Part(options, frozenset(accepted), runs, len(accepted), tuple(violations), tuple(notes))


SLOW = 0.4  # seconds
SKIPPED = frozenset(ATTACKS) - SLOW_ATTACKS


def tells(sandbox: Sandbox, trials: Sequence[Trial], bare: Outcome) -> bool:
    """Whether the exit code of the bare line means that its options were accepted: a wrong one ends with another."""
    if bare.code in {0, None}:  # none: a program that shows something until it is ended
        return True
    option = next((each for each in trials[1:] if each.value is None and each.argv.count(each.option) == 1), None)
    if option is None:
        return False
    wrong = [NO_OPTION if word == option.option else word for word in option.argv]
    return sandbox.run(wrong).code != bare.code


NO_OPTION = "--no-such-option-of-any-program"


def together(program: str, version_of_it: str, parts: Sequence[Part]) -> Measured:
    """Return the result of all parts."""
    options = frozenset[tuple[str, str]]().union(*(each.options for each in parts))
    taken = frozenset[tuple[str, str]]().union(*(each.taken for each in parts))
    return Measured(
        program,
        version_of_it,
        len(options),
        len(taken),
        sum(each.runs for each in parts),
        sum(each.accepted for each in parts),
        tuple(dict.fromkeys(violation for each in parts for violation in each.violations)),
        tuple(dict.fromkeys(note for each in parts for note in each.notes)),
        tuple(" ".join(each) for each in sorted(options - taken)),
    )


FILTERS = frozenset({"bzip2", "gzip", "lzip", "lzma", "xz", "zstd"})  # a program that unpacks may start them


def told(trial: Trial, outcome: Outcome, bare: Effects) -> Iterator[str]:
    """Yield what a run did beyond the bare line (or, for that line, beyond what its profile says)."""
    found = outcome.effects
    others = frozenset(each for each in found.started if not _is_itself(each, trial.argv[0]))
    if "starts" in trial.effects:
        others = frozenset(each for each in others if Path(each).name not in FILTERS)
    kinds = {
        "writes": frozenset(_unexpected(outcome, bare.wrote, trial)),
        "starts": others - bare.started,  # programs that the bare line does not start are never expected
        "reaches": frozenset(_beyond(found.reached - bare.reached, trial)),
    }
    for kind, things in kinds.items():
        if things and (trial.option or kind not in trial.effects):
            shown = " ".join(trial.argv)
            yield f"`{shown}` {kind}: {', '.join(sorted(things)[:4])}"


def _unexpected(outcome: Outcome, bare: frozenset[str], trial: Trial) -> Iterator[str]:
    """Yield the paths that the profile does not expect: it says that the line writes, but not anywhere.

    Of such a line, files are expected that do not last, lie in a folder where the bare line writes, or have the name of
    one of its files and more (`in.txt.gz`, `v2-0001-x.patch`).
    """
    paths = outcome.effects.wrote - bare
    if "writes" not in trial.effects:
        yield from paths
        return
    places = frozenset(map(_place, bare))
    for path in paths - outcome.passing:
        named = path.startswith(tuple(bare)) or Path(path).name.endswith(tuple(_names(bare)))
        if _place(path) not in places and not named:
            yield path


def _names(paths: frozenset[str]) -> Iterator[str]:
    """Yield the names of files; those of folders have no dot inside."""
    yield from (name for name in (Path(each).name for each in paths) if "." in name.strip("."))


def _place(path: str) -> str:
    """Return the first folder of a path in the sandbox (`.git`), or its beginning elsewhere."""
    _, inside, rest = path.partition(HOME_PREFIX)
    words = rest.split("/")[1:] if inside else path.split("/")[1:]
    return re.sub(r"\d+|[0-9a-f]{6,}", "#", "/".join(words[:2] if len(words) > 2 else words))


def _beyond(addresses: frozenset[str], trial: Trial) -> Iterator[str]:
    """Yield the addresses that the profile does not expect: it says that the line reaches something, but not what."""
    never = r"process|listens|RTM_" if "anywhere" in trial.effects else r"process|listens|RTM_|port=htons\(9\)"
    for address in addresses:
        if "reaches" not in trial.effects or re.search(never, address):
            yield address


def _is_itself(started: str, program: str) -> bool:
    """Whether a program starts itself or a part of itself, as git starts git-upload-pack."""
    return re.fullmatch(rf"{re.escape(program)}(?:-[\w-]+)?", Path(started).name) is not None


def version(sandbox: Sandbox, program: str) -> str:
    """Return the first line of what the program says of its version."""
    said = sandbox.run([program, "--version"])
    return (
        next((_of_version(line) for line in said.output.splitlines() if any(map(str.isdigit, line))), "")
        if said.code == 0
        else ""
    )


def _of_version(line: str) -> str:
    """Return the beginning of a line, but no place of this machine (`pip 26.3 from /…`)."""
    return line.partition(" from /")[0].strip()[:60]


def page(results: Sequence[Measured], today: str, before: str = "") -> str:
    """Return the page of the docs with the results; of other programs, those of the page before stay."""
    rows = {line.split(" | ")[0]: line for line in before.splitlines() if _ROW.match(line)}
    for each in results:
        counts = f"{each.options} | {each.taken} | {each.runs} | {each.accepted} | {len(each.violations)} |"
        rows[f"| {each.program}"] = f"| {each.program} | {each.version.replace('|', ' ')} | {counts}"
    numbers = [[int(cell) for cell in line.split(" | ")[2:6]] for line in rows.values()]
    options, taken, runs, accepted = (sum(column) for column in zip(*numbers, strict=True))
    findings = FINDINGS.read_text(encoding="utf-8")
    head = HEAD.format(
        findings=findings, today=today, programs=len(rows), options=options, taken=taken, runs=runs, accepted=accepted
    )
    return head + "\n".join([*(rows[name] for name in sorted(rows)), ""])


_ROW = re.compile(r"\| \S+ \| [^|]*\| \d+ \| \d+ \| \d+ \| \d+ \| \d+ \|")
HEAD = """# Measured profiles

Written by `python3 dev.py harmless --write` on {today}: {programs} programs, {options} spellings of harmless options
({taken} accepted), {runs} runs ({accepted} accepted).

Each option that a [profile](profiles.md) calls harmless was run in the line that the profile gives as its `trial`, with
a sample value and with values as an attacker would give them, in a sandbox without a network, under a trace of system
calls. Of a program whose every option is harmless, those that its `--help` names are tried; options that stand
everywhere are tried with one command; a program that takes long, or fails by itself, gets fewer values. A violation is
one of these, if neither the bare line nor the profile's `effects` account for it:

- a file that is written, deleted or changed (seen in the trace, and in the folders afterwards), also where the sandbox
  refused it, or a change of the machine, as of its clock;
- a program that is started, or looked for in vain;
- an address that is reached, a port that is opened, a signal to a process that is not of this run.

A run is *accepted* if it ended well, or as the bare line did: what the program refuses proves little. An option is
accepted if one of its runs was; most of the refused ones belong to another version of the program, or exclude the
line's words.
Not seen is what an option makes the program *read*, what happens only at a terminal (a pager, a prompt), and what
happens only if a server answers. Programs that are not installed, and sub-commands without a `trial`, are not here;
their profiles rest on manuals.

{findings}
| program | version | options | accepted | runs | accepted | violations |
|---|---|---:|---:|---:|---:|---:|
"""
FINDINGS = Path(__file__).with_name("findings.md")  # what was found on the way, written by hand
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
    """Measure these programs, or all that are installed; the exit code tells of violations.

    `--write` writes the table; `--refused` names the options that no run accepted.
    """
    names = [each for each in arguments if each not in {"--write", "--refused"}]
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
        counts = f"{result.taken} of {result.options} options, {result.accepted} of {result.runs} runs accepted"
        print(f"{at}/{len(wanted)} {program}: {counts}, {len(result.violations)} violations")
        if "--refused" in arguments:
            print(f"  refused: {', '.join(result.refused)}")
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
