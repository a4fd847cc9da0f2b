"""Journal: audit entries of every step, and the host's hooks as subscribers.

Tests: tests/core/test_audit.py
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING

from sayso.core import audit
from sayso.core.model import Approved, AuditEntry
from sayso.errors import StoreError, UnknownRequest

if TYPE_CHECKING:
    from sayso.core.model import ApprovalRequest, Denied, Step, ToolCall, Verdict
    from sayso.core.ports import Clock, Hook, Store

_LOG = logging.getLogger("sayso")
_LONG = 3000  # more than the audit shows: a secret must not be cut in two before it is found
_SIMPLE = frozenset({str, int, float, bool, type(None)})


class Journal:
    """Writes audit entries and calls the hooks."""

    def __init__(self, store: Store, clock: Clock, hooks: Iterable[Hook]) -> None:
        self._store = store
        self._record = store.record
        self._now = clock.now
        self.own_files: tuple[str, ...] = store.files  # which no tool may touch
        self.hooks = tuple(hooks)

    def record_decision(self, call: ToolCall, verdict: Verdict, outcome: Approved | Denied) -> None:
        """Record a decision about a call without a request."""
        step: Step = "allowed" if type(outcome) is Approved else "stopped"
        entry = AuditEntry(at=self._now(), step=step, about=call, verdict=verdict, outcome=outcome)
        self._record(entry)
        if self.hooks:
            self._call_hooks(entry)

    def notify_step(self, request: ApprovalRequest, step: Step) -> None:
        """Call the hooks for a step that the store has recorded with the request."""
        if self.hooks:
            self._call_hooks(audit.request_entry(request, step, self._now()))

    def record_result(
        self, call: ToolCall, outcome: Approved, result: object, error: BaseException | None, seconds: float | None
    ) -> None:
        """Record the result or the error of a call."""
        step: Step = "returned" if error is None else "raised"
        brief = _brief_result(result) if error is None else brief_error(error)
        try:
            if outcome.request_id is not None:
                self._store.finish(outcome.request_id, step)
            entry = AuditEntry(at=self._now(), step=step, about=call, outcome=outcome, result=brief, seconds=seconds)
            self._record(entry)
            if self.hooks:
                self._call_hooks(entry)
        except (StoreError, UnknownRequest) as failure:
            # The tool has run: an error now would look as if it had not. The next call will be refused.
            _LOG.critical("the result of %r could not be written down: %s", call.tool, failure)

    def _call_hooks(self, entry: AuditEntry) -> None:
        for hook in self.hooks:
            try:
                hook(entry)
            except Exception:  # noqa: BLE001 - a hook is the host's code, and no part of the decision
                _LOG.exception("a hook failed on %r; the decision stands", entry.step)


def brief_error(error: BaseException) -> str:
    """Return class and words of an error; the words are other people's code, and may fail."""
    try:
        return f"{type(error).__name__}: {error}"[:_LONG]
    except Exception:  # noqa: BLE001 - the words of an error are the tool's code; its own error is the one to report
        return type(error).__name__


def _brief_result(result: object) -> object:
    """Return a short form of a result for the audit, without calling any of its code."""
    kind = type(result)
    if kind is str:
        return str(result)[:_LONG]
    return result if kind in _SIMPLE else f"<{kind.__module__}.{kind.__qualname__}>"
