"""Retry with back-off until a deadline.

Tests: tests/stores/remote/test_store.py
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from sayso.core.backoff import backoff

T = TypeVar("T")


async def retry(work: Callable[[], Awaitable[T]], *, retry_on: type[Exception], deadline: Callable[[], float]) -> T:
    """Run the work, again after each `retry_on` error, until the next pause would pass the deadline (monotonic)."""
    for pause in backoff():
        try:
            return await work()
        except retry_on:
            if time.monotonic() + pause > deadline():
                raise
        await asyncio.sleep(pause)
    raise AssertionError("there is always another pause")
