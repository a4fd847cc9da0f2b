"""Writer task of a PostgreSQL store: writes batches of a write-behind queue, one transaction for each.

Optimistic concurrency: a batch decides by cached row versions and is written in one statement; if a version is stale,
it is retried under lock. The connection also listens, so that the writer's own notification wakes no other task.

Tests: tests/stores/postgres/test_promises.py
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from sayso.core.backoff import backoff
from sayso.core.model import AuditEntry, new_id
from sayso.errors import StoreError
from sayso.stores.postgres import transaction as groups
from sayso.stores.postgres.batch import Batch, BatchResult, Item, Job, Work, run_jobs, without_waiters
from sayso.stores.postgres.cache import RequestCache
from sayso.stores.postgres.connection import PLANS, Connection, Rejected, Row, Server, ServerUnavailable, set_statements
from sayso.stores.postgres.schema import statement
from sayso.stores.postgres.transaction import GroupTransaction, Need
from sayso.stores.retry import retry
from sayso.stores.waiters import Settled, deliver
from sayso.stores.write_queue import WriteBehindQueue

T = TypeVar("T")

_LOG = logging.getLogger("sayso")
_CHANNEL = "sayso"
_LARGEST_GROUP, _LARGEST_BYTES = 500, 16_000_000  # a large item must not delay the others or fail them
_UNREAD_BYTES = {"request": 100_000, "parked": 4_000_000}  # most are shorter, some much longer
_FAREWELL_SECONDS = 10.0
# A writer that stalls in a transaction must not block the others: the server ends it before they time out.
_LIMITS = {"lock_timeout": "8s", "statement_timeout": "10s", "idle_in_transaction_session_timeout": "4s"}
_WRITABLE = {"default_transaction_read_only": "off"}
_BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; {}SELECT 1 FROM sayso.head FOR UPDATE"


class PostgresWriter(WriteBehindQueue[Item]):
    """Write-behind queue and the task that empties it: jobs run in order, results are delivered after the commit."""

    def __init__(
        self, server: Server, loop: asyncio.AbstractEventLoop, *, patience: float, on_commit: Callable[..., Settled]
    ) -> None:
        super().__init__(f"the store {server.shown}")
        self._server, self._loop, self._patience, self._on_commit = server, loop, patience, on_commit
        self._id = new_id()
        self._number = 0
        self._awake = asyncio.Event()
        self._deadline = float("inf")
        self._unflushed: list[Batch] = []
        self._connection: Connection | None = None
        self._pid, self._backoff = 0, backoff()
        self.on_hint: Callable[[str], object] = lambda _: None  # notified by another session, or (empty) reconnected
        self.cache = RequestCache()

    @property
    def is_listening(self) -> bool:
        """Whether notifications are received."""
        return self._connection is not None and not self._connection.is_closed() and not self._server.pooler

    # From any thread.

    def submit(self, work: Callable[[GroupTransaction], T], *needs: Need, size: int = 0) -> asyncio.Future[T]:
        """Run a job of about `size` bytes in the next batch; its result is delivered to the future after the commit.

        Cancelling the future does not undo the job.
        """
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._put(Job(work, needs, future, size), is_awaited=True)
        return future

    def submit_blocking(self, work: Callable[[GroupTransaction], T], *needs: Need) -> T:
        """Run a job in the next batch and block until it is durable."""
        done: Future[T] = Future()
        self._put(Job(work, needs, done), is_awaited=True)
        return done.result()

    def enqueue(self, item: AuditEntry | bytes | Work, *needs: Need) -> None:
        """Queue an item that no future waits for; after a failed write, the next call raises."""
        broken = self._broken
        if broken is not None:
            self._put(Job(_nothing), is_awaited=False)  # triggers a retry of the unflushed batches
            raise broken
        self._put(item if isinstance(item, AuditEntry | bytes) else Job(item, needs), is_awaited=False)

    def note_abandoned(self) -> None:
        """Make later reads wait for the queue: a cancelled write may still commit, and they must include it."""
        with contextlib.suppress(StoreError):
            self.enqueue(_nothing)

    async def drain(self) -> None:
        """Wait until all items without a future are durable, so that a read includes them."""
        if self._owed:
            await self.submit(_nothing)

    def stop(self) -> None:
        """Close the queue; the task ends once the queue is written, or after a grace period."""
        self._deadline = min(self._deadline, time.monotonic() + _FAREWELL_SECONDS)
        self._close()

    def _wake(self) -> None:
        self._loop.call_soon_threadsafe(self._awake.set)

    # In the loop.

    async def serve(self) -> None:
        """Write batches until the queue is closed and empty."""
        while True:
            items = self._gather()
            if items:
                await self._commit(items)
            elif self._is_drained():
                break
            else:
                await self._wait_for_work()
        if self._broken is not None:
            _LOG.critical("%d entries could not be written: %s", self._owed, self._broken)
        if self._connection is not None:
            self._connection.terminate()

    async def _wait_for_work(self) -> None:
        """Wait for items; notifications arrive over the connection, so reconnect if it is lost."""
        pause = None
        if not self._server.pooler and not self.is_listening:
            try:
                await self._ensure_connected()
            except StoreError:
                pause = next(self._backoff)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(pause):
                await self._awake.wait()

    def _gather(self) -> list[Item]:
        """Remove the next batch from the queue; an item too large to share a batch has one of its own."""
        items: list[Item] = []
        size = 0
        self._awake.clear()
        if not self._has_items():
            return items
        while self._items and len(items) < _LARGEST_GROUP:
            size += self._size(self._items[0])
            if items and size > _LARGEST_BYTES:
                break
            items.append(self._items.popleft())
        return items

    def _size(self, item: Item) -> int:
        """Estimate the bytes that an item writes and reads; rows that are not cached have to be read."""
        if not isinstance(item, Job):
            return len(item) if isinstance(item, bytes) else 0
        unread = (kind for kind, name in item.needs if name not in self.cache.entries)
        return item.size + sum(_UNREAD_BYTES.get(kind, 0) for kind in unread)

    async def _commit(self, items: list[Item]) -> None:
        """Write a batch, after the unflushed rest of earlier ones."""
        batches = [*self._unflushed, Batch(items, BatchResult(), {})]
        patience = self._patience if self._broken is None else 0.0  # earlier callers have waited so long already
        self._broken = None
        self._unflushed = await self._persist_all(batches, patience)

    async def _persist_all(self, batches: list[Batch], patience: float) -> list[Batch]:
        """Write batches in order, and return those that stay unflushed."""
        unflushed: list[Batch] = []
        for batch in batches:
            if unflushed and self._broken is not None:
                unflushed += self._fail(batch, self._broken)  # a later item must not be durable earlier
            else:
                unflushed += await self._persist(batch, patience)
        return unflushed

    async def _persist(self, batch: Batch, patience: float) -> list[Batch]:
        """Write a batch with retries, and return the part that stays unflushed."""
        began = time.monotonic()
        try:
            await retry(
                lambda: self._transact(batch),
                retry_on=ServerUnavailable,
                deadline=lambda: min(began + patience, self._deadline),
            )
            self._deliver_results(batch)
        except Rejected as error:
            if len(batch.items) == 1:
                return self._fail(batch, error)
            alone = [Batch([each], BatchResult(), {}) for each in batch.items]  # a rejected item fails alone
            return await self._persist_all(alone, patience)
        except Exception as error:  # noqa: BLE001 - waiters receive the error, and the task must survive
            return self._fail(batch, error)
        return []

    def _fail(self, batch: Batch, error: Exception) -> list[Batch]:
        """Deliver the error; items without future stay unflushed, and until they are written the store refuses work."""
        failed = [(each.future, error) for each in batch.items if isinstance(each, Job) and each.future is not None]
        batch.items = without_waiters(batch.items)
        if batch.items:
            self._broken = error if isinstance(error, StoreError) else StoreError(f"{self._server.shown}: {error!r}")
        deliver(failed)
        return [batch] if batch.items else []

    def _deliver_results(self, batch: Batch) -> None:
        """Give every waiter the result of a batch that is now durable."""
        outcome = batch.outcome
        woken = self._on_commit(outcome.group, outcome.known) if outcome.group is not None else []
        self._settle_owed(len(without_waiters(batch.items)))
        deliver(outcome.settled + woken)

    async def _transact(self, batch: Batch) -> None:
        connection = await self._ensure_connected()
        with self._server.translate_errors():
            try:
                await self._write_batch(connection, batch)
            except BaseException:
                connection.terminate()  # a rollback, unless only the reply to the commit was lost
                raise

    async def _listen(self, connection: Connection) -> None:
        if self._server.pooler:
            return
        with self._server.translate_errors():
            await connection.execute(set_statements("SET", {**_LIMITS, **_WRITABLE}))
            await connection.add_listener(_CHANNEL, self._on_notify)
            connection.add_termination_listener(lambda _: self._awake.set())

    async def _ensure_connected(self) -> Connection:
        if self._connection is None or self._connection.is_closed():
            connection = await self._server.connect(cached=not self._server.pooler)
            try:
                await self._listen(connection)
            except BaseException:
                connection.terminate()  # no other task refers to it
                raise
            self._connection, self._pid, self._backoff = connection, connection.get_server_pid(), backoff()
            self.cache.clear()  # a restored database may reuse version numbers
            self.on_hint("")
        return self._connection

    def _on_notify(self, _: object, pid: int, __: str, payload: str) -> None:
        if pid != self._pid:
            self.on_hint(payload)

    async def _write_batch(self, connection: Connection, batch: Batch) -> None:
        """Optimistic concurrency: cached row versions, one statement; if one is missing or stale, retry under lock."""
        needs = [need for each in batch.items if isinstance(each, Job) for need in each.needs]
        is_first = not batch.sent and not self._server.pooler  # a pooler needs settings per transaction
        if not (is_first and await self._write_optimistic(connection, batch, needs)):
            await self._write_locked(connection, batch, needs)

    async def _write_optimistic(self, connection: Connection, batch: Batch, needs: list[Need]) -> bool:
        known = self.cache.select(needs)  # before the read, during which entries may be evicted
        missing = groups.rows_to_read(needs, known)
        if missing is None:
            return False
        rows = await groups.read_rows(connection, self._id, missing) if missing else []
        group, settled = self._run_jobs(batch.items, rows, known)
        if not group.is_simple:
            return False
        batch.outcome = BatchResult(settled, group if group.is_changed else None)
        if not group.is_changed:
            return not group.used_cache
        number = self._begin_attempt(batch)
        if await group.write(connection, self._id, number) == "written":
            group.store_in_cache(self.cache)
            return True
        group.evict_from_cache(self.cache)
        del batch.sent[number]
        return False

    def _begin_attempt(self, batch: Batch) -> int:
        """Number an attempt, which may be durable from now on even if its reply is lost."""
        self._number += 1
        batch.sent[self._number] = batch.outcome
        return self._number

    async def _write_locked(self, connection: Connection, batch: Batch, needs: list[Need]) -> None:
        own = set_statements("SET LOCAL", {**_LIMITS, **PLANS}) if self._server.pooler else ""
        await connection.execute(_BEGIN.format(own))
        rows = await groups.read_rows(connection, self._id, needs)
        now = GroupTransaction(rows)
        if now.last_group in batch.sent:
            # It was committed, and only the reply was lost; another commit waits for the same disk and standbys.
            await connection.fetch(statement("group_confirm"), self._id)
            await self._commit_transaction(connection)
            # Other writers may have advanced the head since, so its change number says nothing about this batch.
            batch.outcome = batch.sent[now.last_group]
            return
        group, settled = self._run_jobs(batch.items, rows)
        batch.outcome = BatchResult(settled, group if group.is_changed else None)
        if not group.is_changed:
            await connection.execute("ROLLBACK")
            return
        number = self._begin_attempt(batch)
        outcome = await group.write(connection, self._id, number)
        if outcome != "written":
            raise ServerUnavailable(
                f"the store {self._server.shown} lost what this is about while it was written; try again"
            )
        if group.changes_remembered:
            batch.outcome.known = (await connection.fetch(statement("remembered_read")))[0]
        await self._commit_transaction(connection)
        group.store_in_cache(self.cache)

    async def _commit_transaction(self, connection: Connection) -> None:
        if await connection.execute("COMMIT") != "COMMIT":
            raise StoreError(f"the store {self._server.shown} did not commit; nothing of it is written")

    def _run_jobs(
        self, items: list[Item], rows: list[Row], known: groups.CachedRequests | None = None
    ) -> tuple[GroupTransaction, Settled]:
        """Run all jobs; if one fails, run the others again without it."""
        failed: Settled = []
        while True:
            group = GroupTransaction(rows, known)
            settled, bad = run_jobs(items, group)
            if bad is None:
                return group, settled + failed
            item, error = bad
            if item.future is None:
                raise Rejected(f"the store {self._server.shown} cannot do this: {error!r}") from error
            failed.append((item.future, error))
            items = [each for each in items if each is not item]


def _nothing(_: GroupTransaction) -> None:
    pass
