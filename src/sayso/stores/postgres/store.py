"""PostgreSQL store: for any number of processes on any number of machines."""

from __future__ import annotations

import asyncio
import atexit
import os
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from sayso.core import audit
from sayso.core.msgpack_codec import pack_request, pack_token, unpack_requests_leniently, unpack_runs, unpack_token
from sayso.errors import StoreError
from sayso.stores.loop_thread import LoopThread
from sayso.stores.postgres.batch import CloseWork, OpenWork
from sayso.stores.postgres.connection import Connection, ReadPool, Row, Server, ServerUnavailable
from sayso.stores.postgres.diagnostics import Health, measure_health
from sayso.stores.postgres.follower import PostgresFollower
from sayso.stores.postgres.lookup import K, Lookup, V
from sayso.stores.postgres.schema import migrate, statement
from sayso.stores.postgres.server_clock import ServerClock
from sayso.stores.postgres.subscribers import Subscribers
from sayso.stores.postgres.transaction import GroupTransaction, call_key, row_key
from sayso.stores.postgres.writer import PostgresWriter
from sayso.stores.remembered_feed import RememberedCallback
from sayso.stores.retry import retry
from sayso.stores.waiters import Settled

if TYPE_CHECKING:
    from sayso.core.approvers import Seen
    from sayso.core.model import ApprovalDecision, ApprovalRequest, AuditEntry, ParkedRun, Remembered, Result, Status
    from sayso.core.ports import QueuedWrite
    from sayso.core.tokens import Token

_AFTER_ALL = "\U0010ffff"  # ids sort by creation time; this one sorts after all of them


