"""Lists of requests: filter, pagination and page size limit; long pages are serialised in a thread.

Tests: tests/server/routes/test_approvals.py
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Literal, cast

import msgspec

from sayso.core import json_codec
from sayso.core.decide import is_overdue

if TYPE_CHECKING:
    from sayso.core.model import ApprovalRequest
    from sayso.core.ports import Store
    from sayso.core.tokens import Token

StatusFilter = Literal["pending", "all", "open", "approved", "denied", "expired", "withdrawn", "used"]

_PIECE = 100
_MOST_PIECES = 100  # reads of the store for one page: a rare match needs several pages
_LARGEST = 8_000_000  # characters of one page; a single request can have millions


class Filter(msgspec.Struct, frozen=True, kw_only=True):
    """Filter of a list: the client's criteria, within the projects of its token."""

    token: Token
    now: float
    status: StatusFilter = "all"
    tool: str = ""
    q: str = ""

    def matches(self, request: ApprovalRequest) -> bool:
        """Whether a request matches."""
        if not self.token.is_for(request.project) or (self.tool and request.tool != self.tool):
            return False
        if self.status not in {"all", "pending", request.status}:
            return False
        if self.status in {"pending", "open"} and is_overdue(request, self.now):
            return False
        return not self.q or self.q.casefold() in _searchable_text(request)


def _searchable_text(request: ApprovalRequest) -> str:
    fields = (request.tool, *request.agent_path, request.description, request.reason, *_texts(request.args))
    return "\n".join(fields).casefold()


def _texts(value: object) -> Iterator[str]:
    """Yield all keys and values in nested data, as text."""
    if isinstance(value, Mapping):
        for name, each in cast("Mapping[object, object]", value).items():
            yield str(name)
            yield from _texts(each)
    elif isinstance(value, list | tuple | set | frozenset):
        for each in cast("Iterable[object]", value):
            yield from _texts(each)
    else:
        yield value if isinstance(value, str) else json_codec.to_json(value)


Write = Callable[["ApprovalRequest"], str]


class _PageBuilder:
    """Builder of a page, with limits on its rows and its characters."""

    def __init__(self, filter_: Filter, limit: int, write: Write) -> None:
        self.rows: list[str] = []
        self.last = ""
        self._filter = filter_
        self._limit = limit
        self._room = _LARGEST
        self._write = write

    def add(self, piece: list[ApprovalRequest]) -> bool:
        """Serialise matching requests into the page; false once it is full."""
        for each in piece:
            if self._filter.matches(each):
                if len(self.rows) >= self._limit or self._room <= 0:
                    return False
                row = self._write(each)
                self.rows.append(row)
                self._room -= len(row)
                self.last = each.id
        return True


async def page(store: Store, filter_: Filter, limit: int, cursor: str, write: Write) -> tuple[list[str], str | None]:
    """Return the serialised requests of one page, and the cursor for the next page if there may be one."""
    builder = _PageBuilder(filter_, limit, write)
    pieces = 0
    async for piece in _pieces(store, filter_, cursor):
        pieces += 1
        if not await asyncio.to_thread(builder.add, piece):
            return builder.rows, builder.last
        if len(piece) < _PIECE:
            break
        if pieces >= _MOST_PIECES:
            return builder.rows, piece[-1].id
    return builder.rows, None


async def _pieces(store: Store, filter_: Filter, cursor: str) -> AsyncIterator[list[ApprovalRequest]]:
    """Yield requests in batches: open ones oldest first, all others newest first."""
    while True:
        if filter_.status == "pending":
            piece = await store.pending(_PIECE, cursor)
        else:
            piece = await store.recent(_PIECE, before=cursor)
        if not piece:
            return
        yield piece
        cursor = piece[-1].id


def page_json(rows: list[str], **facts: object) -> str:
    """Return a page as JSON."""
    rest = "".join(f", {json_codec.to_json(name)}: {json_codec.to_json(value)}" for name, value in facts.items())
    return f'{{"items": [{", ".join(rows)}]{rest}}}'
