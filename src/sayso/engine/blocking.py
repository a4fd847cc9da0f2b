"""Synchronous facade: one background event loop, in a thread of its own, for all synchronous callers."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

_CANCEL_SECONDS = 5.0


class _BackgroundLoop:
    """The loop that serves all synchronous callers of this process, started by the first of them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._process = 0

    def loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            # A fork copies the object but not the thread.
            if self._loop is None or self._process != os.getpid():
                self._loop = asyncio.new_event_loop()
                self._process = os.getpid()
                threading.Thread(target=self._loop.run_forever, name="sayso-home", daemon=True).start()
            return self._loop


_BACKGROUND_LOOP = _BackgroundLoop()


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

    future = asyncio.run_coroutine_threadsafe(work(), _BACKGROUND_LOOP.loop())
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
