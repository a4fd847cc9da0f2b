"""Unit of work: the state changes of requests and remembered decisions, inside one transaction of a store.

Each store brings the reads and writes; the transitions, their audit entries and idempotency are the same for all.

Tests: tests/stores/test_memory.py
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

import msgspec

from sayso.core import audit, decide
from sayso.errors import UnknownRequest

if TYPE_CHECKING:
    from sayso.core.approvers import Seen
    from sayso.core.model import ApprovalDecision, ApprovalRequest, AuditEntry, Remembered, Status, Step
    from sayso.core.ports import QueuedWrite

T = TypeVar("T")


class UnitOfWork(ABC):
    """Transaction of a store; after its commit, `closed` has the requests whose waiters are to be settled."""

    def __init__(self) -> None:
        self.closed: list[ApprovalRequest] = []

    @abstractmethod
    def get(self, request_id: str) -> ApprovalRequest | None:
        """Return one request."""

    @abstractmethod
    def update(self, request: ApprovalRequest) -> None:
        """Write a request in the place of its earlier state."""

    @abstractmethod
    def record(self, entry: AuditEntry | bytes) -> None:
        """Add an audit entry after the last one; bytes are an encoded one."""

    @abstractmethod
    def get_remembered(self, remembered_id: str) -> Remembered | None:
        """Return one remembered decision."""

    @abstractmethod
    def remember(self, added: Sequence[Remembered]) -> None:
        """Add remembered decisions."""

    @abstractmethod
    def forget(self, dropped: Sequence[str]) -> int:
        """Delete remembered decisions, and return how many existed."""

    @abstractmethod
    def get_receipt(self, attempt: str) -> bytes | None:
        """Return the stored answer to an attempt."""

    @abstractmethod
    def put_receipt(self, attempt: str, answer: bytes) -> None:
        """Store the answer to an attempt."""

    def require(self, request_id: str) -> ApprovalRequest:
        """Return a request, or raise UnknownRequest."""
        request = self.get(request_id)
        if request is None:
            raise UnknownRequest(request_id)
        return request

    def record_step(self, request: ApprovalRequest, step: Step, at: float) -> None:
        """Add an audit entry for a step of a request."""
        self.record(audit.request_entry(request, step, at))

    def mark_seen(self, request_id: str, seen: Seen) -> ApprovalRequest:
        """Mark an open request as viewed, and return its current state."""
        before = self.require(request_id)
        after = decide.mark_seen(before, seen)
        if after is not before:
            self.update(after)
        return after

    def close(
        self,
        request_id: str,
        status: Status,
        decision: ApprovalDecision | None,
        *,
        now: float,
        remember: Sequence[Remembered],
    ) -> ApprovalRequest:
        """Close the request unless it is closed, and return its current state; `remember` is stored only with it."""
        before = self.require(request_id)
        after = decide.close(before, status, decision, now)
        if after is before:
            return before
        self.update(after)
        self.record_step(after, decide.audit_step(after), now)
        if after.status != "open":
            self.closed.append(after)
            if remember and after.status == status:
                self.remember(remember)
        return after

    def claim(self, request_id: str, *, now: float, attempt: str) -> bool:
        """Use up an approval: true for exactly one caller, ever."""

        def work() -> bool:
            claimed = decide.claim(self.require(request_id), now)
            if claimed is None:
                return False
            self.update(claimed)
            self.record_step(claimed, "claimed", now)
            return True

        return self.idempotent(attempt, work)

    def spend(self, remembered_id: str, *, attempt: str) -> bool:
        """Consume one use of a counted decision: false if none is left."""

        def work() -> bool:
            left = decide.spend(self.get_remembered(remembered_id))
            if left is None:
                return False
            if left.uses_left:
                self.remember([left])
            else:
                self.forget([left.id])
            return True

        return self.idempotent(attempt, work)

    def change_remembered(self, added: Sequence[Remembered], dropped: Sequence[str]) -> int:
        """Add and delete remembered decisions, and return how many of the dropped ones existed."""
        self.remember(added)
        return self.forget(dropped)

    def append(self, news: Sequence[QueuedWrite], *, attempt: str = "") -> None:
        """Write results and audit lines; a request that was deleted needs no result."""

        def work() -> None:
            for each in news:
                if isinstance(each, bytes):
                    self.record(each)
                    continue
                request = self.get(each[0])
                if request is not None:
                    self.update(decide.finish(request, each[1]))

        self.idempotent(attempt, work)

    def idempotent(self, attempt: str, work: Callable[[], T]) -> T:
        """Run the work once per idempotency key (`attempt`); return the stored answer to a repeated one."""
        if not attempt:
            return work()
        receipt = self.get_receipt(attempt)
        if receipt is not None:
            return msgspec.msgpack.decode(receipt)
        answer = work()
        self.put_receipt(attempt, msgspec.msgpack.encode(answer))
        return answer
