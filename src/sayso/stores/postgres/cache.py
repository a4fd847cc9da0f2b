"""Bounded cache of request rows with their versions, for optimistic concurrency.

A transaction decides by cached rows without reading them first; the write statement compares their versions, so a
stale entry costs a retry under lock and nothing else.

Tests: tests/stores/postgres/test_races.py
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import TYPE_CHECKING

from sayso.core import decide
from sayso.core.msgpack_codec import unpack_request

if TYPE_CHECKING:
    from sayso.core.model import ApprovalRequest
    from sayso.stores.postgres.connection import Row
    from sayso.stores.postgres.transaction import Need

_MOST, _LONGEST = 4096, 8192  # requests, and bytes of each


class RequestCache:
    """Cache of the last few thousand requests, each with the number of its last change, which is its version."""

    def __init__(self) -> None:
        # Evicting the oldest entry of a plain dict scans past the slots of all that were evicted before.
        self.entries: OrderedDict[str, tuple[ApprovalRequest, int]] = OrderedDict()

    def put(self, request: ApprovalRequest, change: int, length: int) -> None:
        """Cache a request at that version, if it can still change."""
        _, known = self.entries.pop(request.id, (None, -1))
        if known > change:
            return  # an older version than the cached one; no entry is better than a stale one
        if length > _LONGEST or _is_over(request):
            return
        self.entries[request.id] = (request, change)
        if len(self.entries) > _MOST:
            self.entries.popitem(last=False)

    def unpack_row(self, row: Row) -> ApprovalRequest:
        """Return the request of a row (key, bytes, change), and cache it."""
        _, packed, change = row
        request = unpack_request(packed)
        self.put(request, change, len(packed))
        return request

    def select(self, needs: Iterable[Need]) -> dict[str, tuple[ApprovalRequest, int]]:
        """Return the cached ones of the requests that are needed."""
        kept = self.entries
        return {name: kept[name] for _, name in needs if isinstance(name, str) and name in kept}

    def forget(self, ids: Iterable[str]) -> None:
        """Evict these requests."""
        for each in ids:
            self.entries.pop(each, None)

    def clear(self) -> None:
        """Evict all requests."""
        self.entries.clear()


def _is_over(request: ApprovalRequest) -> bool:
    return not decide.TRANSITIONS[request.status] and (request.status != "used" or request.result is not None)
