"""Store resolution (`--store`), lookup of short ids, and exit codes of commands.

Tests: tests/cli/test_approve_deny.py
"""

from __future__ import annotations

import asyncio
import contextlib
import getpass
import os
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import click

from sayso.cli.main import EXIT_CODES
from sayso.cli.render_request import call_text
from sayso.cli.screen import short_path, truncate_visible, visible, width
from sayso.client.inbox import StoreInbox, search_history
from sayso.client.records import StoreRecords
from sayso.core.filters import RequestFilter
from sayso.engine import settings
from sayso.engine.settings import DEFAULT_STORE
from sayso.errors import ConfigurationError, StoreError

if TYPE_CHECKING:
    from sayso.client.inbox import Inbox
    from sayso.client.records import Records
    from sayso.core.model import ApprovalRequest, ParkedRun, Remembered
    from sayso.core.ports import Store
    from sayso.core.tokens import Token


class _AsyncCloseable(Protocol):
    async def aclose(self) -> None: ...


T = TypeVar("T")
OptionDecorator = Callable[[Callable[..., Any]], Callable[..., Any]]
OpenedT = TypeVar("OpenedT", bound=_AsyncCloseable)
RecordT = TypeVar("RecordT", "ApprovalRequest", "ParkedRun", "Remembered", "Token")

CODES_OF_READING = f"Ends with: {EXIT_CODES}."
CODES_OF_IDS = f"Ends with: {EXIT_CODES}, 3 no such id, 4 several ids match."
CODES_OF_NUMBERS = f"Ends with: {EXIT_CODES}, 3 no such entry."
CODES_OF_ANSWERS = (
    f"Ends with: {EXIT_CODES}, 3 no such id, 4 several ids match, 5 somebody else has answered, "
    "6 expired or withdrawn. Of several answers, the first that is not taken counts."
)
CODES_OF_CHAINS = f"Ends with: {EXIT_CODES}, 7 the chain is broken."

COUNT = click.IntRange(min=1, max=1_000_000_000)  # a larger number is a typing error
_SHORTEST = 4  # characters that may be typed
_SHOWN = 6  # characters that are shown at least, so that later ids rarely end alike
_WHOLE = 32
_MOST_CANDIDATES = 10
_HOW = "name one with --store FILE, or in the environment variable SAYSO_STORE"
ELSE_STORE = f"else what SAYSO_STORE names, else {DEFAULT_STORE} here"
_FORMS = "use a file such as sayso.db, postgresql://… or https://… of a hub"


class Failure(click.ClickException):
    """Error with one sanitised sentence, and lines that are ready to print."""

    def __init__(self, sentence: str, *lines: str) -> None:
        super().__init__("\n".join([visible(sentence), *lines]))


class UnknownId(Failure):
    """No record has this id."""

    exit_code = 3


class AmbiguousId(Failure):
    """Several records match this part of an id."""

    exit_code = 4


class AlreadyAnswered(Failure):
    """Conflict: another approver answered first."""

    exit_code = 5


class NoLongerOpen(Failure):
    """Conflict: the request has expired or was withdrawn."""

    exit_code = 6


class BrokenChain(Failure):
    """The hash chain of the audit does not verify."""

    exit_code = 7


def combine_options(*options: OptionDecorator) -> OptionDecorator:
    """Return one decorator for several options, which help lists in this order."""
    return lambda command: reduce(lambda inner, option: option(inner), reversed(options), command)


def count_option(name: str, text: str, *, default: int | None = None) -> OptionDecorator:
    """Return an option for a positive number."""
    return click.option(name, type=COUNT, default=default, metavar="NUMBER", help=text)


def _store_option(forms: str) -> OptionDecorator:
    return click.option(
        *("--store", "where"),
        type=click.Path(),  # so that shells complete it
        metavar="FILE",
        envvar="SAYSO_STORE",
        help=f"The store: {forms}; {ELSE_STORE}.",
    )


def login_name() -> str:
    """Return the login name."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container's user may have no passwd entry
        return f"user {os.getuid()}"


store_option = _store_option("a file, postgresql://… or https://… of a hub (its token in SAYSO_TOKEN)")
own_store_option = _store_option("a file or postgresql://…")  # for a command that does not work through a hub
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
who_option = click.option("--who", metavar="NAME", default=login_name, help="Who you are; else your login name.")


def epilog(example: str, codes: str) -> str:
    """Return the epilog of a command's help: an example and the exit codes."""
    return f"Example: {example}\n\n{codes}"


# --- The store ---------------------------------------------------------------------------------------


def with_store(where: str | None, work: Callable[[Store], Awaitable[T]]) -> T:
    """Run work with an existing store; every failure becomes one sentence."""
    place = existing_store(where)
    return _run_with(lambda: settings.open_store(place), work)


def with_inbox(where: str | None, work: Callable[[Inbox], Awaitable[T]]) -> T:
    """Run work with the inbox of a store or, for a web address, of a hub."""
    if not settings.is_hub(where):
        return with_store(where, lambda store: work(StoreInbox(store)))
    from sayso.client.hub_inbox import HubInbox  # noqa: PLC0415 - needs the extra `remote`

    return with_hub(HubInbox, where, work)


