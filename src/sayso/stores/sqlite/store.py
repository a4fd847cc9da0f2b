"""SQLite store: one file, durable, shared by several processes on one machine."""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from sayso.core import audit, realpath
from sayso.core.msgpack_codec import (
    pack_request,
    pack_token,
    unpack_remembered,
    unpack_request,
    unpack_runs,
    unpack_token,
)
from sayso.errors import ConfigurationError, StoreError
from sayso.stores.remembered_feed import RememberedCallback, RememberedSubscribers
from sayso.stores.sqlite.doorbell import Doorbell
from sayso.stores.sqlite.rows import GET, Transaction, last_change
from sayso.stores.sqlite.schema import connect, translate_errors
from sayso.stores.sqlite.writer import SqliteWriter
from sayso.stores.waiters import Feed, Settled, Waiters, deliver

if TYPE_CHECKING:
    from sayso.core.approvers import Seen
    from sayso.core.model import ApprovalDecision, ApprovalRequest, AuditEntry, ParkedRun, Remembered, Result, Status
    from sayso.core.ports import QueuedWrite
    from sayso.core.tokens import Token

_POLL_SECONDS = 1.0
_LOG = logging.getLogger("sayso")


class SqliteStore:
    """Requests, remembered decisions and audit in a SQLite file in WAL mode."""

    shared = True

    def __init__(self, path: str | os.PathLike[str], *, synchronous: Literal["FULL", "NORMAL"] = "FULL") -> None:
        """Open or create the file.

        Args:
            path: the file; its folder must exist.
            synchronous: FULL survives a power cut; NORMAL is faster and survives only a crash of the process.
        """
        if synchronous not in {"FULL", "NORMAL"}:
            raise ConfigurationError(f"synchronous is {synchronous!r}; use 'FULL' or 'NORMAL'")
        self.path = Path(path).absolute()
        self._waiters = Waiters()
        self._remembered_subscribers = RememberedSubscribers()
        self._feed = Feed()
        self._reader = connect(self.path, synchronous=synchronous)
        try:
            with translate_errors(self.path):
                self._publish_remembered(self._reader)
                self._feed.advance(last_change(self._reader))
            self._writer = SqliteWriter(self.path, synchronous=synchronous, on_commit=self._on_commit)
        except StoreError:
            self._reader.close()
            raise
        # A tool that could write here could answer its own questions.
        self.files = (realpath.resolve(str(self.path)),)
        self._bell = Doorbell(self.path)
        self._closing = threading.Event()
        self._listener_thread = threading.Thread(target=self._listen, name="sayso-doorbell", daemon=True)
        self._listener_thread.start()

    async def open(self, request: ApprovalRequest) -> ApprovalRequest:
        """Add the request, or return the one that its session and key already have."""
        packed = pack_request(request)

        def work(tx: Transaction) -> ApprovalRequest:
            self._waiters.open_here.add(request.id)  # before the write: it cannot be closed yet
            if not tx.insert(request, packed):
                self._waiters.open_here.discard(request.id)
                return tx.find_conflict(request)
            tx.opened = True
            tx.record_step(request, "asked", request.asked_at)
            return request

        return await self._writer.submit(work)

    async def find(self, session: str, key: str) -> ApprovalRequest | None:
        """Return the request of this call."""
        return await self._writer.submit(lambda tx: tx.find(session, key))

    async def with_call_id(self, session: str, call_id: str, limit: int = 100) -> list[ApprovalRequest]:
        """Return the requests of this session for calls with this id, newest first; see `Store`."""
        return await self._writer.submit(lambda tx: tx.with_call_id(session, call_id, limit))

    async def get(self, request_id: str) -> ApprovalRequest | None:
        """Return one request."""
        return await self._writer.submit(lambda tx: tx.get(request_id))

    async def pending(self, limit: int | None = None, after: str = "") -> list[ApprovalRequest]:
        """Return the open requests, oldest first; with `after`, only later ids."""
        return await self._writer.submit(lambda tx: tx.pending(limit, after))

    async def recent(self, limit: int = 100, part: str = "", before: str = "") -> list[ApprovalRequest]:
        """Return the newest requests, open or not, newest first; see `Store`."""
        return await self._writer.submit(lambda tx: tx.recent(limit, part, before))

    async def changes(self, after: int | None = None, limit: int = 1000) -> tuple[int, list[ApprovalRequest]]:
        """Return the requests that changed after that point, and the point that these reach."""
        return await self._writer.submit(lambda tx: tx.changes(after, limit))

    async def changed(self, after: int) -> None:
        """Wait until requests have changed after that point."""
        await self._feed.wait_past(after)

    async def mark_seen(self, request_id: str, seen: Seen) -> ApprovalRequest:
        """Mark an open request as viewed."""
        return await self._writer.submit(lambda tx: tx.mark_seen(request_id, seen))

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
        return await self._writer.submit(lambda tx: tx.close(request_id, status, decision, now=now, remember=remember))

    async def claim(self, request_id: str, *, now: float, attempt: str = "") -> bool:
        """Use up an approval: true for exactly one caller, ever."""
        return await self._writer.submit(lambda tx: tx.claim(request_id, now=now, attempt=attempt))

    async def closed(self, request_id: str) -> ApprovalRequest:
        """Wait until the request is no longer open, and return it."""
        return await self._waiters.wait(request_id, self.get)

    async def spend(self, remembered_id: str, *, attempt: str = "") -> bool:
        """Consume one use of a counted decision: false if none is left."""
        return await self._writer.submit(lambda tx: tx.spend(remembered_id, attempt=attempt))

    async def park(self, name: str, state: bytes, run: ParkedRun | None = None) -> None:
        """Store the state of a run for a later resume, in the place of an earlier one."""
        await self._writer.submit(lambda tx: tx.park(name, state, run))

    async def parked(self, name: str) -> bytes | None:
        """Return the state parked under this name."""
        return await self._writer.submit(lambda tx: tx.parked(name))

    async def unpark(self, name: str, *, attempt: str = "") -> bytes | None:
        """Delete the state parked under this name, and return it to exactly one caller."""
        return await self._writer.submit(lambda tx: tx.idempotent(attempt, lambda: tx.unpark(name)))

    async def parked_size(self, prefix: str) -> tuple[int, int]:
        """Return the number of states under this prefix, and their bytes."""
        query = "SELECT count(*), coalesce(sum(length(state)), 0) FROM parked WHERE name > ? AND name < ?"
        following = f"{prefix[:-1]}0"  # the character after the slash at its end
        return await self._writer.submit(lambda tx: tx.execute(query, prefix, following).fetchone())

    async def runs(self) -> list[ParkedRun]:
        """Return the parked runs that were listed, oldest first."""
        found = await self._writer.submit(lambda tx: tx.execute("SELECT packed FROM runs").fetchall())
        return unpack_runs(row[0] for row in found)

    async def add_token(self, token: Token) -> None:
        """Store a token."""
        await self._writer.submit(
            lambda tx: tx.execute("INSERT INTO tokens VALUES (?, ?)", token.id, pack_token(token))
        )

    async def token(self, token_id: str) -> Token | None:
        """Return one token."""
        return await self._writer.submit(lambda tx: tx.token(token_id))

    async def tokens(self) -> list[Token]:
        """Return all tokens, oldest first."""
        query = "SELECT packed FROM tokens ORDER BY id"  # ids sort by creation time
        found = await self._writer.submit(lambda tx: tx.execute(query).fetchall())
        return [unpack_token(row[0]) for row in found]

    async def take_token(self, token_id: str) -> Token | None:
        """Delete a token, and return it to exactly one caller."""
        return await self._writer.submit(lambda tx: tx.take_token(token_id))

    def attach(self, learn: RememberedCallback) -> None:
        """Call `learn` with all remembered decisions, now and after every change."""
        self._remembered_subscribers.add(learn)

    def remember(self, added: Sequence[Remembered], dropped: Sequence[str]) -> int:
        """Change the remembered decisions, wait until that is durable, and return how many were dropped."""
        return self._writer.submit_blocking(lambda tx: tx.change_remembered(added, dropped))

    def finish(self, request_id: str, result: Result) -> None:
        """Queue the result of a used request."""
        self._writer.enqueue(lambda tx: tx.append([(request_id, result)]))

    def record(self, entry: AuditEntry) -> None:
        """Queue an entry of the audit; what became of an approved call is written with its result, and soon."""
        answered = entry.outcome is not None and entry.outcome.request_id is not None
        self._writer.enqueue(audit.encode_early_if_needed(entry), soon=answered)

    async def append(self, news: Sequence[QueuedWrite], *, attempt: str = "") -> None:
        """Write results and audit lines that another process sent."""
        await self._writer.submit(lambda tx: tx.append(news, attempt=attempt))

    @property
    def backlog(self) -> int:
        """Number of queued changes that are not durable yet."""
        return self._writer.backlog

    async def flush(self) -> None:
        """Wait until everything queued so far is durable."""
        await self._writer.submit(lambda _: None)

    async def audit(self, after: int = 0, limit: int = 1000) -> list[tuple[int, bytes, str]]:
        """Return audit entries as (number, body, hash), in order."""
        query = "SELECT number, line, hash FROM audit WHERE number > ? ORDER BY number LIMIT ?"
        return await self._writer.submit(lambda tx: tx.execute(query, after, limit).fetchall())

    async def audit_ends(self) -> tuple[tuple[int, str], tuple[int, str]]:
        """Return number and hash of the entry before the first kept one, and of the last one."""
        query = "SELECT start_number, start_hash, chain_number, chain_hash FROM facts"
        row = await self._writer.submit(lambda tx: tx.execute(query).fetchone())
        return row[:2], row[2:]

    async def oldest(self, limit: int, after: str = "") -> list[ApprovalRequest]:
        """Return the requests that come after that id, open or not, oldest first."""
        return await self._writer.submit(lambda tx: tx.oldest(limit, after))

    async def drop(self, ids: Sequence[str]) -> int:
        """Delete these requests, except open and approved ones, and return how many were deleted."""
        return await self._writer.submit(lambda tx: tx.drop(ids))

    async def cut(self, start: tuple[int, str], end: tuple[int, str]) -> None:
        """Delete the audit entries up to `end`, if the audit still begins after `start`."""
        await self._writer.submit(lambda tx: tx.cut(start, end))

    async def aclose(self) -> None:
        """Write the queue and close the file."""
        self._closing.set()
        self._bell.wake()
        await asyncio.to_thread(self._writer.stop)
        await asyncio.to_thread(self._listener_thread.join)
        self._waiters.fail_all(StoreError(f"the store {self.path} is closed"))
        self._bell.close()
        self._reader.close()

    def _on_commit(self, tx: Transaction) -> Settled:
        """Apply a committed transaction, and return the futures to settle."""
        if tx.remembered:
            self._publish_remembered(tx.connection)
        if tx.closed or tx.opened or tx.remembered:
            self._bell.ring([request.id for request in tx.closed])
        moved = [] if tx.change is None else self._feed.advance(tx.change)
        return self._waiters.settle(tx.closed) + moved

    def _publish_remembered(self, connection: sqlite3.Connection) -> None:
        # The version first: a list newer than its version is published twice, an older one never.
        version = connection.execute("SELECT remembered_version FROM facts").fetchone()[0]
        if version > self._remembered_subscribers.version:
            found = connection.execute("SELECT packed FROM remembered ORDER BY id").fetchall()
            self._remembered_subscribers.publish([unpack_remembered(row[0]) for row in found], version)

    def _listen(self) -> None:
        """Read the rows that a notification names and, as one can be lost, poll all of them about once a second."""
        seen, due = -1, 0.0
        while not self._closing.is_set():
            rung = self._bell.wait_for_ring(_POLL_SECONDS)
            try:
                if rung:
                    self._check_requests(rung)
                if not rung or time.monotonic() >= due:
                    version = self._reader.execute("PRAGMA data_version").fetchone()[0]
                    if version != seen:
                        self._check_requests(self._waiters.note_missed_changes())  # a ring may be lost
                    seen, due = version, time.monotonic() + _POLL_SECONDS
            except Exception as error:  # noqa: BLE001 - the listener thread must survive, or waiters hang
                _LOG.warning("the store %s could not be read, trying again: %r", self.path, error)

    def _check_requests(self, ids: Sequence[str]) -> None:
        found = [self._reader.execute(GET, (each,)).fetchone() for each in self._waiters.note_changed(ids)]
        requests = [unpack_request(row[0]) for row in found if row is not None]
        deliver(self._waiters.settle([each for each in requests if each.status != "open"]))
        deliver(self._feed.advance(last_change(self._reader)))
        self._publish_remembered(self._reader)
