"""Index of the open requests, kept from the feed: counts per agent, oldest age, and the expiry timer.

Tests: tests/server/test_most_open.py, tests/server/services/test_open_requests.py
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import logging
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from sayso.errors import StoreError, UnknownRequest

if TYPE_CHECKING:
    from sayso.core.model import ApprovalRequest
    from sayso.core.ports import Clock, Store
    from sayso.engine.clock import RequestDeadlines

_LOG = logging.getLogger("sayso.server")
_PAGE = 500
_RETRY_SECONDS = 1.0
_SPARE_DATES = 1000  # expiries of closed requests that may stay in the heap

Owner = tuple[str, str]  # project and agent


class _Expiry(NamedTuple):
    ends: float  # in monotonic time; the order of the heap
    expires_at: float
    request_id: str


class OpenRequests:
    """The open requests. One timer, set to the earliest expiry, closes overdue ones; nothing is polled."""

    def __init__(self, store: Store, clock: Clock, deadlines: RequestDeadlines) -> None:
        """Begin with an empty index; the deadlines are those by which answers are judged, too."""
        self._store = store
        self._clock = clock
        self._asked: dict[str, tuple[float, Owner]] = {}
        self._by_owner: defaultdict[Owner, set[str]] = defaultdict(set)  # with reservations
        self._due: list[_Expiry] = []
        self._deadlines = deadlines
        self._expires_sooner = asyncio.Event()

    def __len__(self) -> int:
        return len(self._asked)

    def __contains__(self, request_id: str) -> bool:
        return request_id in self._asked

    @property
    def oldest_age(self) -> float:
        """The age of the oldest open request, in seconds."""
        return max(0.0, self._clock.now() - min(self._asked.values())[0]) if self._asked else 0.0

    def count_of(self, owner: Owner) -> int:
        """The number of an agent's open requests, with its reservations."""
        return len(self._by_owner.get(owner, ()))

    def reserve(self, request: ApprovalRequest) -> None:
        """Reserve a place for a request before it is opened: the feed reports it only afterwards."""
        self._by_owner[_owner(request)].add(request.id)

    def release(self, request: ApprovalRequest) -> None:
        """Release the reservation of a request that was not opened, unless the feed says that it is open."""
        if request.id not in self._asked:
            self._drop(request.id, _owner(request))

    async def load(self) -> None:
        """Load the open requests from the store, and drop the old index; called after `Events.start`."""
        self._asked.clear()
        self._by_owner.clear()
        self._due.clear()
        after = ""
        while page := await self._store.pending(_PAGE, after):
            for each in page:
                self.update(each)
            after = page[-1].id

    def update(self, request: ApprovalRequest) -> None:
        """Apply a change of a request."""
        if request.status != "open":
            if not self._deadlines.is_past_unnoticed(request.id):  # else a waiter has to see that first
                self._deadlines.end(request.id)
            self._asked.pop(request.id, None)
            self._drop(request.id, _owner(request))
            return
        is_new = request.id not in self._asked
        self._asked[request.id] = (request.asked_at, _owner(request))
        self._by_owner[_owner(request)].add(request.id)
        if request.expires_at is not None and is_new:
            heapq.heappush(self._due, _Expiry(self._deadlines.begin(request), request.expires_at, request.id))
            if self._due[0].request_id == request.id:
                self._expires_sooner.set()
            if len(self._due) > 2 * len(self._asked) + _SPARE_DATES:
                self._due = [each for each in self._due if each.request_id in self._asked]
                heapq.heapify(self._due)

    def _drop(self, request_id: str, owner: Owner) -> None:
        self._by_owner[owner].discard(request_id)
        if not self._by_owner[owner]:
            del self._by_owner[owner]

    async def close_overdue(self) -> None:
        """Expire requests as they become due, until cancelled."""
        while True:
            self._expires_sooner.clear()
            if not self._due:
                await self._expires_sooner.wait()
                continue
            first = self._due[0]
            if first.expires_at <= self._clock.now() or self._deadlines.has_come(first.ends):
                await self._close(heapq.heappop(self._due))
            else:
                with contextlib.suppress(TimeoutError):
                    async with self._clock.until(min(first.expires_at, self._deadlines.as_time(first.ends))):
                        await self._expires_sooner.wait()

    async def _close(self, due: _Expiry) -> None:
        request_id = due.request_id
        if request_id not in self._asked:
            return
        try:
            await self._store.close(request_id, "expired", None, now=self._clock.now())  # the feed reports it
        except UnknownRequest:
            _, owner = self._asked.pop(request_id, (0.0, ("", "")))
            self._drop(request_id, owner)
        except StoreError as error:
            _LOG.warning("the overdue request %s could not be closed, trying again: %s", request_id, error)
            heapq.heappush(self._due, due)
            await asyncio.sleep(_RETRY_SECONDS)


def _owner(request: ApprovalRequest) -> Owner:
    return request.project, request.asked_by
