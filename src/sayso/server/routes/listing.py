"""Lists of requests: visibility, pagination and page size limit; long pages are serialised in a thread.

Tests: tests/server/routes/test_approvals.py
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from sayso.core import json_codec
from sayso.core.filters import RequestFilter, candidates

if TYPE_CHECKING:
    from sayso.core.model import ApprovalRequest
    from sayso.core.ports import Store
    from sayso.core.tokens import Token

_MOST_BATCHES = 100  # reads of the store for one page: a rare match needs several pages
_LARGEST = 8_000_000  # characters of one page; a single request can have millions

Write = Callable[["ApprovalRequest"], str]


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """Query of a list: the client's filter, within the projects of its token."""

    token: Token
    now: float
    wanted: RequestFilter = RequestFilter()


class Page(NamedTuple):
    """A part of a list: serialised requests, the cursor for the next part, and how many requests were read for it."""

    rows: list[str]
    following: str | None
    searched: int


class _PageBuilder:
    """Builder of a page, with limits on its rows and its characters."""

    def __init__(self, query: Query, limit: int, write: Write) -> None:
        self.rows: list[str] = []
        self.last = ""
        self.searched = 0
        self._query = query
        self._limit = limit
        self._room = _LARGEST
        self._write = write

    def add(self, batch: list[ApprovalRequest]) -> bool:
        """Serialise matching requests into the page; false once it is full."""
        query = self._query
        for each in batch:
            if not query.token.is_for(each.project):
                continue  # it is not counted either: other projects do not exist for this token
            if query.wanted.matches(each, query.now):
                if len(self.rows) >= self._limit or self._room <= 0:
                    return False
                row = self._write(each)
                self.rows.append(row)
                self._room -= len(row)
                self.last = each.id
            self.searched += 1
        return True


async def page(store: Store, query: Query, limit: int, cursor: str, write: Write) -> Page:
    """Return one page; `following` is the cursor for the next page if there may be one."""
    builder = _PageBuilder(query, limit, write)
    batches = 0
    async for batch in candidates(store, query.wanted, cursor):
        batches += 1
        if not await asyncio.to_thread(builder.add, batch):
            return Page(builder.rows, builder.last, builder.searched)
        if batches >= _MOST_BATCHES:
            return Page(builder.rows, batch[-1].id, builder.searched)
    return Page(builder.rows, None, builder.searched)


def page_json(rows: list[str], **facts: object) -> str:
    """Return a page as JSON."""
    rest = "".join(f", {json_codec.to_json(name)}: {json_codec.to_json(value)}" for name, value in facts.items())
    return f'{{"items": [{", ".join(rows)}]{rest}}}'
