"""Execution of an approved tool: publishes the approval to the tool, and audits result, error and duration, once.

Tests: tests/engine/test_adapter_port.py
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Self

from sayso.engine import context

if TYPE_CHECKING:
    from types import TracebackType

    from sayso.core.model import Approved, ToolCall
    from sayso.engine.journal import Journal


class Execution:
    """One execution of an approved call: a context manager whose `result` is set before it is left.

    For hooks before and after a tool, there are `begin` and then one of `returned`, `raised` and `suspend`, from any
    task or thread; the first one counts.
    """

    __slots__ = ("_call", "_grant", "_journal", "_open", "_outcome", "_started", "result", "suspended")

    def __init__(self, journal: Journal, call: ToolCall, outcome: Approved) -> None:
        self._journal = journal
        self._call = call
        self._outcome = outcome
        self._open: list[bool] = []
        self.result: Any = None
        self.suspended = False  # stopped by an agent inside it that has to ask; it may resume later

    def begin(self) -> Self:
        """Publish the approval to the tool, and start the clock."""
        self._grant = context.CURRENT_GRANT.set(context.Grant(self._outcome, self._journal.own_files))
        self._open.append(True)
        self._started = time.perf_counter()
        return self

    def returned(self, result: object) -> bool:
        """Audit that the tool has returned; true if nothing else has ended the execution before."""
        self.result = result
        return self._end(None)

    def raised(self, error: BaseException) -> bool:
        """Audit that the tool has failed; true if nothing else has ended the execution before."""
        return self._end(error)

    def suspend(self) -> bool:
        """End it without a result: an agent inside the tool has to ask, and the call resumes later; else as above."""
        self.suspended = True
        return self._end(None)

    def _end(self, error: BaseException | None) -> bool:
        try:
            self._open.pop()
        except IndexError:  # it has ended, or never begun
            return False
        context.reset(context.CURRENT_GRANT, self._grant)
        if not self.suspended:
            seconds = time.perf_counter() - self._started
            self._journal.record_result(self._call, self._outcome, self.result, error, seconds)
        return True

    def __enter__(self) -> Self:
        return self.begin()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end(error)
