"""Commands of the audit log: list, show, export, and verify its hash chain."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections import deque
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, get_args

import click

from sayso.cli.main import CODES_OF_GROUPS, Commands
from sayso.cli.open_store import (
    CODES_OF_CHAINS,
    CODES_OF_NUMBERS,
    CODES_OF_READING,
    COUNT,
    BrokenChain,
    Failure,
    UnknownId,
    combine_options,
    count_option,
    epilog,
    id_matches,
    json_option,
    store_option,
    with_records,
)
from sayso.cli.screen import bold, exact_lines, say, say_lines, short_path, truncate_visible, visible, width, wrap_text
from sayso.cli.times import moment, read_moment
from sayso.client import archive
from sayso.core import audit as chain
from sayso.core.json_codec import to_json
from sayso.core.model import Step
from sayso.errors import AuditError

if TYPE_CHECKING:
    from sayso.client.records import Records

_PAGE = 1000
_HEAD = 16
_STEPS = get_args(Step)
_COLUMNS = (
    *("number", "at", "agent_at", "step", "tool", "agent_path", "session", "run", "call_id", "request_id", "args"),
    *("final_args", "digest", "approval", "because", "rule", "by", "cause", "reason", "who", "channel", "note"),
    *("remember", "decided_at", "remembered_id", "scope", "result", "seconds", "error", "hash"),
)
_FORMULA = re.compile(r"[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]")  # full-width forms too: some spreadsheets accept them
_TIMES = frozenset({"at", "agent_at", "decided_at"})
EntryFields = dict[str, Any]


@click.group(cls=Commands, epilog=epilog("sayso audit verify --store sayso.db", CODES_OF_GROUPS))
def audit() -> None:
    """See what was decided and done, and check that nobody has changed the record of it."""


# --- list and show -----------------------------------------------------------------------------------


_filter_options = combine_options(
    click.option("--tool", metavar="NAME", help="Only this tool."),
    click.option("--step", type=click.Choice(_STEPS), metavar="STEP", help=f"Only one of: {', '.join(_STEPS)}."),
    click.option("--agent", metavar="NAME", help="Only where this agent is in the path."),
    click.option("--who", metavar="NAME", help="Only what this person answered."),
    click.option("--request", metavar="ID", help="Only the request whose id begins or ends with this."),
    click.option("--since", metavar="TIME", callback=read_moment, help="Only from then on: 2026-01-31, or 2h ago."),
    click.option("--until", metavar="TIME", callback=read_moment, help="Only before then."),
)


@audit.command("list", epilog=epilog("sayso audit list --tool shell --since 2h", CODES_OF_READING))
@store_option
@json_option
@_filter_options
@count_option("--limit", "How many of the newest; 50 if not given.", default=50)
def list_entries(where: str | None, *, as_json: bool, limit: int, **wanted: Any) -> None:  # noqa: ANN401 - options
    """List the newest entries, newest last; with --json one entry on each line."""
    found = with_records(where, lambda records: _newest_entries(records, limit, wanted))
    for entry in found:
        say(to_json(entry) if as_json else _entry_line(entry))
    if not found and not as_json:
        say("There is no such entry.")


@audit.command(epilog=epilog("sayso audit show 42", CODES_OF_NUMBERS))
@store_option
@json_option
@click.argument("number", type=COUNT)
def show(number: int, where: str | None, *, as_json: bool) -> None:
    """Show one entry in full, with its hash."""

    async def work(records: Records) -> EntryFields | None:
        return next((chain.as_dict(*row) for row in await records.audit(number - 1, 1) if row[0] == number), None)

    entry = with_records(where, work)
    if entry is None:
        raise UnknownId(f"the audit has no entry {number}")
    if as_json:
        say(to_json(entry, indent=2))
        return
    say(bold(visible(f"{number}  {entry.get('step', '')}  {entry.get('tool', '')}")))
    for name, value in entry.items():
        say_lines(_field_lines(name, _field_text(name, value)))


def _field_lines(name: str, text: str) -> Iterator[str]:
    if "\n" not in text and len(visible(text)) <= width() - _HEAD:
        yield f"  {visible(name)}".ljust(_HEAD) + visible(text)
        return
    yield from wrap_text(f"{name}:", head=" ", indent=2)
    yield from exact_lines(text, indent=2)


async def _newest_entries(records: Records, limit: int, wanted: Mapping[str, Any]) -> list[EntryFields]:
    """Return the last matching entries, reading backwards in growing pages."""
    (start, _), (end, _) = await records.audit_ends()
    found: deque[EntryFields] = deque()
    size = limit
    while end > start and len(found) < limit:
        after = max(start, end - size)
        piece = [each async for each in _entries_between(records, after, end) if _matches(each, wanted)]
        found.extendleft(reversed(piece[len(found) - limit :]))
        end, size = after, max(size * 2, _PAGE)
    return list(found)


async def _entries_between(records: Records, after: int, last: int) -> AsyncIterator[EntryFields]:
    async for entry in chain.entries(records, after):
        if entry["number"] > last:
            return
        yield entry


def _matches(entry: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    same = all(entry.get(name) == wanted[name] for name in ("tool", "step", "who") if wanted[name] is not None)
    if not same or (wanted["agent"] is not None and wanted["agent"] not in entry.get("agent_path", ())):
        return False
    if wanted["request"] is not None and not id_matches(wanted["request"], str(entry.get("request_id", ""))):
        return False
    at = entry["at"]
    return (wanted["since"] is None or at >= wanted["since"]) and (wanted["until"] is None or at < wanted["until"])


def _entry_line(entry: Mapping[str, Any]) -> str:
    facts = [str(entry["number"]), moment(entry["at"])[:19], str(entry.get("step", "")).ljust(9)]
    if entry.get("step") == "pruned":  # about no call
        return truncate_visible("  ".join([*facts, f"by {entry.get('who')}: {entry.get('reason')}"]), width())
    facts.append(" > ".join([*entry.get("agent_path", ()), str(entry.get("tool", ""))]))
    why = entry.get("who") or entry.get("reason") or entry.get("because") or entry.get("error") or ""
    return truncate_visible("  ".join(facts) + (f": {why}" if why else ""), width())


def _field_text(name: str, value: object) -> str:
    if name in _TIMES and isinstance(value, float | int):
        return moment(value)
    if name == "agent_path" and isinstance(value, list):
        return " > ".join(map(str, value))  # pyright: ignore[reportUnknownArgumentType] - JSON is untyped
    return value if isinstance(value, str) else to_json(value)


# --- verify ------------------------------------------------------------------------------------------


def _parse_known_entry(_: click.Context, __: click.Parameter, value: str | None) -> tuple[int, str] | None:
    if value is None:
        return None
    match = re.fullmatch(r"(\d{1,18}):([0-9a-f]{64})", value.strip().lower(), re.ASCII)
    if match is None:
        raise click.BadParameter("write the number and the hash as `verify` printed them: NUMBER:HASH")
    return int(match[1]), match[2]


@audit.command(epilog=epilog("sayso audit verify --known 42:9f86d081…", CODES_OF_CHAINS))
@store_option
@json_option
@click.option("--known", metavar="NUMBER:HASH", callback=_parse_known_entry, help="An entry that you noted earlier.")
@click.option(
    "--archive",
    "archives",
    type=click.Path(path_type=Path),
    multiple=True,
    metavar="FILE",
    help="What `sayso prune` wrote; may be repeated, in any order.",
)
def verify(where: str | None, *, as_json: bool, known: tuple[int, str] | None, archives: tuple[Path, ...]) -> None:
    """Check that no entry was changed, dropped or moved, and print the last one to note down.

    Keep the note outside the store: with --known, even a chain that was rewritten from start to end is found out.
    """

    async def work(records: Records) -> EntryFields:
        try:
            start = (await records.audit_ends())[0]
            unarchived = archive.join([*archives], start, known)
            last = await records.verify(unarchived)
        except AuditError as error:
            return {"whole": False, "problem": str(error), "first": None, "last": None}
        rows = await records.audit(last - 1, 1) if last else []
        end = {"number": last, "hash": rows[0][2] if rows else chain.START}
        before = min([start, *filter(None, map(archive.start, archives))])[0]
        return {"whole": True, "problem": None, "first": before + 1, "last": end}

    found = with_records(where, work)
    if as_json:
        say(to_json(found, indent=2))
    if not found["whole"]:
        raise BrokenChain(f"the chain is broken: {found['problem']}")
    if not as_json:
        say_lines(wrap_text(_verified_text(found["first"], found["last"]["number"])))
        say(f"{found['last']['number']}:{found['last']['hash']}")


def _verified_text(first: int, last: int) -> str:
    note = "Note its end down elsewhere:"
    if first == 1:
        return f"The chain is whole: {last} {'entry' if last == 1 else 'entries'}. {note}"
    checked = f"The chain is whole from entry {first} to {last}."
    return f"{checked} Entries 1 to {first - 1} were pruned and not checked: name their archives with --archive. {note}"


# --- export ------------------------------------------------------------------------------------------


@audit.command(epilog=epilog("sayso audit export --format csv -o audit.csv", CODES_OF_READING))
@store_option
@click.option("--json", "as_json", is_flag=True, help="The same as --format jsonl.")
@click.option("--format", "form", type=click.Choice(["jsonl", "csv"]), help="One JSON object on each line, or a table.")
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="A new file; else the output.")
@_filter_options
def export(where: str | None, *, as_json: bool, form: str | None, output: Path | None, **wanted: Any) -> None:  # noqa: ANN401 - options
    """Write out every entry, oldest first, however many there are.

    In a table, a text that a spreadsheet would take for a formula has a ' before it.
    """
    if as_json and form == "csv":
        raise click.UsageError("--json and --format csv exclude each other; use one of them")

    async def work(records: Records) -> None:
        await records.audit_ends()  # fails early, before anything is written
        with _open_output(output) as file:
            write = _csv_writer(file) if form == "csv" else _jsonl_writer(file)
            async for entry in chain.entries(records):
                if _matches(entry, wanted):
                    write(entry)

    with_records(where, work)


@contextlib.contextmanager
def _open_output(path: Path | None) -> Generator[IO[str]]:
    """Open a new private file, removed again if the export fails; or stdout."""
    if path is None:
        yield sys.stdout
        sys.stdout.flush()
        return
    shown = short_path(str(path))
    descriptor = archive.new_file(path)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as file:
            yield file
    except OSError as error:
        path.unlink()
        raise Failure(f"{shown} cannot be written ({error.strerror}); make room, or name another place") from None
    except BaseException:
        path.unlink()
        raise


def _jsonl_writer(file: IO[str]) -> Callable[[EntryFields], object]:
    return lambda entry: file.write(to_json(entry) + "\n")


def _csv_writer(file: IO[str]) -> Callable[[EntryFields], object]:
    import csv  # noqa: PLC0415 - only the CSV export needs it

    table = csv.writer(file)
    table.writerow(_COLUMNS)
    return lambda entry: table.writerow([_cell(name, entry.get(name)) for name in _COLUMNS])


def _cell(name: str, value: object) -> object:
    """Return a CSV cell; a leading formula character is escaped (CSV injection)."""
    if value is None or (isinstance(value, int | float) and name not in _TIMES):
        return value
    text = visible(_field_text(name, value))
    return f"'{text}" if _FORMULA.match(text) else text
