"""Trying again what may soon work."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar

T = TypeVar("T")

_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.1, 10.0


def backoff() -> Iterator[float]:
    """Yield how long to wait before each next attempt: longer and longer, and never in step with others."""
    longest = _SHORTEST_PAUSE
    while True:
        yield longest * random.uniform(0.5, 1.0)  # noqa: S311 - no secret
        longest = min(longest * 2, _LONGEST_PAUSE)


async def retry(work: Callable[[], Awaitable[T]], *, retry_on: type[Exception], deadline: Callable[[], float]) -> T:
    """Do this, again and again while it raises `away`, until the monotonic clock would be past the end."""
    for pause in backoff():
        try:
            return await work()
        except retry_on:
            if time.monotonic() + pause > deadline():
                raise
        await asyncio.sleep(pause)
    raise AssertionError("there is always another pause")
