"""Concurrency for the store contract: operations that a barrier releases together, and a recording subscriber.

Tests: tests/stores/sqlite/test_store.py
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any, TypeVar

import anyio

from sayso.core.model import Remembered

T = TypeVar("T")


def race(held: AbstractContextManager[None], *operations: Callable[[], Coroutine[Any, Any, T]]) -> list[T]:
    """Run operations in threads with loops of their own, begun together while the store is held."""
    start, begun = threading.Barrier(len(operations)), threading.Barrier(len(operations) + 1)

    async def meet(operation: Callable[[], Coroutine[Any, Any, T]]) -> T:
        start.wait()
        running = asyncio.ensure_future(operation())
        await asyncio.sleep(0)  # the operation has begun: it waits for the store, or has just been through
        begun.wait()
        return await running

    with ThreadPoolExecutor(len(operations)) as threads:
        with held:
            running = [threads.submit(asyncio.run, meet(each)) for each in operations]
            begun.wait()
        return [each.result() for each in running]


class RememberedRecorder:
    """Subscriber that records the remembered decisions, and waits for them."""

    def __init__(self) -> None:
        self.known: dict[str, Remembered] = {}
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()

    def on_change(self, known: Sequence[Remembered]) -> None:
        """Record an update, from any thread."""
        self.known = {each.id: each for each in known}
        self._loop.call_soon_threadsafe(self._changed.set)

    async def wait_until(self, expected: Mapping[str, Remembered]) -> None:
        """Wait until these are recorded, for at most ten seconds."""
        with anyio.fail_after(10):
            while self.known != expected:
                await self.wait_for_change()

    async def wait_for_change(self) -> None:
        """Wait for an update."""
        await self._changed.wait()
        self._changed.clear()
