"""Synchronous facade: one background event loop, in a thread of its own, for all synchronous callers."""

from __future__ import annotations

import asyncio
import functools
import os
import threading
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec, TypeVar

from sayso.stores.loop_thread import LoopThread

P = ParamSpec("P")
T = TypeVar("T")

_CANCEL_SECONDS = 5.0


_STARTING = threading.Lock()


@functools.cache
def _loop_thread(_process: int) -> LoopThread:
    """Return the thread of this process: a fork copies the object but not the thread."""
    return LoopThread("sayso-home")


def run(function: Callable[P, Coroutine[Any, Any, T]], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Call an async function from synchronous code and wait for its result.

    Raises:
        RuntimeError: this thread runs an event loop, which would wait for itself.
    """
    if runs_a_loop():
        raise RuntimeError(
            "a synchronous sayso call would stop the event loop that runs on this thread; "
            "await the async form, or call it from a worker thread (asyncio.to_thread)"
        )
    over = threading.Event()

    async def work() -> T:
        try:
            return await function(*args, **kwargs)
        finally:
            over.set()

    with _STARTING:
        thread = _loop_thread(os.getpid())
    future = thread.submit(work())
    try:
        return future.result()
    except BaseException:
        # Ctrl-C here must also cancel the wait in the loop, and leave it time to withdraw its request.
        if future.cancel():
            over.wait(_CANCEL_SECONDS)
        raise


def runs_a_loop() -> bool:
    """Whether this thread is running an event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
