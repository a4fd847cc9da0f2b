"""Row queries of a SQLite store, inside a transaction: requests, remembered decisions, parked runs, tokens.

Tests: tests/stores/sqlite/test_store.py
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

import msgspec

from sayso.core import decide
from sayso.core.msgpack_codec import (
    pack_remembered,
    pack_request,
    unpack_remembered,
    unpack_request,
    unpack_requests_leniently,
    unpack_token,
)
from sayso.errors import StoreError, UnknownRequest

if TYPE_CHECKING:
    from sayso.core.model import ApprovalRequest, Remembered
    from sayso.core.ports import QueuedWrite
    from sayso.core.tokens import Token
    from sayso.stores.sqlite.writer import Transaction

GET = "SELECT packed FROM requests WHERE id = ?"
_ALL = -1  # no limit, for SQLite
_AFTER_ALL = "\U0010ffff"  # ids sort by creation time; this one sorts after all of them
_RECEIPT_SECONDS = 7 * 24 * 3600.0  # TTL: no caller retries after that

T = TypeVar("T")


def get(tx: Transaction, request_id: str) -> ApprovalRequest | None:
    """Return one request."""
    row = tx.execute(GET, request_id).fetchone()
    return None if row is None else unpack_request(row[0])


def require(tx: Transaction, request_id: str) -> ApprovalRequest:
    """Return a request, or raise UnknownRequest."""
    request = get(tx, request_id)
    if request is None:
        raise UnknownRequest(request_id)
    return request


def find(tx: Transaction, session: str, key: str) -> ApprovalRequest | None:
    """Return the request of a call."""
    row = tx.execute("SELECT packed FROM requests WHERE session = ? AND call_id = ?", session, key).fetchone()
    return None if row is None else unpack_request(row[0])


def pending(tx: Transaction, limit: int | None, after: str) -> list[ApprovalRequest]:
    """Return the open requests that come after that id, oldest first."""
    query = "SELECT packed FROM requests WHERE status = 'open' AND id > ? ORDER BY id LIMIT ?"
    return unpack_requests_leniently(packed for (packed,) in tx.execute(query, after, _ALL if limit is None else limit))


def recent(tx: Transaction, limit: int, part: str, before: str) -> list[ApprovalRequest]:
    """Return the requests that come before that id, newest first; with `part`, only ids with that prefix or suffix."""
    query = (
        "SELECT packed FROM requests WHERE id < ?3 AND (substr(id, 1, length(?1)) = ?1 OR substr(id, -length(?1)) = ?1)"
        " ORDER BY id DESC LIMIT ?2"
    )
    return unpack_requests_leniently(packed for (packed,) in tx.execute(query, part, limit, before or _AFTER_ALL))


def oldest(tx: Transaction, limit: int, after: str) -> list[ApprovalRequest]:
    """Return the requests that come after that id, oldest first."""
    query = "SELECT packed FROM requests WHERE id > ? ORDER BY id LIMIT ?"
    return unpack_requests_leniently(packed for (packed,) in tx.execute(query, after, limit))


def drop(tx: Transaction, ids: Sequence[str]) -> int:
    """Delete these requests, except open and approved ones, and return how many were deleted."""
    query = "DELETE FROM requests WHERE id = ? AND status NOT IN ('open', 'approved')"
    return sum(tx.execute(query, each).rowcount for each in ids)


def cut(tx: Transaction, start: tuple[int, str], end: tuple[int, str]) -> None:
    """Delete the audit entries up to `end`, if the audit still begins after `start`."""
    query = "UPDATE facts SET start_number = ?, start_hash = ? WHERE (start_number, start_hash) = (?, ?)"
    if tx.execute(query, *end, *start).rowcount:
        tx.execute("DELETE FROM audit WHERE number <= ?", end[0])


def find_conflict(tx: Transaction, request: ApprovalRequest) -> ApprovalRequest:
    """Return the existing request of the same call; raise if only the id is in use."""
    found = find(tx, request.session, request.key)
    if found is None:
        raise StoreError(f"the id {request.id} names another request")
    return found


def insert(tx: Transaction, request: ApprovalRequest, packed: bytes) -> bool:
    """Add a request; false if the session has one for this call, or the id is in use."""
    added = tx.execute(
        "INSERT INTO requests VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
        request.id, request.session, request.key, request.status, request.asked_at, packed, tx.next_change(),
    )  # fmt: skip
    return added.rowcount > 0


def update(tx: Transaction, request: ApprovalRequest) -> None:
    """Write a request in the place of its earlier state."""
    tx.execute(
        "UPDATE requests SET status = ?, packed = ?, change = ? WHERE id = ?",
        request.status, pack_request(request), tx.next_change(), request.id,
    )  # fmt: skip


def changes(tx: Transaction, after: int | None, limit: int) -> tuple[int, list[ApprovalRequest]]:
    """Return the requests that changed after that point, and the point that these reach."""
    if after is None:
        return last_change(tx.connection), []
    query = "SELECT change, packed FROM requests WHERE change > ? ORDER BY change LIMIT ?"
    found = tx.execute(query, after, limit).fetchall()
    return (found[-1][0] if found else after), unpack_requests_leniently(packed for _, packed in found)


def last_change(connection: sqlite3.Connection) -> int:
    """Return the number of the last change of a request."""
    return connection.execute("SELECT request_changes FROM facts").fetchone()[0]


def parked(tx: Transaction, name: str) -> bytes | None:
    """Return the state parked under this name."""
    row = tx.execute("SELECT state FROM parked WHERE name = ?", name).fetchone()
    return None if row is None else row[0]


def idempotent(tx: Transaction, attempt: str, work: Callable[[], T]) -> T:
    """Run the work once per idempotency key (`attempt`); return the stored answer to a repeated one."""
    if not attempt:
        return work()
    row = tx.execute("SELECT answer FROM receipts WHERE attempt = ?", attempt).fetchone()
    if row is not None:
        return msgspec.msgpack.decode(row[0])
    answer, now = work(), time.time()
    tx.execute("DELETE FROM receipts WHERE at < ?", now - _RECEIPT_SECONDS)
    tx.execute("INSERT INTO receipts VALUES (?, ?, ?)", attempt, msgspec.msgpack.encode(answer), now)
    return answer


def append(tx: Transaction, news: Sequence[QueuedWrite]) -> None:
    """Write results and audit lines; a request that was deleted needs no result."""
    for each in news:
        if isinstance(each, bytes):
            tx.record(each)
            continue
        request_id, result = each
        request = get(tx, request_id)
        if request is not None:
            update(tx, decide.finish(request, result))


def token(tx: Transaction, token_id: str) -> Token | None:
    """Return one token."""
    row = tx.execute("SELECT packed FROM tokens WHERE id = ?", token_id).fetchone()
    return None if row is None else unpack_token(row[0])


def remember(tx: Transaction, added: Sequence[Remembered]) -> None:
    """Add remembered decisions."""
    for each in added:
        tx.execute("INSERT OR REPLACE INTO remembered VALUES (?, ?)", each.id, pack_remembered(each))
        tx.remembered = True


def spend(tx: Transaction, remembered_id: str) -> bool:
    """Consume one use of a counted decision: false if none is left."""
    row = tx.execute("SELECT packed FROM remembered WHERE id = ?", remembered_id).fetchone()
    left = decide.spend(None if row is None else unpack_remembered(row[0]))
    if left is None:
        return False
    if left.uses_left:
        remember(tx, [left])
    else:
        forget(tx, [left.id])
    return True


def forget(tx: Transaction, dropped: Sequence[str]) -> int:
    """Delete remembered decisions, and return how many existed."""
    gone = sum(tx.execute("DELETE FROM remembered WHERE id = ?", each).rowcount for each in dropped)
    tx.remembered = tx.remembered or gone > 0
    return gone
