"""What a PostgreSQL store writes in one transaction: the jobs, and what they come to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

import msgspec

from sayso.core import audit, decide
from sayso.core.model import ApprovalDecision, ApprovalRequest, AuditEntry, Remembered, Status
from sayso.core.msgpack_codec import pack_request
from sayso.errors import CanonicalError, UnknownRequest
from sayso.stores.postgres.connection import Row
from sayso.stores.postgres.transaction import GroupTransaction, Need
from sayso.stores.waiters import Settled

Work = Callable[[GroupTransaction], Any]


class Job(msgspec.Struct, gc=False):
    """Something to do inside a group, with the rows that it needs; with a future, somebody waits for it."""

    work: Work
    needs: tuple[Need, ...] = ()
    future: asyncio.Future[Any] | Future[Any] | None = None
    size: int = 0  # about how many bytes it writes


Item = Job | AuditEntry | bytes  # a line that was written out beforehand is bytes


class BatchResult(msgspec.Struct):
    """What a group comes to: whom to tell what, the group if it changed anything, what is remembered if that did."""

    settled: Settled = []
    group: GroupTransaction | None = None
    known: Row | None = None


class Batch(msgspec.Struct):
    """What is written in one transaction.

    Each attempt has a number, by which the next one knows, after a lost connection, whether it was written after all.
    """

    items: list[Item]
    outcome: BatchResult
    sent: dict[int, BatchResult]  # by number: the attempts of which nobody knows what became of them


def run_jobs(items: list[Item], group: GroupTransaction) -> tuple[Settled, tuple[Job, Exception] | None]:
    """Do these jobs; return whom to tell what, and the first one that failed."""
    settled: Settled = []
    for item in items:
        if not isinstance(item, Job):
            group.record(item)
            continue
        try:
            result = item.work(group)
        except UnknownRequest as error:
            result = error
        except Exception as error:  # noqa: BLE001 - whoever waits for it must hear of it, and nobody else
            return settled, (item, error)
        if item.future is not None:
            settled.append((item.future, result))
    return settled, None


def without_waiters(items: list[Item]) -> list[Item]:
    """Return what nobody waits for."""
    return [each for each in items if not isinstance(each, Job) or each.future is None]


class OpenWork(msgspec.Struct, frozen=True, gc=False):
    """Add a request; its bytes and the line of the audit are written out beforehand, not while others wait."""

    request: ApprovalRequest
    call: bytes
    packed: bytes
    line: bytes

    def __call__(self, group: GroupTransaction) -> ApprovalRequest:
        """Return the request, or the one that its call has."""
        return group.open(self.request, self.call, self.packed, self.line)


class _Change(msgspec.Struct, frozen=True, gc=False):
    """What becomes of a request: the bytes of it, and the line of the audit."""

    before: ApprovalRequest
    after: ApprovalRequest
    packed: bytes
    line: bytes


class CloseWork(msgspec.Struct, gc=False):
    """Close a request."""

    request_id: str
    status: Status
    decision: ApprovalDecision | None
    now: float
    remember: Sequence[Remembered]
    _change: _Change | None = None

    def foresee(self, request: ApprovalRequest | None) -> None:
        """Work it out for what the request was when it was last heard of; the group may know better."""
        if request is None or request.status != "open":
            return
        try:
            self._change = self._of(request)
        except CanonicalError:
            return  # it cannot be written; whether it has to be turns out in the group, and there it is told

    @property
    def size(self) -> int:
        """About how many bytes it writes, as far as that is known."""
        return 0 if self._change is None else len(self._change.packed)

    def _of(self, before: ApprovalRequest) -> _Change | None:
        after = decide.close(before, self.status, self.decision, self.now)
        if after is before:
            return None
        line = audit.encode(audit.request_entry(after, decide.audit_step(after), self.now))
        return _Change(before, after, pack_request(after), line)

    def __call__(self, group: GroupTransaction) -> ApprovalRequest:
        """Return the request as it stands."""
        before, change = group.require(self.request_id), self._change
        if change is None or change.before is not before:
            change = self._of(before)
        if change is None:
            return before
        after = change.after
        group.update(after, change.packed)
        group.record(change.line)
        if after.status == "open":
            return after
        group.closed.append(after)
        if self.remember and after.status == self.status:
            group.remember(self.remember)
        return after
