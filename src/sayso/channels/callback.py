"""Callback channel: asks through the host's own function, `approval_callback`, or an object with `choose`."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
import os
import threading
from collections.abc import Awaitable, Callable
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from sayso.core.callables import is_async
from sayso.core.ports import ApprovalUI
from sayso.errors import ConfigurationError

if TYPE_CHECKING:
    from sayso.core.decide import Mode
    from sayso.core.model import ApprovalDecision, ApprovalRequest

Callback = Callable[["ApprovalRequest"], "ApprovalDecision | Awaitable[ApprovalDecision]"]

_ACTIVE_CHANNELS: contextvars.ContextVar[tuple[object, ...]] = contextvars.ContextVar("sayso_asking", default=())


class CallbackChannel:
    """Channel that asks by calling a function; a synchronous one runs in a worker thread, one question at a time."""

    def __init__(self, callback: Callback | ApprovalUI, *, mode: Mode = "interactive") -> None:
        self._call = _as_function(callback, mode)
        self.is_async = is_async(self._call)
        self._thread: _CallbackThread | None = None
        self._lock = threading.Lock()

    async def announce(self, request: ApprovalRequest) -> ApprovalDecision | None:
        """Call the function and return its answer; the caller checks the type."""
        asking = _ACTIVE_CHANNELS.get()
        if self in asking:  # another channel may ask through this one, but this one not through itself
            raise RuntimeError("the approval callback itself made a call that has to be asked about")
        token = _ACTIVE_CHANNELS.set((*asking, self))
        try:
            answer = self._call(request) if self.is_async else await self._in_thread(request)
            return await answer if inspect.isawaitable(answer) else answer
        finally:
            _ACTIVE_CHANNELS.reset(token)

    async def _in_thread(self, request: ApprovalRequest) -> Any:  # noqa: ANN401 - the host's function
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        context = contextvars.copy_context()
        with self._lock:
            if self._thread is None or self._thread.process != os.getpid():
                self._thread = _CallbackThread()  # a fork copies the object but not the thread
            worker = self._thread
            worker.submit(lambda: context.run(self._call, request), answer)
        try:
            return await answer
        except asyncio.CancelledError:
            with self._lock:
                if worker.busy_with is answer and self._thread is worker:
                    self._thread = worker.hand_over()  # its function blocks; queued questions must not wait
            raise


class _CallbackThread:
    """Daemon worker thread for one question at a time: a prompt that hangs must not keep the process alive."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self.busy_with: asyncio.Future[Any] | None = None
        self._questions: SimpleQueue[tuple[Callable[[], Any], asyncio.Future[Any]] | None] = SimpleQueue()
        threading.Thread(target=self._serve, name="sayso-callback", daemon=True).start()

    def submit(self, question: Callable[[], Any], answer: asyncio.Future[Any]) -> None:
        self._questions.put((question, answer))

    def hand_over(self) -> _CallbackThread:
        """Return a fresh thread with the queue of questions that have not begun, and let this one end."""
        fresh = _CallbackThread()
        while True:
            try:
                fresh._questions.put(self._questions.get_nowait())
            except Empty:
                break
        self._questions.put(None)
        return fresh

    def _serve(self) -> None:
        while item := self._questions.get():
            question, self.busy_with = item
            if not self.busy_with.cancelled():
                _run_and_deliver(question, self.busy_with)
            self.busy_with = None


def _run_and_deliver(question: Callable[[], Any], answer: asyncio.Future[Any]) -> None:
    try:
        result, failed = question(), False
    except BaseException as error:  # noqa: BLE001 - the waiting caller receives every error of the host's function
        # A future rejects StopIteration, and SystemExit in this thread must not end the loop's thread.
        ordinary = isinstance(error, Exception) and not isinstance(error, StopIteration)
        result, failed = error if ordinary else RuntimeError(repr(error)), True

    def deliver() -> None:
        if not answer.done():
            (answer.set_exception if failed else answer.set_result)(result)

    try:
        answer.get_loop().call_soon_threadsafe(deliver)
    except RuntimeError:
        return  # the loop is closed, so no task waits


def _as_function(callback: Callback | ApprovalUI, mode: Mode) -> Callback:
    if isinstance(callback, ApprovalUI):
        return functools.partial(callback.choose, mode=mode)
    if callable(callback):
        return callback
    raise ConfigurationError(
        f"approval_callback is {callback!r}; pass a function of one request, or an object with `choose`"
    )
