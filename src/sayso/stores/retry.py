"""Trying again what may soon work."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from sayso.core.backoff import backoff

T = TypeVar("T")


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
