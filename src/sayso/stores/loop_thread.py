"""A thread with an event loop of its own, for a store whose library is bound to one."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")


class LoopThread:
    """The loop and its thread."""

    def __init__(self, name: str) -> None:
        """Start the thread."""
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Begin this in the loop, from any thread."""
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    def stop(self, cleanup: Callable[[], Awaitable[None]]) -> None:
        """Cancel what is under way, do one last thing, and end the thread."""
        if self.loop.is_closed():
            return
        self.submit(_end_all(cleanup)).result()
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()


async def _end_all(last: Callable[[], Awaitable[None]]) -> None:
    while others := asyncio.all_tasks() - {asyncio.current_task()}:  # again: a task that ends may begin another one
        for each in others:
            each.cancel()
        await asyncio.gather(*others, return_exceptions=True)
    await last()
