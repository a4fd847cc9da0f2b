"""Futures that wait for requests to close or to change: of many event loops, settled from any thread.

Tests: tests/stores/test_memory.py
"""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from sayso.errors import UnknownRequest

if TYPE_CHECKING:
    from sayso.core.model import ApprovalRequest

Loop = asyncio.AbstractEventLoop
Settled = list[tuple["asyncio.Future[Any] | Future[Any]", Any]]


class Waiters:
    """The futures that wait for a request to close, by its id."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[str, list[asyncio.Future[ApprovalRequest]]] = {}
        self.open_here: set[str] = set()  # ids opened by this store, without a later change

    async def wait(self, request_id: str, read: Callable[[str], Awaitable[ApprovalRequest | None]]) -> ApprovalRequest:
        """Wait until a request is closed, and return it; one in `open_here` is not read first."""
        future: asyncio.Future[ApprovalRequest] = asyncio.get_running_loop().create_future()
        with self._lock:
            self._waiting.setdefault(request_id, []).append(future)  # before the read, so that no close is missed
        try:
            if request_id in self.open_here:
                return await future
            request = await read(request_id)
            if request is None:
                raise UnknownRequest(f"no request has the id {request_id!r}")
            return request if request.status != "open" else await future
        finally:
            self._discard(request_id, future)

    def _discard(self, request_id: str, future: asyncio.Future[ApprovalRequest]) -> None:
        if future.done() and not future.cancelled():
            return  # `settle` or `fail` has removed it
        with self._lock:
            waiting = self._waiting.get(request_id, [])
            if future in waiting:
                waiting.remove(future)
            if not waiting:
                self._waiting.pop(request_id, None)

    def fail_all(self, error: Exception) -> None:
        """Fail every waiting future."""
        deliver(self.fail(self.note_missed_changes(), error))

    def note_missed_changes(self) -> list[str]:
        """Note that any request may have changed unnoticed, and return all ids that have a waiter."""
        self.open_here.clear()  # first: a wait that begins from now on reads the row
        with self._lock:
            return list(self._waiting)

    def note_changed(self, ids: Sequence[str]) -> list[str]:
        """Note changes by other processes, and return the ids that have a waiter."""
        self.open_here.difference_update(ids)  # first: a wait that begins from now on reads the row
        with self._lock:
            return [each for each in ids if each in self._waiting]

    def fail(self, ids: Iterable[str], error: Exception) -> Settled:
        """Remove the futures of these requests, and return them paired with the error."""
        with self._lock:
            return [(future, error) for each in ids for future in self._waiting.pop(each, ())]

    def settle(self, closed: Sequence[ApprovalRequest]) -> Settled:
        """Remove the futures of these closed requests, and return them paired with their request."""
        self.open_here.difference_update(request.id for request in closed)
        with self._lock:
            return [(future, request) for request in closed for future in self._waiting.pop(request.id, ())]


class Feed:
    """Change feed: the number of the last change of a request, and the futures that wait for a later one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._point = 0
        self._waiting: set[asyncio.Future[None]] = set()

    def advance(self, point: int) -> Settled:
        """Advance to that change, and return the futures that waited for it."""
        with self._lock:
            if point <= self._point:
                return []
            self._point = point
            woken, self._waiting = self._waiting, set()
        return [(future, None) for future in woken]

    async def wait_past(self, after: int) -> None:
        """Wait for a change after that one."""
        while True:
            with self._lock:
                if self._point > after:
                    return
                future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                self._waiting.add(future)
            try:
                await future
            finally:
                with self._lock:
                    self._waiting.discard(future)


def deliver(settled: Settled) -> None:
    """Settle every future on its own loop, with one wake-up per loop; an exception as value is raised there."""
    here = asyncio._get_running_loop()  # noqa: SLF001 - the public function raises in a thread without a loop
    by_loop: defaultdict[Loop, Settled] = defaultdict(list)
    for pair in settled:
        future = pair[0]
        if isinstance(future, Future):
            _set([pair])
        else:
            by_loop[future.get_loop()].append(pair)
    for loop, pairs in by_loop.items():
        if loop is here:
            _set(pairs)
            continue
        try:
            loop.call_soon_threadsafe(_set, pairs)
        except RuntimeError:
            continue  # the loop is closed, so it has no waiting task


def _set(pairs: Settled) -> None:
    for future, value in pairs:
        if future.done():
            continue
        if isinstance(value, BaseException):
            future.set_exception(value)
        else:
            future.set_result(value)
