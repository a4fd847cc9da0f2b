"""What waits for an answer, as the feed tells of it: how many, since when, and which expires first."""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import logging
from typing import TYPE_CHECKING

from sayso.errors import StoreError, UnknownRequest

if TYPE_CHECKING:
    from sayso.model import ApprovalRequest
    from sayso.ports import Clock, Store

_LOG = logging.getLogger("sayso.server")
_PAGE = 500
_RETRY_SECONDS = 1.0
_SPARE = 1000  # so many dates of closed requests are kept without tidying up


class Waiting:
    """The open requests. The one that expires first sets the timer; nothing is polled."""

    def __init__(self, store: Store, clock: Clock) -> None:
        """Begin without knowing any."""
        self._store = store
        self._clock = clock
        self._asked: dict[str, float] = {}
        self._due: list[tuple[float, str]] = []
        self._sooner = asyncio.Event()

    def __len__(self) -> int:
        """How many there are."""
        return len(self._asked)

    def __contains__(self, request_id: str) -> bool:
        """Whether this one does."""
        return request_id in self._asked

    @property
    def oldest(self) -> float:
        """How many seconds the oldest one has waited."""
        return max(0.0, self._clock.now() - min(self._asked.values())) if self._asked else 0.0

    async def load(self) -> None:
        """Learn of those that were open before anybody followed the feed."""
        after = ""
        while page := await self._store.pending(_PAGE, after):
            for each in page:
                self.note(each)
            after = page[-1].id

    def note(self, request: ApprovalRequest) -> None:
        """Take in how a request stands."""
        if request.status != "open":
            self._asked.pop(request.id, None)
            return
        is_new = request.id not in self._asked
        self._asked[request.id] = request.asked_at
        if request.expires_at is not None and is_new:
            heapq.heappush(self._due, (request.expires_at, request.id))
            if self._due[0][1] == request.id:
                self._sooner.set()
            if len(self._due) > 2 * len(self._asked) + _SPARE:
                self._due = [each for each in self._due if each[1] in self._asked]
                heapq.heapify(self._due)

    async def close_overdue(self) -> None:
        """Close each request when its time is up, for as long as the hub runs."""
        while True:
            self._sooner.clear()
            if not self._due:
                await self._sooner.wait()
            elif self._due[0][0] <= self._clock.now():
                await self._close(heapq.heappop(self._due))
            else:
                with contextlib.suppress(TimeoutError):
                    async with self._clock.until(self._due[0][0]):
                        await self._sooner.wait()

    async def _close(self, due: tuple[float, str]) -> None:
        _, request_id = due
        if request_id not in self._asked:
            return
        try:
            await self._store.close(request_id, "expired", None, now=self._clock.now())  # of which the feed tells
        except UnknownRequest:
            self._asked.pop(request_id, None)
        except StoreError as error:
            _LOG.warning("the overdue request %s could not be closed, trying again: %s", request_id, error)
            heapq.heappush(self._due, due)
            await asyncio.sleep(_RETRY_SECONDS)
