"""A task of its own for a stream of events, so that the stream has one context at every step.

Tests: tests/adapters/strands/test_agents.py
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from typing import TypeVar, cast

T = TypeVar("T")
_END = object()


async def in_own_task(events: AsyncGenerator[T]) -> AsyncGenerator[T]:
    """Yield events that are made in one task, each when the one before it is done with.

    A generator runs in the context of whoever asks for its next event. What it says there to the agents inside a tool
    would be lost at the next step if that is another task, and be seen by the reader between two steps if it is not.
    """
    made: asyncio.Queue[object] = asyncio.Queue()
    wanted = asyncio.Event()

    async def make() -> None:
        try:
            async with contextlib.aclosing(events):
                async for event in events:
                    made.put_nowait(event)
                    await wanted.wait()
                    wanted.clear()
        finally:
            made.put_nowait(_END)

    task = asyncio.create_task(make())
    try:
        while (event := await made.get()) is not _END:
            yield cast("T", event)
            wanted.set()
        await task  # which raises what the stream has raised
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
