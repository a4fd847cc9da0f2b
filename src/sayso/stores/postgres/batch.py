"""What a PostgreSQL store writes in one transaction: the jobs, and what they come to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

import msgspec

from sayso.core import decide
from sayso.core.model import ApprovalDecision, ApprovalRequest, AuditEntry, Remembered, Status
from sayso.errors import UnknownRequest
from sayso.stores.postgres.connection import Row
from sayso.stores.postgres.transaction import GroupTransaction, Need
from sayso.stores.waiters import Settled

Work = Callable[[GroupTransaction], Any]
_EDIT_BYTES = 100_000  # most are shorter, some much longer


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


class CloseWork(msgspec.Struct, frozen=True, gc=False):
    """Close a request."""

    request_id: str
    status: Status
    decision: ApprovalDecision | None
    now: float
    remember: Sequence[Remembered]

    @property
    def size(self) -> int:
        """About how many bytes it writes beyond the request: edited arguments are packed only in the group."""
        return 0 if self.decision is None or self.decision.override_args is None else _EDIT_BYTES

    def __call__(self, group: GroupTransaction) -> ApprovalRequest:
        """Return the request as it stands."""
        before = group.require(self.request_id)
        after = decide.close(before, self.status, self.decision, self.now)
        if after is before:
            return before
        group.update(after)
        group.record_step(after, decide.audit_step(after), self.now)
        if after.status == "open":
            return after
        group.closed.append(after)
        if self.remember and after.status == self.status:
            group.remember(self.remember)
        return after
