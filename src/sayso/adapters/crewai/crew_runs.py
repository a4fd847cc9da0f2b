"""Runs of crews and agents: a question is withdrawn when the run that asks it is cancelled, fails or is too late.

CrewAI works in threads, which hear nothing of a cancellation; an answer that came later would still let the tool run.

Tests: tests/adapters/crewai/test_crews.py
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import time
from collections.abc import Callable, Coroutine, Generator, Iterator
from contextvars import ContextVar, Token
from types import TracebackType
from typing import Any, Self, TypeVar

from sayso.engine import context

T = TypeVar("T")


class CrewRun:
    """One run, as a context manager; a block that raises has abandoned it, and all runs inside it."""

    def __init__(self, seconds: float | None = None) -> None:
        """Begin the time of a run that may last so long."""
        self.abandoned = False
        self.deadline = None if seconds is None else time.monotonic() + seconds
        self.outer: CrewRun | None = None
        self._token: Token[CrewRun | None] | None = None
        self._waiting: list[Callable[[], object]] = []

    def __enter__(self) -> Self:
        self.outer = _RUN.get()
        self._token = _RUN.set(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._token is not None:
            context.reset(_RUN, self._token)
        if error is not None:
            self.abandoned = True
            for cancel in list(self._waiting):
                cancel()

    @contextlib.contextmanager
    def calling(self, cancel: Callable[[], object]) -> Generator[None]:
        """Call this function if the run is abandoned in the block, or has been before."""
        self._waiting.append(cancel)
        try:
            if self.abandoned:
                cancel()
            yield
        finally:
            self._waiting.remove(cancel)


_RUN: ContextVar[CrewRun | None] = ContextVar("sayso_crewai_run", default=None)


def _runs() -> Iterator[CrewRun]:
    """Yield the run of this context, and those around it."""
    run = _RUN.get()
    while run is not None:
        yield run
        run = run.outer


def is_over() -> bool:
    """Whether a run of this context is abandoned, or its time is over."""
    return any(run.abandoned or (run.deadline is not None and time.monotonic() >= run.deadline) for run in _runs())


async def unless_over(decide: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Wait for a decision, as long as the runs of this context go on.

    Raises:
        asyncio.CancelledError: a run was abandoned.
        TimeoutError: the time of a run is over.
    """
    here, waiting = asyncio.get_running_loop(), asyncio.ensure_future(decide())
    deadlines = [run.deadline for run in _runs() if run.deadline is not None]
    with contextlib.ExitStack() as watched:
        for run in _runs():
            watched.enter_context(run.calling(lambda: here.call_soon_threadsafe(waiting.cancel)))
        left = min(deadlines) - time.monotonic() if deadlines else None
        return await asyncio.wait_for(waiting, left)


def tracked(method: Callable[..., Any], begin: Callable[[dict[str, Any]], float | None]) -> Callable[..., Any]:
    """Return a method that runs crews or agents, sync or async, with each of its calls a run.

    `begin` is called first with the named arguments, which it may change, and says how many seconds the run may last.
    """

    async def follow(run: CrewRun, work: Coroutine[Any, Any, Any]) -> Any:  # noqa: ANN401 - what the method returns
        with run:
            return await work

    def start(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - as above
        run = CrewRun(begin(kwargs))
        with run:
            result = method(*args, **kwargs)
        return follow(run, result) if inspect.iscoroutine(result) else result

    return start
