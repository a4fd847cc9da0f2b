"""Batch of write jobs that a PostgreSQL store commits in one transaction, and its result.

Tests: tests/stores/postgres/test_left.py
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

import msgspec

from sayso.core.model import ApprovalDecision, ApprovalRequest, AuditEntry, Remembered, Status
from sayso.errors import UnknownRequest
from sayso.stores.postgres.connection import Row
from sayso.stores.postgres.transaction import GroupTransaction, Need
from sayso.stores.waiters import Settled

Work = Callable[[GroupTransaction], Any]
_EDIT_BYTES = 100_000  # most are shorter, some much longer


class Job(msgspec.Struct, gc=False):
    """Write job: a function to run inside a transaction, the rows that it needs, and the future that waits for it."""

    work: Work
    needs: tuple[Need, ...] = ()
    future: asyncio.Future[Any] | Future[Any] | None = None
    size: int = 0  # estimate of the bytes that it writes


Item = Job | AuditEntry | bytes  # an audit line that is already encoded is bytes


class BatchResult(msgspec.Struct):
    """Result of a transaction: futures to settle, the transaction if it wrote, remembered decisions if they changed."""

    settled: Settled = []
    group: GroupTransaction | None = None
    known: Row | None = None


class Batch(msgspec.Struct):
    """The items of one transaction, and its attempts.

    Each attempt has a number, stored with it: after a lost connection the next attempt finds it if the commit happened,
    so a batch is written exactly once.
    """

    items: list[Item]
    outcome: BatchResult
    sent: dict[int, BatchResult]  # by number: attempts whose commit was not acknowledged


def run_jobs(items: list[Item], group: GroupTransaction) -> tuple[Settled, tuple[Job, Exception] | None]:
    """Run these jobs; return the futures to settle, and the first job that failed with its error."""
    settled: Settled = []
    for item in items:
        if not isinstance(item, Job):
            group.record(item)
            continue
        try:
            result = item.work(group)
        except UnknownRequest as error:
            result = error
        except Exception as error:  # noqa: BLE001 - its waiter receives the error, and no other waiter does
            return settled, (item, error)
        if item.future is not None:
            settled.append((item.future, result))
    return settled, None


def without_waiters(items: list[Item]) -> list[Item]:
    """Return the items that no future waits for."""
    return [each for each in items if not isinstance(each, Job) or each.future is None]


class OpenWork(msgspec.Struct, frozen=True, gc=False):
    """Job that adds a request; its bytes and its audit line are encoded by the caller, not inside the transaction."""

    request: ApprovalRequest
    call: bytes
    packed: bytes
    line: bytes

    def __call__(self, group: GroupTransaction) -> ApprovalRequest:
        """Return the request, or the existing one of its call."""
        return group.open(self.request, self.call, self.packed, self.line)


class CloseWork(msgspec.Struct, frozen=True, gc=False):
    """Job that closes a request, and adds the remembered decisions that came with the answer."""

    request_id: str
    status: Status
    decision: ApprovalDecision | None
    now: float
    remember: Sequence[Remembered]

    @property
    def size(self) -> int:
        """Estimate of the bytes beyond the request: edited arguments are packed only inside the transaction."""
        return 0 if self.decision is None or self.decision.override_args is None else _EDIT_BYTES

    def __call__(self, group: GroupTransaction) -> ApprovalRequest:
        """Return the request as it is now."""
        return group.close(self.request_id, self.status, self.decision, now=self.now, remember=self.remember)
