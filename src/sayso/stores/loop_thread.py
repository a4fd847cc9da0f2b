"""Event loop thread: runs coroutines for synchronous callers, and for stores whose client is bound to one loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")


class LoopThread:
    """A daemon thread that runs one event loop."""

    def __init__(self, name: str) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Schedule a coroutine in the loop, from any thread."""
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    def stop(self, cleanup: Callable[[], Awaitable[None]]) -> None:
        """Cancel all tasks, run the cleanup, and join the thread."""
        if self.loop.is_closed():
            return
        self.submit(_end_all(cleanup)).result()
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()


async def _end_all(last: Callable[[], Awaitable[None]]) -> None:
    while others := asyncio.all_tasks() - {asyncio.current_task()}:  # again: a cancelled task may start another one
        for each in others:
            each.cancel()
        await asyncio.gather(*others, return_exceptions=True)
    await last()