def with_records(where: str | None, work: Callable[[Records], Awaitable[T]]) -> T:
    """Run work with the records of a store or, for a web address, of a hub."""
    if not settings.is_hub(where):
        return with_store(where, lambda store: work(StoreRecords(store)))
    from sayso.client.hub_records import HubRecords  # noqa: PLC0415 - as above

    return with_hub(HubRecords, where, work)


def with_hub(kind: Callable[[str, str], OpenedT], url: str, work: Callable[[OpenedT], Awaitable[T]]) -> T:
    """Run work with a client of a hub and the token in SAYSO_TOKEN; every failure becomes one sentence."""
    return _run_with(lambda: kind(url, settings.hub_token()), work)


def _run_with(connect: Callable[[], OpenedT], work: Callable[[OpenedT], Awaitable[T]]) -> T:
    async def connected() -> T:
        async with contextlib.aclosing(connect()) as opened:
            return await work(opened)

    try:
        return asyncio.run(connected())
    except (StoreError, ConfigurationError, ImportError) as error:
        raise Failure(str(error)) from None


def existing_store(where: str | None) -> Path | str:
    """Return the file of the store, or the address of its database; if none is named, the default file.

    A file must exist: a new store would hold no requests.
    """
    if not where and not Path(DEFAULT_STORE).exists():
        raise Failure(f"there is no {DEFAULT_STORE} in this folder, and no other store is named; {_HOW}")
    place = where or DEFAULT_STORE
    return place if settings.is_database(place) else _existing_file(place)


def _existing_file(where: str) -> Path:
    path = settings.store_file(where)
    if settings.is_hub(where):
        raise Failure(f"{settings.redact_address(where)} is a hub, and this command works on the store itself; {_HOW}")
    if path is None:
        raise Failure(f"{settings.redact_address(where)} is not a store that two programs can share; {_FORMS}")
    shown = short_path(str(path))
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        raise Failure(f"there is no store {shown}; {_HOW}") from None
    except OSError as error:
        raise Failure(f"the store {shown} cannot be read: {error.strerror}; {_HOW}") from None
    if not path.is_file():
        raise Failure(f"{shown} is not a file, so it is not a store; {_HOW}")
    if not os.access(path, os.R_OK):
        raise Failure(f"the store {shown} cannot be read: Permission denied; check its rights")
    if size == 0:
        raise Failure(f"{shown} is empty, so it is not a store; {_HOW}")
    return path


# --- Ids ---------------------------------------------------------------------------------------------


def short_ids(ids: Iterable[str]) -> dict[str, str]:
    """Return the shortest unique suffix of each id; ids begin with the time, so their prefixes look alike."""
    left = set(ids)
    whole, found = tuple(left), dict[str, str]()
    for length in range(_SHOWN, _WHOLE):
        ends, starts = Counter(each[-length:] for each in whole), {each[:length] for each in whole}
        clear = {each: end for each in left if ends[end := each[-length:]] == 1 and end not in starts}
        found |= clear
        left -= clear.keys()
        if not left:
            break
    return found | {each: each for each in left}


def short_id(whole: str) -> str:
    """Return the short suffix of a single id."""
    return short_ids([whole])[whole]


def id_matches(part: str, whole: str) -> bool:
    """Whether an id begins or ends with this part."""
    return whole.startswith(part) or whole.endswith(part)


def _normalize_id_part(part: str) -> str:
    """Normalise a typed part of an id; reject one that is malformed or too short."""
    plain = part.strip().lower().replace("-", "")
    if not plain or set(plain) - set("0123456789abcdef") or len(plain) > _WHOLE:
        raise UnknownId(f"{part!r} is not an id; see the ids with `sayso pending --all`")
    if len(plain) < _SHORTEST:
        raise AmbiguousId(f"{part!r} is too short for an id; write {_SHORTEST} characters or more of it")
    return plain


async def find_request(inbox: Inbox, part: str) -> ApprovalRequest:
    """Return the one request whose id begins or ends with this part."""
    named = RequestFilter(id_part=_normalize_id_part(part))
    page = await search_history(inbox, named, _MOST_CANDIDATES + 1)
    if page.following is not None and len(page.found) <= _MOST_CANDIDATES:
        raise AmbiguousId(f"too many ids begin or end with {part!r} to compare them all; write more of it")
    unknown = "no request has the id {!r}; see the ids with `sayso pending --all`"
    return find_by_id(page.found, part, unknown, lambda each: f"{each.status}: {call_text(each)}")


async def find_requests(inbox: Inbox, parts: Iterable[str]) -> list[ApprovalRequest]:
    """Return the requests that these parts of ids name, each once; the first part that names none or several raises."""
    found = [await find_request(inbox, part) for part in parts]
    return list({each.id: each for each in found}.values())


def find_by_id(known: Iterable[RecordT], part: str, unknown: str, describe: Callable[[RecordT], str]) -> RecordT:
    """Return the one record whose id begins or ends with this part; an error lists all matches, each described."""
    part = _normalize_id_part(part)
    found = [each for each in known if id_matches(part, each.id)]
    if not found:
        raise UnknownId(unknown.format(part))
    if len(found) > 1:
        room = max(width(), _WHOLE + 2) - 2
        shown = [f"  {truncate_visible(f'{each.id}  {describe(each)}', room)}" for each in found[:_MOST_CANDIDATES]]
        more = ["  … and others"] if len(found) > len(shown) else []
        sentence = f"several ids begin or end with {part!r}; write more of the one that you mean:"
        raise AmbiguousId(sentence, *shown, *more)
    return found[0]
