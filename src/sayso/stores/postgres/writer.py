"""The one task that writes to a PostgreSQL store: in groups, one transaction for all that came in meanwhile.

Its connection listens too: so a hint that this store gives itself comes with the answer, and wakes nobody.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from sayso.core.model import AuditEntry, new_id
from sayso.errors import StoreError
from sayso.stores.postgres import transaction as groups
from sayso.stores.postgres.batch import Batch, Item, Job, Outcome, Work, run, unwaited
from sayso.stores.postgres.cache import Copies
from sayso.stores.postgres.connection import PLANS, Away, Connection, Rejected, Row, Server, settings
from sayso.stores.postgres.delivery import Telling
from sayso.stores.postgres.schema import statement
from sayso.stores.postgres.transaction import Group, Need
from sayso.stores.retry import patiently, pauses
from sayso.stores.waiters import Settled, deliver

T = TypeVar("T")

_LOG = logging.getLogger("sayso")
_CHANNEL = "sayso"
_LARGEST_GROUP, _LARGEST_BYTES = 500, 16_000_000  # what is long must not hold up the others, or be refused with them
_UNREAD_BYTES = {"request": 100_000, "parked": 4_000_000}  # most are shorter, some much longer
_FAREWELL_SECONDS = 10.0
# Whoever falls silent in the middle of a group must not hold up the others for ever: it is over before they give up.
_LIMITS = {"lock_timeout": "8s", "statement_timeout": "10s", "idle_in_transaction_session_timeout": "4s"}
_KIND = {"default_transaction_read_only": "off"}
_BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; {}SELECT 1 FROM sayso.head FOR UPDATE"


class Writer:
    """A queue, and the task that empties it. Jobs run in order; a group is durable before anybody hears of it."""

    def __init__(
        self, server: Server, loop: asyncio.AbstractEventLoop, *, patience: float, after: Callable[..., Settled]
    ) -> None:
        """Take where to write, and whom to tell what was written."""
        self._server, self._loop, self._patience, self._after = server, loop, patience, after
        self._id = new_id()
        self._number = 0
        self._queue: deque[Item] = deque()
        self._telling = Telling(loop, self._queue)
        self._gate = threading.Lock()
        self._wake = asyncio.Event()
        self._is_awake = False
        self._ends = float("inf")
        self._owed: list[Batch] = []
        self._later = 0  # how much is queued that nobody waits for
        self._broken: StoreError | None = None
        self._connection: Connection | None = None
        self._pid, self._pauses = 0, pauses()
        self._ring: Callable[[str], object] = _deaf
        self._process = os.getpid()
        self.copies = Copies()

    def listen(self, ring: Callable[[str], object]) -> None:
        """Call back with every hint that others give, and after each time in which none could be heard."""
        self._ring = ring

    @property
    def is_listening(self) -> bool:
        """Whether hints are heard."""
        return self._connection is not None and not self._connection.is_closed() and not self._server.pooler

    # From any thread.

    def do(self, work: Callable[[Group], T], *needs: Need, size: int = 0) -> asyncio.Future[T]:
        """Run this, which writes about so many bytes, in the next group; the future has its result once it is durable.

        Whoever does not wait for it any more does not undo it.
        """
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._put(Job(work, needs, future, size))
        return future

    def do_now(self, work: Callable[[Group], T], *needs: Need) -> T:
        """Run this in the next group and wait, without a loop, until that is durable."""
        done: Future[T] = Future()
        self._put(Job(work, needs, done))
        return done.result()

    def later(self, item: AuditEntry | bytes | Work, *needs: Need) -> None:
        """Queue this; if the store cannot be written, the next caller is told."""
        broken = self._broken
        if broken is not None:
            self._put(Job(_nothing))  # have another try at what is owed
            raise broken
        self._put(item if isinstance(item, AuditEntry | bytes) else Job(item, needs))

    def left_alone(self) -> None:
        """Note that nobody waits for something any more that may still be written: who reads now has to wait for it."""
        with contextlib.suppress(StoreError):
            self.later(_nothing)

    async def caught_up(self) -> None:
        """Wait until what was queued without waiting is durable, so that whoever reads now finds it."""
        if self._later:
            await self.do(_nothing)

    @property
    def backlog(self) -> int:
        """How much is not durable yet, and nobody waits for."""
        return self._later

    def check_open(self) -> None:
        """Refuse to work when the store is closed, or in a process that has none of its threads."""
        if self._process != os.getpid():
            raise StoreError(
                f"the store {self._server.shown} was opened before a fork; open it again in the child process"
            )
        if self._ends < float("inf"):
            raise StoreError(f"the store {self._server.shown} is closed")

    def _put(self, item: Item) -> None:
        with self._gate:
            self.check_open()
            self._queue.append(item)
            self._later += not isinstance(item, Job) or item.future is None
            if self._is_awake:
                return
            self._is_awake = True
        self._loop.call_soon_threadsafe(self._wake.set)

    def stop(self) -> None:
        """Take nothing more, and end once what is queued is written, or could not be for a while."""
        with self._gate:
            self._ends = min(self._ends, time.monotonic() + _FAREWELL_SECONDS)
        self._loop.call_soon_threadsafe(self._wake.set)

    # In the loop.

    async def serve(self) -> None:
        """Write until told to stop."""
        while True:
            items = self._gather()
            if items:
                await self._commit(items)
            elif self._ends < float("inf"):
                break
            else:
                await self._rest()
        if self._broken is not None:
            _LOG.critical("%d entries could not be written: %s", self._later, self._broken)
        if self._connection is not None:
            self._connection.terminate()

    async def _rest(self) -> None:
        """Wait for something to do; hints come over the connection, so it is made again if it is gone."""
        pause = None
        if not self._server.pooler and not self.is_listening:
            try:
                await self._connected()
            except StoreError:
                pause = next(self._pauses)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(pause):
                await self._wake.wait()

    def _gather(self) -> list[Item]:
        """Take what is there; what is too long for a group with others has one of its own."""
        items: list[Item] = []
        size = 0
        with self._gate:
            while self._queue and len(items) < _LARGEST_GROUP:
                size += self._size(self._queue[0])
                if items and size > _LARGEST_BYTES:
                    break
                items.append(self._queue.popleft())
            if not items:
                self._is_awake = False
                self._wake.clear()
        return items

    def _size(self, item: Item) -> int:
        """Return about how many bytes it writes and reads; what is known only by its name has to be read."""
        if not isinstance(item, Job):
            return len(item) if isinstance(item, bytes) else 0
        unread = (kind for kind, name in item.needs if name not in self.copies.kept)
        return item.size + sum(_UNREAD_BYTES.get(kind, 0) for kind in unread)

    async def _commit(self, items: list[Item]) -> None:
        """Write a group after what is still owed from earlier ones."""
        batches, self._owed = [*self._owed, Batch(items, Outcome(), {})], []
        patience = self._patience if self._broken is None else 0.0  # who was told already need not wait again
        self._broken = None
        for batch in batches:
            if self._owed and self._broken is not None:
                self._owed += self._fail(batch, self._broken)  # what was queued later must not be durable earlier
            else:
                self._owed += await self._persist(batch, patience)

    async def _persist(self, batch: Batch, patience: float) -> list[Batch]:
        """Write this, and return what of it is still owed."""
        began = time.monotonic()
        try:
            await patiently(lambda: self._transact(batch), away=Away, ends=lambda: min(began + patience, self._ends))
            await self._tell(batch, time.monotonic() - began)
        except Rejected as error:
            if len(batch.items) == 1:
                return self._fail(batch, error)
            return await self._one_by_one(batch.items, patience)
        except Exception as error:  # noqa: BLE001 - whoever waits must hear of it, and the task must live on
            return self._fail(batch, error)
        return []

    async def _one_by_one(self, items: list[Item], patience: float) -> list[Batch]:
        """Write what does not need the one that cannot be written."""
        owed: list[Batch] = []
        for item in items:
            batch = Batch([item], Outcome(), {})
            blocked = self._broken if owed else None
            owed += await self._persist(batch, patience) if blocked is None else self._fail(batch, blocked)
        return owed

    def _fail(self, batch: Batch, error: Exception) -> list[Batch]:
        """Tell those who wait; what nobody waits for is owed, and the store refuses work until it is written."""
        told = [(each.future, error) for each in batch.items if isinstance(each, Job) and each.future is not None]
        batch.items = unwaited(batch.items)
        if batch.items:
            self._broken = error if isinstance(error, StoreError) else StoreError(f"{self._server.shown}: {error!r}")
        deliver(told)
        return [batch] if batch.items else []

    async def _tell(self, batch: Batch, seconds: float) -> None:
        """Tell everybody who has to hear of a group that is now durable."""
        outcome = batch.outcome
        told = self._after(outcome.group, outcome.known) if outcome.group is not None else []
        with self._gate:
            self._later -= len(unwaited(batch.items))
        await self._telling.tell(outcome.settled, told, seconds)

    async def _transact(self, batch: Batch) -> None:
        connection = await self._connected()
        with self._server.translated():
            try:
                await self._exchange(connection, batch)
            except BaseException:
                connection.terminate()  # that is a rollback, unless the commit is what got lost
                raise

    async def _connected(self) -> Connection:
        if self._connection is None or self._connection.is_closed():
            connection = await self._server.connect(cached=not self._server.pooler)
            if not self._server.pooler:
                with self._server.translated():
                    await connection.execute(settings("SET", {**_LIMITS, **_KIND}))
                    await connection.add_listener(_CHANNEL, self._hear)
                    connection.add_termination_listener(lambda _: self._wake.set())
            self._connection, self._pid, self._pauses = connection, connection.get_server_pid(), pauses()
            self.copies.clear()  # a server that was away may have come back with an older past, and count on from there
            self._ring("")
        return self._connection

    def _hear(self, _: object, pid: int, __: str, payload: str) -> None:
        if pid != self._pid:
            self._ring(payload)

    async def _exchange(self, connection: Connection, batch: Batch) -> None:
        """Write a group by what is known here; where that is not enough or not so any more, hold the head and read."""
        needs = [need for each in batch.items if isinstance(each, Job) for need in each.needs]
        is_first = not batch.sent and not self._server.pooler  # whose transactions have settings of their own
        if not (is_first and await self._at_once(connection, batch, needs)):
            await self._in_turn(connection, batch, needs)

    async def _at_once(self, connection: Connection, batch: Batch, needs: list[Need]) -> bool:
        known = self.copies.of(needs)  # now: while the rest is read, some may go that are not read then
        missing = groups.unknown(needs, known)
        if missing is None:
            return False
        rows = await groups.read(connection, self._id, missing) if missing else []
        group, settled = self._work(batch.items, rows, known)
        if not group.is_simple:
            return False
        batch.outcome = Outcome(settled, group if group.is_changed else None)
        if not group.is_changed:
            return not group.relies
        number = self._send(batch)
        if await group.write(connection, self._id, number) == "written":
            group.copy_to(self.copies)
            return True
        group.leave(self.copies)
        del batch.sent[number]
        return False

    def _send(self, batch: Batch) -> int:
        """Return the number of an attempt that may be durable from now on."""
        self._number += 1
        batch.sent[self._number] = batch.outcome
        return self._number

    async def _in_turn(self, connection: Connection, batch: Batch, needs: list[Need]) -> None:
        own = settings("SET LOCAL", {**_LIMITS, **PLANS}) if self._server.pooler else ""
        await connection.execute(_BEGIN.format(own))
        rows = await groups.read(connection, self._id, needs)
        now = Group(rows)
        if now.last_group in batch.sent:
            # It was written all along, and only the answer was lost; a commit behind it waits for what that waited for.
            await connection.fetch(statement("group_confirm"), self._id)
            await self._end(connection)
            # Others may have changed something since, so how far the changes go by now says nothing about this group.
            batch.outcome = batch.sent[now.last_group]
            return
        group, settled = self._work(batch.items, rows)
        batch.outcome = Outcome(settled, group if group.is_changed else None)
        if not group.is_changed:
            await connection.execute("ROLLBACK")
            return
        number = self._send(batch)
        outcome = await group.write(connection, self._id, number)
        if outcome != "written":
            raise Away(f"the store {self._server.shown} lost what this is about while it was written; try again")
        if group.remembers:
            batch.outcome.known = (await connection.fetch(statement("remembered_read")))[0]
        await self._end(connection)
        group.copy_to(self.copies)

    async def _end(self, connection: Connection) -> None:
        if await connection.execute("COMMIT") != "COMMIT":
            raise StoreError(f"the store {self._server.shown} did not commit; nothing of it is written")

    def _work(self, items: list[Item], rows: list[Row], known: groups.Known | None = None) -> tuple[Group, Settled]:
        """Do all jobs; whatever one does that fails in the middle is as if it had never been there."""
        failed: Settled = []
        while True:
            group = Group(rows, known)
            settled, bad = run(items, group)
            if bad is None:
                return group, settled + failed
            item, error = bad
            if item.future is None:
                raise Rejected(f"the store {self._server.shown} cannot do this: {error!r}") from error
            failed.append((item.future, error))
            items = [each for each in items if each is not item]


def _deaf(_: str) -> None:
    pass


def _nothing(_: Group) -> None:
    pass
