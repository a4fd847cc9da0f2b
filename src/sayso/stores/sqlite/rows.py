"""Transaction of a SQLite store: its row queries and audit lines, and the changes to publish after the commit.

Tests: tests/stores/sqlite/test_store.py
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sayso.core import audit
from sayso.core.msgpack_codec import (
    pack_remembered,
    pack_request,
    pack_run,
    unpack_remembered,
    unpack_request,
    unpack_requests_leniently,
    unpack_token,
)
from sayso.errors import StoreError
from sayso.stores.unit_of_work import UnitOfWork

if TYPE_CHECKING:
    from sayso.core.model import ApprovalRequest, AuditEntry, ParkedRun, Remembered
    from sayso.core.tokens import Token

GET = "SELECT packed FROM requests WHERE id = ?"
_ALL = -1  # no limit, for SQLite
_AFTER_ALL = "\U0010ffff"  # ids sort by creation time; this one sorts after all of them
_RECEIPT_SECONDS = 7 * 24 * 3600.0  # TTL: no caller retries after that


def last_change(connection: sqlite3.Connection) -> int:
    """Return the number of the last change of a request."""
    return connection.execute("SELECT request_changes FROM facts").fetchone()[0]


class Transaction(UnitOfWork):
    """Transaction of one batch, over the connection of the writer."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        super().__init__()
        self.connection = connection
        self.opened = False
        self.remembered = False
        self.change: int | None = None  # number of the last change of a request
        self._lines: list[tuple[int, bytes, str]] = []
        self._end: tuple[int, str] | None = None

    def execute(self, statement: str, *values: object) -> sqlite3.Cursor:
        """Run one statement."""
        return self.connection.execute(statement, values)

    def _value(self, query: str, *values: object) -> bytes | None:
        row = self.execute(query, *values).fetchone()
        return None if row is None else row[0]

    def _requests(self, query: str, *values: object) -> list[ApprovalRequest]:
        return unpack_requests_leniently(packed for (packed,) in self.execute(query, *values))

    # Requests.

    def get(self, request_id: str) -> ApprovalRequest | None:
        """Return one request."""
        packed = self._value(GET, request_id)
        return None if packed is None else unpack_request(packed)

    def find(self, session: str, key: str) -> ApprovalRequest | None:
        """Return the request of a call."""
        packed = self._value("SELECT packed FROM requests WHERE session = ? AND call_id = ?", session, key)
        return None if packed is None else unpack_request(packed)

    def with_call_id(self, session: str, call_id: str, limit: int) -> list[ApprovalRequest]:
        """Return the requests of a session for calls with this id, newest first."""
        query = "SELECT packed FROM requests WHERE session = ? AND framework_id = ? ORDER BY id DESC LIMIT ?"
        return self._requests(query, session, call_id, limit)

    def find_conflict(self, request: ApprovalRequest) -> ApprovalRequest:
        """Return the existing request of the same call; raise if only the id is in use."""
        found = self.find(request.session, request.key)
        if found is None:
            raise StoreError(f"the id {request.id} names another request")
        return found

    def pending(self, limit: int | None, after: str) -> list[ApprovalRequest]:
        """Return the open requests that come after that id, oldest first."""
        query = "SELECT packed FROM requests WHERE status = 'open' AND id > ? ORDER BY id LIMIT ?"
        return self._requests(query, after, _ALL if limit is None else limit)

    def recent(self, limit: int, part: str, before: str) -> list[ApprovalRequest]:
        """Return the requests that come before that id, newest first; with `part`, only with that prefix or suffix."""
        query = (
            "SELECT packed FROM requests WHERE id < ?3 AND (substr(id, 1, length(?1)) = ?1 OR substr(id, -length(?1)) ="
            " ?1) ORDER BY id DESC LIMIT ?2"
        )
        return self._requests(query, part, limit, before or _AFTER_ALL)

    def oldest(self, limit: int, after: str) -> list[ApprovalRequest]:
        """Return the requests that come after that id, oldest first."""
        return self._requests("SELECT packed FROM requests WHERE id > ? ORDER BY id LIMIT ?", after, limit)

    def changes(self, after: int | None, limit: int) -> tuple[int, list[ApprovalRequest]]:
        """Return the requests that changed after that point, and the point that these reach."""
        if after is None:
            return last_change(self.connection), []
        query = "SELECT change, packed FROM requests WHERE change > ? ORDER BY change LIMIT ?"
        found = self.execute(query, after, limit).fetchall()
        return (found[-1][0] if found else after), unpack_requests_leniently(packed for _, packed in found)

    def insert(self, request: ApprovalRequest, packed: bytes) -> bool:
        """Add a request; false if the session has one for this call, or the id is in use."""
        added = self.execute(
            "INSERT INTO requests VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
            request.id, request.session, request.key, request.status, request.asked_at, packed, self._next_change(),
            request.tool_call_id,
        )  # fmt: skip
        return added.rowcount > 0

    def update(self, request: ApprovalRequest) -> None:
        """Write a request in the place of its earlier state."""
        self.execute(
            "UPDATE requests SET status = ?, packed = ?, change = ? WHERE id = ?",
            request.status, pack_request(request), self._next_change(), request.id,
        )  # fmt: skip

    def _next_change(self) -> int:
        self.change = 1 + (last_change(self.connection) if self.change is None else self.change)
        return self.change

    def drop(self, ids: Sequence[str]) -> int:
        """Delete these requests, except open and approved ones, and return how many were deleted."""
        query = "DELETE FROM requests WHERE id = ? AND status NOT IN ('open', 'approved')"
        return sum(self.execute(query, each).rowcount for each in ids)

    # Remembered decisions, parked runs, tokens and receipts.

    def get_remembered(self, remembered_id: str) -> Remembered | None:
        """Return one remembered decision."""
        packed = self._value("SELECT packed FROM remembered WHERE id = ?", remembered_id)
        return None if packed is None else unpack_remembered(packed)

    def remember(self, added: Sequence[Remembered]) -> None:
        """Add remembered decisions."""
        for each in added:
            self.execute("INSERT OR REPLACE INTO remembered VALUES (?, ?)", each.id, pack_remembered(each))
            self.remembered = True

    def forget(self, dropped: Sequence[str]) -> int:
        """Delete remembered decisions, and return how many existed."""
        gone = sum(self.execute("DELETE FROM remembered WHERE id = ?", each).rowcount for each in dropped)
        self.remembered = self.remembered or gone > 0
        return gone

    def parked(self, name: str) -> bytes | None:
        """Return the state parked under this name."""
        return self._value("SELECT state FROM parked WHERE name = ?", name)

    def park(self, name: str, state: bytes, run: ParkedRun | None) -> None:
        """Store a state under this name, and list it as a run."""
        self.execute("INSERT OR REPLACE INTO parked VALUES (?, ?)", name, state)
        if run is not None:
            self.execute("INSERT OR REPLACE INTO runs VALUES (?, ?)", name, pack_run(run))

    def unpark(self, name: str) -> bytes | None:
        """Delete the state parked under this name, and return it."""
        state = self.parked(name)
        self.execute("DELETE FROM parked WHERE name = ?", name)
        self.execute("DELETE FROM runs WHERE name = ?", name)
        return state

    def token(self, token_id: str) -> Token | None:
        """Return one token."""
        packed = self._value("SELECT packed FROM tokens WHERE id = ?", token_id)
        return None if packed is None else unpack_token(packed)

    def take_token(self, token_id: str) -> Token | None:
        """Delete a token, and return it."""
        token = self.token(token_id)
        self.execute("DELETE FROM tokens WHERE id = ?", token_id)
        return token

    def get_receipt(self, attempt: str) -> bytes | None:
        """Return the stored answer to an attempt."""
        return self._value("SELECT answer FROM receipts WHERE attempt = ?", attempt)

    def put_receipt(self, attempt: str, answer: bytes) -> None:
        """Store the answer to an attempt, and delete expired ones."""
        now = time.time()
        self.execute("DELETE FROM receipts WHERE at < ?", now - _RECEIPT_SECONDS)
        self.execute("INSERT INTO receipts VALUES (?, ?, ?)", attempt, answer, now)

    # The audit.

    def record(self, entry: AuditEntry | bytes) -> None:
        """Seal an audit entry into the hash chain, after the last one."""
        last, previous = self._end or self.execute("SELECT chain_number, chain_hash FROM facts").fetchone()
        line = entry if isinstance(entry, bytes) else audit.encode(entry)
        self._end = last + 1, audit.seal(previous, last + 1, line)
        self._lines.append((last + 1, line, self._end[1]))

    def cut(self, start: tuple[int, str], end: tuple[int, str]) -> None:
        """Delete the audit entries up to `end`, if the audit still begins after `start`."""
        query = "UPDATE facts SET start_number = ?, start_hash = ? WHERE (start_number, start_hash) = (?, ?)"
        if self.execute(query, *end, *start).rowcount:
            self.execute("DELETE FROM audit WHERE number <= ?", end[0])

    def write_bookkeeping(self) -> None:
        """Write the sealed lines, the end of the hash chain, and the counters."""
        if self._end is not None:
            self.connection.executemany("INSERT INTO audit VALUES (?, ?, ?)", self._lines)
            self.execute("UPDATE facts SET chain_number = ?, chain_hash = ?", *self._end)
        if self.change is not None:
            self.execute("UPDATE facts SET request_changes = ?", self.change)
        if self.remembered:
            self.execute("UPDATE facts SET remembered_version = remembered_version + 1")
