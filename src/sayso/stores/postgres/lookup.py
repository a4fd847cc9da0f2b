"""Data loader for single rows of a PostgreSQL store: reads that arrive during one statement share the next.

Coalescing prevents one connection per waiting task. Nothing is cached: a row is never older than the lookup for it.

Tests: tests/stores/postgres/test_races.py
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from sayso.errors import StoreError
from sayso.stores.postgres.connection import Rejected, Row
from sayso.stores.waiters import Settled, deliver

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Lookup(Generic[K, V]):
    """Data loader for one kind of row, by its first column."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        fetch: Callable[[list[K]], Awaitable[list[Row]]],
        unpack: Callable[[Row], V],
        *,
        closed_message: str,
    ) -> None:
        self._loop, self._fetch, self._unpack, self._closed_message = loop, fetch, unpack, closed_message
        self._gate = threading.Lock()
        self._queued: list[tuple[K, asyncio.Future[V | None]]] = []
        self._serving: asyncio.Task[None] | None = None
        self._is_awake = self._is_closed = False

    async def find(self, key: K) -> V | None:
        """Return the row of this key, from any loop; never from a statement that was sent before the call."""
        future: asyncio.Future[V | None] = asyncio.get_running_loop().create_future()
        with self._gate:
            if self._is_closed:
                raise StoreError(self._closed_message)
            self._queued.append((key, future))
            is_awake, self._is_awake = self._is_awake, True
        if not is_awake:
            self._loop.call_soon_threadsafe(self._begin)
        return await future

    def _begin(self) -> None:
        self._serving = self._loop.create_task(self._serve())

    async def _serve(self) -> None:
        while asked := self._take_batch():
            try:
                deliver(await self._answers(asked))
            except asyncio.CancelledError:
                deliver([(future, StoreError(self._closed_message)) for _, future in [*asked, *self._end()]])
                raise

    def _take_batch(self) -> list[tuple[K, asyncio.Future[V | None]]]:
        with self._gate:
            asked, self._queued = self._queued, []
            self._is_awake = bool(asked)
        return asked

    def _end(self) -> list[tuple[K, asyncio.Future[V | None]]]:
        with self._gate:
            self._is_closed = True
            return self._queued

    async def _answers(self, asked: list[tuple[K, asyncio.Future[V | None]]]) -> Settled:
        try:
            rows = await self._fetch(list({key for key, _ in asked}))
        except Rejected as error:
            if len(asked) == 1:
                return [(asked[0][1], error)]
            return [pair for each in asked for pair in await self._answers([each])]  # one key may be at fault
        except Exception as error:  # noqa: BLE001 - waiters receive the error, and later lookups must be served
            return [(future, _as_store_error(error)) for _, future in asked]
        found = {row[0]: self._unpack_or_error(row) for row in rows}
        return [(future, found.get(key)) for key, future in asked]

    def _unpack_or_error(self, row: Row) -> V | StoreError:
        try:
            return self._unpack(row)
        except StoreError as error:
            return error


def _as_store_error(error: Exception) -> StoreError:
    return error if isinstance(error, StoreError) else StoreError(f"a row could not be read: {error!r}")
