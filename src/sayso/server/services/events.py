"""Event feed of the hub: requests are read and serialised once, cached in batches, and sent to all subscribers.

One task follows the store's feed. No subscriber has a queue: each one knows the point that it has reached, and reads
what came after it from the cached batches or, if it is further behind, from the store. A slow subscriber delays no
other, costs no memory, and catches up as fast as it reads.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from sayso.core import json_codec
from sayso.errors import StoreError

if TYPE_CHECKING:
    from sayso.core.model import ApprovalRequest
    from sayso.core.ports import Store

_LOG = logging.getLogger("sayso.server")
_PAGE = 50  # requests can be long, and each subscriber that is behind reads pages of its own
_LARGEST_CACHE = 8_000_000  # characters of JSON; data derived from it may take twice as much
_RETRY_SECONDS = 1.0

T = TypeVar("T")
Listener = Callable[["ApprovalRequest"], None]


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """A changed request, with its JSON."""

    request: ApprovalRequest
    text: str


class EventBatch(msgspec.Struct, frozen=True, kw_only=True):
    """The changes between two points of the feed."""

    after: int
    point: int
    events: tuple[Event, ...]
    derived: dict[str, Any] = msgspec.field(default_factory=dict[str, "Any"])

    def cached(self, name: str, make: Callable[[EventBatch], T]) -> T:
        """Return something derived from the batch, computed once for all subscribers."""
        if name not in self.derived:
            self.derived[name] = make(self)
        return self.derived[name]

    @property
    def size(self) -> int:
        """The number of characters of JSON."""
        return sum(len(event.text) for event in self.events)


class Events:
    """Event feed of one hub: follows the store and caches the latest batches."""

    def __init__(self, store: Store, *listeners: Listener) -> None:
        self._store = store
        self._listeners = listeners
        self._batches: deque[EventBatch] = deque()
        self._size = 0
        self._subscribers = 0
        self._news = asyncio.Event()
        self._point = -1

    async def follow(self) -> None:
        """Follow the store's feed until cancelled."""
        while True:
            try:
                await self._read_next()
            except StoreError as error:
                _LOG.warning("the feed of the store could not be read, trying again: %s", error)
                await asyncio.sleep(_RETRY_SECONDS)

    async def start(self) -> None:
        """Start at the current point; a subscriber at an earlier point gets the changes in between from the store."""
        point, _ = await self._store.changes()
        self._advance(point)

    def _advance(self, point: int) -> None:
        self._point = point
        self._news.set()
        self._news = asyncio.Event()

    async def _read_next(self) -> None:
        await self._store.changed(self._point)
        point, found = await self._read_after(self._point)
        for request in found:
            for listener in self._listeners:
                listener(request)
        if self._subscribers:
            self._cache_batch(await _batch(self._point, point, found))
        else:
            self._clear_cache()
        self._advance(point)

    def _cache_batch(self, batch: EventBatch) -> None:
        self._batches.append(batch)
        self._size += batch.size
        while self._size > _LARGEST_CACHE:
            self._size -= self._batches.popleft().size

    def _clear_cache(self) -> None:
        self._batches.clear()
        self._size = 0

    @contextlib.contextmanager
    def subscribed(self) -> Generator[None]:
        """Keep batches cached for the duration of the block."""
        self._subscribers += 1
        try:
            yield
        finally:
            self._subscribers -= 1

    async def start_point(self, wanted: int | None = None) -> int:
        """Return the point to subscribe from: the given one, if it was ever reached, else the current one."""
        now, _ = await self._store.changes()
        return now if wanted is None else min(wanted, now)

    async def wait_past(self, point: int) -> None:
        """Wait until the feed is past a point."""
        while self._point <= point:
            await self._news.wait()

    async def next_batch(self, point: int) -> EventBatch:
        """Wait for the batch after a point: from the cache, or else from the store."""
        await self.wait_past(point)
        for batch in reversed(self._batches):  # nearly all subscribers need the last one
            if batch.after <= point < batch.point:
                return batch
        reached, found = await self._read_after(point)
        return await _batch(point, reached, found)

    async def _read_after(self, point: int) -> tuple[int, list[ApprovalRequest]]:
        reached, found = await self._store.changes(point, _PAGE)
        if not found:  # the changed rows were pruned; this order of the two reads misses no change
            latest, _ = await self._store.changes()
            reached, found = await self._store.changes(point, _PAGE)
            reached = reached if found else max(reached, latest)
        return reached, found


async def _batch(after: int, point: int, found: Sequence[ApprovalRequest]) -> EventBatch:
    """Serialise requests in another thread: some are long, and would block the loop."""
    return EventBatch(after=after, point=point, events=await asyncio.to_thread(_render_events, found))


def _render_events(found: Sequence[ApprovalRequest]) -> tuple[Event, ...]:
    return tuple(Event(request=each, text=json_codec.request_to_json(each)) for each in found)
