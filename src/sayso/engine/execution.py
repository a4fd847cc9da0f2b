"""Context manager around an approved tool: publishes the approval to the tool, and audits result, error and duration.

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
    """One execution of an approved call; set `result` before leaving."""

    __slots__ = ("_call", "_journal", "_outcome", "_started", "_token", "result", "suspended")

    def __init__(self, journal: Journal, call: ToolCall, outcome: Approved) -> None:
        self._journal = journal
        self._call = call
        self._outcome = outcome
        self.result: Any = None
        self.suspended = False  # stopped by an agent inside it that has to ask; it may resume later

    def __enter__(self) -> Self:
        self._token = context.CURRENT_GRANT.set(context.Grant(self._outcome, self._journal.own_files))
        self._started = time.perf_counter()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        context.CURRENT_GRANT.reset(self._token)
        if self.suspended:
            return
        seconds = time.perf_counter() - self._started
        self._journal.record_result(self._call, self._outcome, self.result, error, seconds)
