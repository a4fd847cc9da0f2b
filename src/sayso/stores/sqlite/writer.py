"""Writer thread of a SQLite store: writes batches of a write-behind queue, one commit for each.

Tests: tests/stores/sqlite/test_store.py
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from sayso.core.model import AuditEntry
from sayso.errors import StoreError, UnknownRequest
from sayso.stores.sqlite.rows import Transaction
from sayso.stores.sqlite.schema import connect, translate_errors
from sayso.stores.waiters import Settled, deliver
from sayso.stores.write_queue import WriterThread

T = TypeVar("T")

_LOG = logging.getLogger("sayso")
_LARGEST_GROUP = 500
_MOST_FULL_GROUPS, _BREATH_SECONDS = 10, 0.002


class _WriteJob(msgspec.Struct):
    """Write job: a function to run inside a transaction, and the future that waits for it."""

    work: Callable[[Transaction], Any]
    future: asyncio.Future[Any] | Future[Any] | None = None


Item = _WriteJob | AuditEntry | bytes  # an audit line that is already encoded is bytes


class SqliteWriter(WriterThread[Item]):
    """Write-behind queue and its thread: jobs run in order, results are delivered after the commit."""

    def __init__(self, path: Path, *, synchronous: str, on_commit: Callable[[Transaction], Settled]) -> None:
        super().__init__(f"the store {path}", thread_name="sayso-sqlite")
        self._path = path
        self._connection = connect(path, synchronous=synchronous)
        self._on_commit = on_commit
        self._unflushed: list[Item] = []
        self._start()

    async def submit(self, work: Callable[[Transaction], T]) -> T:
        """Run a job in the next batch, and return its result once it is durable."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._put(_WriteJob(work, future), is_awaited=True)
        return await future

    def submit_blocking(self, work: Callable[[Transaction], T]) -> T:
        """Run a job in the next batch and block until it is durable."""
        done: Future[T] = Future()
        self._put(_WriteJob(work, done), is_awaited=True)
        return done.result()

    def enqueue(self, item: Item | Callable[[Transaction], object], *, soon: bool = False) -> None:
        """Queue an item that no future waits for, but that may not linger if `soon`; raises after a failed write."""
        broken = self._broken
        if broken is not None:
            self._put(_WriteJob(_nothing), is_awaited=False)  # triggers a retry of the unflushed items
            raise broken
        self._put(item if isinstance(item, Item) else _WriteJob(item), is_awaited=False)
        if soon:
            self._hurry()

    def _serve(self) -> None:
        full = 0
        while self._wait_for_items():
            self._linger()
            group = self._gather()
            self._commit(group)
            full = full + 1 if len(group) >= _LARGEST_GROUP else 0
            if full > _MOST_FULL_GROUPS:
                time.sleep(_BREATH_SECONDS)  # SQLite's lock is not fair: a pause lets other processes acquire it
                full = 0
        if self._unflushed:
            self._commit([])
        if self._broken is not None:
            _LOG.critical("%d entries could not be written: %s", len(self._unflushed), self._broken)
        self._connection.close()

    def _gather(self) -> list[Item]:
        group: list[Item] = []
        while self._items and len(group) < _LARGEST_GROUP:
            group.append(self._items.popleft())
        if self._items:
            self._hurry()  # what did not fit has waited
        return group

    def _commit(self, group: list[Item]) -> None:
        """Write a batch, after the unflushed rest of earlier ones."""
        group, self._unflushed, self._broken = [*self._unflushed, *group], [], None
        if not self._try(group):
            for item in group:  # one by one: a bad job must fail alone
                if self._broken is not None:
                    self._fail(item, self._broken)  # a later item must not be durable earlier
                else:
                    self._try([item])

    def _try(self, group: list[Item]) -> bool:
        try:
            settled, transaction = self._transact(group)
        except Exception as error:  # noqa: BLE001 - the waiter receives the error
            if len(group) == 1:
                self._fail(group[0], error)
            return len(group) == 1
        self._settle_owed(len(group) - len(settled))
        try:
            settled += self._on_commit(transaction)
        except Exception as error:  # noqa: BLE001 - the thread must survive, or all waiters hang
            # The batch is durable, so there is no retry; but not all subscribers are notified, so the store stops.
            self._broken = error if isinstance(error, StoreError) else StoreError(f"{self._path}: {error!r}")
            _LOG.critical("what was written could not be told to everybody: %s", self._broken)
        deliver(settled)
        return True

    def _fail(self, item: Item, error: Exception) -> None:
        if isinstance(item, _WriteJob) and item.future is not None:
            deliver([(item.future, error)])
            return
        # No future waits for this item, so it is kept for a retry, and the store refuses work until it is written.
        self._unflushed.append(item)
        self._broken = error if isinstance(error, StoreError) else StoreError(f"{self._path}: {error}")

    def _transact(self, group: list[Item]) -> tuple[Settled, Transaction]:
        with translate_errors(self._path):
            transaction = Transaction(self._connection)
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                settled = self._run_jobs(group, transaction)
                transaction.write_bookkeeping()
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise
            return settled, transaction

    def _run_jobs(self, group: list[Item], transaction: Transaction) -> Settled:
        settled: Settled = []
        for item in group:
            if not isinstance(item, _WriteJob):
                transaction.record(item)
                continue
            try:
                result = item.work(transaction)
            except UnknownRequest as error:
                result = error
            if item.future is not None:
                settled.append((item.future, result))
        return settled


def _nothing(_: Transaction) -> None:
    pass
