"""Lists of requests: filtered, in pages, and without holding up anybody else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Literal, cast

import msgspec

from sayso import plain
from sayso.decide import is_overdue

if TYPE_CHECKING:
    from sayso.model import ApprovalRequest
    from sayso.ports import Store
    from sayso.tokens import Token

Wanted = Literal["pending", "all", "open", "approved", "denied", "expired", "withdrawn", "used"]

_PIECE = 250
_MOST_PIECES = 40  # of one page: whoever looks for something rare gets a cursor and asks again


class Filter(msgspec.Struct, frozen=True, kw_only=True):
    """Which requests somebody wants to see, and which they may."""

    token: Token
    now: float
    status: Wanted = "all"
    tool: str = ""
    q: str = ""

    def fits(self, request: ApprovalRequest) -> bool:
        """Whether this is one of them."""
        if not self.token.is_for(request.project) or (self.tool and request.tool != self.tool):
            return False
        if self.status not in {"all", "pending", request.status}:
            return False
        if self.status in {"pending", "open"} and is_overdue(request, self.now):
            return False
        return not self.q or self.q.casefold() in _words(request)


def _words(request: ApprovalRequest) -> str:
    told = (request.tool, *request.agent_path, request.description, request.reason, *_texts(request.args))
    return "\n".join(told).casefold()


def _texts(value: object) -> Iterator[str]:
    """Yield every name and every value inside, as a text."""
    if isinstance(value, Mapping):
        for name, each in cast("Mapping[object, object]", value).items():
            yield str(name)
            yield from _texts(each)
    elif isinstance(value, list | tuple | set | frozenset):
        for each in cast("Iterable[object]", value):
            yield from _texts(each)
    else:
        yield value if isinstance(value, str) else plain.to_json(value)


async def page(store: Store, wanted: Filter, limit: int, cursor: str) -> tuple[list[ApprovalRequest], str | None]:
    """Return one page, and the cursor for the next one if there may be more."""
    found: list[ApprovalRequest] = []
    pieces = 0
    async for piece in _pieces(store, wanted, cursor):
        found += await asyncio.to_thread(_fitting, piece, wanted.fits)
        pieces += 1
        if len(found) > limit:
            return found[:limit], found[limit - 1].id
        if len(piece) < _PIECE:
            return found, None
        if pieces >= _MOST_PIECES:
            return found, piece[-1].id
    return found, None


def _fitting(piece: list[ApprovalRequest], fits: Callable[[ApprovalRequest], bool]) -> list[ApprovalRequest]:
    return [each for each in piece if fits(each)]


async def _pieces(store: Store, wanted: Filter, cursor: str) -> AsyncIterator[list[ApprovalRequest]]:
    """Yield what is in the store: what waits, oldest first; everything, newest first."""
    while True:
        if wanted.status == "pending":
            piece = await store.pending(_PIECE, cursor)
        else:
            piece = await store.recent(_PIECE, before=cursor)
        if not piece:
            return
        yield piece
        cursor = piece[-1].id


async def written(items: list[ApprovalRequest], **facts: object) -> str:
    """Write a page as JSON, item by item and in another thread: some are long."""
    return await asyncio.to_thread(_written, items, facts)


def _written(items: list[ApprovalRequest], facts: dict[str, object]) -> str:
    rows = ", ".join(plain.to_json(plain.of_request(each)) for each in items)
    rest = "".join(f", {plain.to_json(name)}: {plain.to_json(value)}" for name, value in facts.items())
    return f'{{"items": [{rows}]{rest}}}'