class PostgresStore:
    """Requests, remembered decisions and audit in a PostgreSQL database; safe with many threads and loops."""

    shared = True
    files: tuple[str, ...] = ()

    def __init__(self, url: str, *, patience: float = 30.0) -> None:
        """Connect to the database, and create or migrate sayso's tables.

        Args:
            url: where it is, such as `postgresql://agent@db.example.com/sayso?sslmode=verify-full`.
            patience: seconds for which a call is retried when the server cannot be reached.

        Raises:
            ConfigurationError: the address cannot be used.
            StoreError: the server cannot be reached, or this user lacks a right that sayso needs.
        """
        self._server = Server.from_url(url)
        self._patience = patience
        self.clock = ServerClock()
        self._process = os.getpid()
        self._is_closed = False
        self._loop_thread = LoopThread("sayso-postgres")
        try:
            self._loop_thread.submit(self._begin()).result()
        except BaseException:
            self._loop_thread.stop(_nothing_more)
            raise
        self._serving = self._loop_thread.submit(self._writer.serve())
        self._following = self._loop_thread.submit(self._follower.run())
        atexit.register(self._stop)

    def __str__(self) -> str:
        """Name the database, and never the password."""
        return self._server.shown

    def __repr__(self) -> str:
        """Name the database, and never the password."""
        return f"PostgresStore({self._server.shown!r})"

    async def _begin(self) -> None:
        self._server, connection = await self._server.connect_and_detect_pooler()
        self._readers = ReadPool(self._server)
        self._writer = PostgresWriter(
            self._server, self._loop_thread.loop, patience=self._patience, on_commit=self._on_commit
        )
        self._subscribers = Subscribers(self._readers, self._writer.cache)
        self._by_id: Lookup[str, ApprovalRequest] = self._lookup("requests_get", self._writer.cache.unpack_row)
        self._by_call: Lookup[bytes, ApprovalRequest] = self._lookup("requests_find", self._writer.cache.unpack_row)
        self._tokens: Lookup[str, Token] = self._lookup("tokens_get", lambda row: unpack_token(row[1]))
        self._follower = PostgresFollower(self._server, self.clock, self._readers, self._subscribers, self._writer)
        self._writer.on_hint = self._follower.on_hint
        await self._readers.start()
        try:
            await self._prepare(connection)
            await self._follower.use_connection(connection)
            await self._follower.poll()
        except BaseException:
            connection.terminate()
            await self._readers.aclose()
            raise

    async def _prepare(self, connection: Connection) -> None:
        with self._server.translate_errors():
            await connection.execute("BEGIN")
            await migrate(connection, self._server)
            self._follower.point = (await connection.fetch(statement("head_read")))[0][4]
            await connection.execute("COMMIT")

    # Requests.

    async def open(self, request: ApprovalRequest) -> ApprovalRequest:
        """Add the request, or return the one that its session and key already have."""
        packed, call = pack_request(request), call_key(request.session, request.key)
        line = audit.encode(audit.request_entry(request, "asked", request.asked_at))  # here, outside the transaction
        self._subscribers.waiters.open_here.add(request.id)  # before the write: it cannot be closed yet
        opening, found = OpenWork(request, call, packed, line), None
        try:
            found = await self._writer.submit(
                opening, ("new", request.id), ("call", call), size=len(packed) + len(line)
            )
        except asyncio.CancelledError:
            self._writer.note_abandoned()
            raise
        else:
            return found
        finally:
            if found is not request:
                self._subscribers.waiters.open_here.discard(request.id)

    async def find(self, session: str, key: str) -> ApprovalRequest | None:
        """Return the request of this call."""
        return await self._look_up(self._by_call, call_key(session, key))

    async def with_call_id(self, session: str, call_id: str, limit: int = 100) -> list[ApprovalRequest]:
        """Return the requests of this session for calls with this id, newest first; see `Store`."""
        found = await self._fetch("requests_with_call_id", call_key(session, call_id), limit)
        return unpack_requests_leniently(row[0] for row in found)

    async def get(self, request_id: str) -> ApprovalRequest | None:
        """Return one request."""
        if "\x00" in request_id:
            return None  # PostgreSQL rejects a text with NUL
        return await self._look_up(self._by_id, request_id)

    async def pending(self, limit: int | None = None, after: str = "") -> list[ApprovalRequest]:
        """Return the open requests, oldest first; with `after`, only later ids."""
        return unpack_requests_leniently(row[0] for row in await self._fetch("requests_pending", after, limit))

    async def recent(self, limit: int = 100, part: str = "", before: str = "") -> list[ApprovalRequest]:
        """Return the newest requests, open or not, newest first; see `Store`."""
        before = before or _AFTER_ALL
        found = (
            await self._fetch("requests_named", before, limit, part)
            if part
            else await self._fetch("requests_recent", before, limit)
        )
        return unpack_requests_leniently(row[0] for row in found)

    async def changes(self, after: int | None = None, limit: int = 1000) -> tuple[int, list[ApprovalRequest]]:
        """Return the requests that changed after that point, and the point that these reach."""
        if after is None:
            return (await self._fetch("head_read"))[0][4], []
        found = await self._fetch("requests_changes", after, limit)
        return (found[-1][0] if found else after), unpack_requests_leniently(row[1] for row in found)

    async def changed(self, after: int) -> None:
        """Wait until requests have changed after that point."""
        await self._subscribers.feed.wait_past(after)

    async def mark_seen(self, request_id: str, seen: Seen) -> ApprovalRequest:
        """Mark an open request as viewed."""
        return await self._writer.submit(lambda group: group.mark_seen(request_id, seen), ("request", request_id))

    async def close(
        self,
        request_id: str,
        status: Status,
        decision: ApprovalDecision | None,
        *,
        now: float,
        remember: Sequence[Remembered] = (),
    ) -> ApprovalRequest:
        """Close the request unless it is closed, and return it as it is now."""
        closing = CloseWork(request_id, status, decision, now, remember)
        return await self._writer.submit(closing, ("request", request_id), size=closing.size)

    async def claim(self, request_id: str, *, now: float, attempt: str = "") -> bool:
        """Use up an approval: true for exactly one caller, ever."""
        return await self._writer.submit(
            lambda group: group.claim(request_id, now=now, attempt=attempt),
            ("request", request_id),
            ("receipts", attempt),
        )

    async def closed(self, request_id: str) -> ApprovalRequest:
        """Wait until the request is no longer open, and return it."""
        return await self._subscribers.waiters.wait(request_id, self.get)

    async def oldest(self, limit: int, after: str = "") -> list[ApprovalRequest]:
        """Return the requests that come after that id, open or not, oldest first."""
        return unpack_requests_leniently(row[0] for row in await self._fetch("requests_oldest", after, limit))

    async def drop(self, ids: Sequence[str]) -> int:
        """Delete these requests, except open and approved ones, and return how many were deleted."""
        return len(await self._fetch("requests_drop", list(ids)))

    # Remembered decisions, parked runs and tokens.

    async def spend(self, remembered_id: str, *, attempt: str = "") -> bool:
        """Consume one use of a counted decision: false if none is left."""
        return await self._writer.submit(
            lambda group: group.spend(remembered_id, attempt=attempt),
            ("remembered", remembered_id),
            ("receipts", attempt),
        )

    def attach(self, learn: RememberedCallback) -> None:
        """Call `learn` with all remembered decisions, now and after every change."""
        self._subscribers.remembered.add(learn)

    def remember(self, added: Sequence[Remembered], dropped: Sequence[str]) -> int:
        """Change the remembered decisions, wait until that is durable, and return how many were dropped."""
        return self._writer.submit_blocking(
            lambda group: group.change_remembered(added, dropped), *(("remembered", each) for each in dropped)
        )

    async def park(self, name: str, state: bytes, run: ParkedRun | None = None) -> None:
        """Store the state of a run for a later resume, in the place of an earlier one."""
        await self._writer.submit(lambda group: group.park(name, state, run), size=len(state))

    async def parked(self, name: str) -> bytes | None:
        """Return the state parked under this name."""
        found = await self._fetch("parked_get", row_key(name))
        return found[0][0] if found else None

    async def unpark(self, name: str, *, attempt: str = "") -> bytes | None:
        """Delete the state parked under this name, and return it to exactly one caller."""
        return await self._writer.submit(
            lambda group: group.idempotent(attempt, lambda: group.unpark(name)),
            ("parked", name),
            ("receipts", attempt),
        )

    async def parked_size(self, prefix: str) -> tuple[int, int]:
        """Return the number of states under this prefix, and their bytes."""
        number, size = (await self._fetch("parked_size", prefix))[0]
        return number, size

    async def runs(self) -> list[ParkedRun]:
        """Return the parked runs that were listed, oldest first."""
        return unpack_runs(row[0] for row in await self._fetch("runs_all"))

    async def add_token(self, token: Token) -> None:
        """Store a token."""
        await self._writer.submit(lambda group: group.key_values["tokens"].put(token.id, pack_token(token)))

    async def token(self, token_id: str) -> Token | None:
        """Return one token."""
        return await self._look_up(self._tokens, token_id)

    async def tokens(self) -> list[Token]:
        """Return all tokens, oldest first."""
        return [unpack_token(row[0]) for row in await self._fetch("tokens_all")]

    async def take_token(self, token_id: str) -> Token | None:
        """Delete a token, and return it to exactly one caller."""
        packed = await self._writer.submit(lambda group: group.pop("tokens", token_id), ("tokens", token_id))
        return None if packed is None else unpack_token(packed)

    # The audit.

    def finish(self, request_id: str, result: Result) -> None:
        """Queue the result of a used request."""
        self._writer.enqueue(lambda group: group.append([(request_id, result)]), ("request", request_id))

    def record(self, entry: AuditEntry) -> None:
        """Queue an entry of the audit."""
        self._writer.enqueue(audit.encode_early_if_needed(entry))

    async def append(self, news: Sequence[QueuedWrite], *, attempt: str = "") -> None:
        """Write results and audit lines that another process sent."""
        ids = (("request", each[0]) for each in news if not isinstance(each, bytes))
        size = sum(len(each) for each in news if isinstance(each, bytes))
        await self._writer.submit(
            lambda group: group.append(news, attempt=attempt), *ids, ("receipts", attempt), size=size
        )

    @property
    def backlog(self) -> int:
        """Number of queued changes that are not durable yet."""
        return self._writer.backlog

    async def flush(self) -> None:
        """Wait until everything queued so far is durable; an empty queue does not need the server."""
        await self._writer.drain()

    async def audit(self, after: int = 0, limit: int = 1000) -> list[tuple[int, bytes, str]]:
        """Return audit entries as (number, body, hash), in order."""
        return [(row[0], row[1], row[2]) for row in await self._fetch("audit_read", after, limit)]

    async def audit_ends(self) -> tuple[tuple[int, str], tuple[int, str]]:
        """Return number and hash of the entry before the first kept one, and of the last one."""
        head = (await self._fetch("head_read"))[0]
        return (head[0], head[1]), (head[2], head[3])

    async def cut(self, start: tuple[int, str], end: tuple[int, str]) -> None:
        """Delete the audit entries up to `end`, if the audit still begins after `start`."""
        await self._fetch("audit_cut", *start, *end)

    # Health and shutdown.

    async def health(self) -> Health:
        """Measure the connection to the server, now."""
        return await asyncio.wrap_future(
            self._loop_thread.submit(measure_health(self._server, self._readers, self._follower, self.clock))
        )

    async def aclose(self) -> None:
        """Write the queue and close all connections."""
        await asyncio.to_thread(self._stop)

    def _stop(self) -> None:
        atexit.unregister(self._stop)
        if self._process != os.getpid() or self._is_closed:
            return
        self._is_closed = True
        self._writer.stop()
        self._serving.result()
        self._subscribers.waiters.fail_all(StoreError(f"the store {self._server.shown} is closed"))
        self._loop_thread.submit(self._end()).result()
        self._loop_thread.stop(self._end)  # again: a task may have connected before it ended

    async def _end(self) -> None:
        """Close the connections before the tasks end: cancelling a statement would need a connection."""
        self._follower.stop()
        await self._readers.aclose()
        await asyncio.sleep(0)

    def _lookup(self, name: str, unpack: Callable[[Row], V]) -> Lookup[Any, V]:
        closed = f"the store {self._server.shown} is closed"
        return Lookup(
            self._loop_thread.loop, lambda keys: self._read_with_retry(name, keys), unpack, closed_message=closed
        )

    async def _look_up(self, lookup: Lookup[K, V], key: K) -> V | None:
        """Read one row, after all queued writes of this store."""
        await self._writer.drain()
        self._writer.check_open()
        return await lookup.find(key)

    async def _fetch(self, name: str, *values: object) -> list[Row]:
        """Read with retries, after all queued writes of this store."""
        await self._writer.drain()
        self._writer.check_open()
        reading = self._loop_thread.submit(self._read_with_retry(name, *values))
        try:
            return await asyncio.wrap_future(reading)
        except asyncio.CancelledError:
            if reading.cancelled():
                self._writer.check_open()  # closing the store cancels reads: report that
            raise

    async def _read_with_retry(self, name: str, *values: object) -> list[Row]:
        deadline = time.monotonic() + self._patience
        return await retry(
            lambda: self._readers.fetch(statement(name), *values), retry_on=ServerUnavailable, deadline=lambda: deadline
        )

    def _on_commit(self, group: GroupTransaction, known: Row | None) -> Settled:
        """Apply a committed transaction, and return the futures to settle."""
        self._follower.skip_own_commit(group.began, group.change)
        return self._subscribers.on_commit(group, known)


async def _nothing_more() -> None:
    pass
