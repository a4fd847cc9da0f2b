"""Group transaction of a PostgreSQL store: the rows that its jobs read, and the changes that they make.

Tests: tests/stores/postgres/test_races.py
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from sayso.core import audit
from sayso.core.msgpack_codec import pack_remembered, pack_request, pack_run, unpack_remembered, unpack_request
from sayso.errors import StoreError
from sayso.stores.postgres.schema import statement
from sayso.stores.unit_of_work import UnitOfWork

if TYPE_CHECKING:
    from sayso.core.model import ApprovalRequest, AuditEntry, ParkedRun, Remembered
    from sayso.stores.postgres.cache import RequestCache
    from sayso.stores.postgres.connection import Connection, Row

Reply = Literal["written", "written before", "stale"]  # of the database, to a write
CachedRequests = Mapping[str, tuple["ApprovalRequest", int]]  # by id: the request and its version
Need = tuple[str, str | bytes]  # kind and key of a row
_KINDS = ("request", "call", "remembered", "parked", "tokens", "receipts")
_KEY_VALUE_TABLES = ("remembered", "parked", "runs", "tokens")
_LONGEST_KEY = 1000  # bytes; an index entry has to fit into a third of a page
_HASHED = "sha256:"
_KEYED = (*_KEY_VALUE_TABLES, "receipts")
_NEW = ("new", "call", "receipts")  # nearly always absent, so not read first; the write reports a conflict


def call_key(session: str, key: str) -> bytes:
    """Return the hash that identifies a call of a session: an index limits the length of a key."""
    return hashlib.sha256(f"{len(session)}:{session}{key}".encode("utf-8", "surrogatepass")).digest()


def row_key(name: str) -> str:
    """Return the key of a row for any text: a hash where PostgreSQL cannot store or index the text itself."""
    packed = name.encode("utf-8", "surrogatepass")
    plain = len(packed) <= _LONGEST_KEY and b"\0" not in packed and name.isprintable()
    return name if plain and not name.startswith(_HASHED) else _HASHED + hashlib.sha256(packed).hexdigest()


class KeyValueRows:
    """Rows of a key-value table: as they were read, and with the changes of the transaction."""

    def __init__(self) -> None:
        self._rows: dict[str, bytes | None] = {}
        self._changed: dict[str, bytes | None] = {}

    def load(self, name: str, packed: bytes) -> None:
        """Add a row that was read."""
        self._rows[name] = packed

    def get(self, name: str) -> bytes | None:
        """Return the bytes under a name."""
        return self._rows.get(row_key(name))

    def put(self, name: str, packed: bytes | None) -> None:
        """Set the bytes under a name; None deletes it."""
        key = row_key(name)
        self._rows[key] = self._changed[key] = packed

    @property
    def is_changed(self) -> bool:
        """Whether there is anything to write."""
        return bool(self._changed)

    def changes(self) -> tuple[list[str], list[bytes], list[str]]:
        """Return the names and bytes to upsert, and the names to delete."""
        kept = {name: packed for name, packed in self._changed.items() if packed is not None}
        return list(kept), list(kept.values()), [name for name in self._changed if name not in kept]


class GroupTransaction(UnitOfWork):
    """Unit of work: decides by the rows that were read or cached, and collects the changes.

    Optimistic concurrency: the write statement compares the version of every row that was used, and writes nothing if
    one has changed; then the writer retries under lock.
    """

    def __init__(self, rows: Iterable[Row], known: CachedRequests | None = None) -> None:
        super().__init__()
        self.changes_remembered = False
        self.last_group = -1  # number of this writer's last committed attempt
        self.began = self.change = 0  # last change before this transaction and with it, set by the write
        self._cached: CachedRequests = known or {}
        self._requests: dict[str, bytes | ApprovalRequest] = {}
        self._changes: dict[str, int] = {}  # versions of the requests that exist
        self._seen: set[str] = set()
        self._by_call: dict[bytes, str] = {}
        self._added: dict[str, bytes] = {}
        self._written: dict[str, tuple[ApprovalRequest, bytes]] = {}
        self._lines: list[bytes] = []
        self.key_values = {name: KeyValueRows() for name in _KEYED}
        for row in rows:
            self._load_row(row)

    def _load_row(self, row: Row) -> None:
        what, name, packed, number = row
        if what == "request":
            self._requests[name], self._changes[name] = packed, number
        elif what == "call":
            self._by_call[packed] = name
        elif what == "head":
            self.change = number
        elif what == "writer":
            self.last_group = number
        else:
            self.key_values[what].load(name, packed)

    # Requests.

    def get(self, request_id: str) -> ApprovalRequest | None:
        """Return one request, and count it as used."""
        self._seen.add(request_id)
        found = self._requests.get(request_id)
        if isinstance(found, bytes):
            found = self._requests[request_id] = unpack_request(found)
        elif found is None and request_id in self._cached:
            found, self._changes[request_id] = self._cached[request_id]
            self._requests[request_id] = found
        return found

    def open(self, request: ApprovalRequest, call: bytes, packed: bytes, line: bytes) -> ApprovalRequest:
        """Add a request with its audit line, or return the existing one of its call."""
        if call in self._by_call:
            return self.require(self._by_call[call])
        if request.id in self._requests:
            raise StoreError(f"the id {request.id} names another request")
        self._requests[request.id] = request
        self._by_call[call] = request.id
        self._added[request.id] = call
        self._written[request.id] = (request, packed)
        self.record(line)
        return request

    def update(self, request: ApprovalRequest) -> None:
        """Write a request in the place of its earlier state."""
        self._written[request.id] = (request, pack_request(request))
        self._requests[request.id] = request

    # The audit.

    def record(self, entry: AuditEntry | bytes) -> None:
        """Add an audit entry after the last one."""
        self._lines.append(entry if isinstance(entry, bytes) else audit.encode(entry))

    # Everything else.

    def get_receipt(self, attempt: str) -> bytes | None:
        """Return the stored answer to an attempt."""
        return self.key_values["receipts"].get(attempt)

    def put_receipt(self, attempt: str, answer: bytes) -> None:
        """Store the answer to an attempt."""
        self.key_values["receipts"].put(attempt, answer)

    def pop(self, table: str, name: str) -> bytes | None:
        """Delete a name, and return its bytes."""
        packed = self.key_values[table].get(name)
        if packed is not None:
            self.key_values[table].put(name, None)
        return packed

    def park(self, name: str, state: bytes, run: ParkedRun | None) -> None:
        """Store a state under this name, and list it as a run."""
        self.key_values["parked"].put(name, state)
        if run is not None:
            self.key_values["runs"].put(name, pack_run(run))

    def unpark(self, name: str) -> bytes | None:
        """Delete the state under this name, and return it."""
        state = self.pop("parked", name)
        if state is not None:
            self.key_values["runs"].put(name, None)
        return state

    def get_remembered(self, remembered_id: str) -> Remembered | None:
        """Return one remembered decision."""
        packed = self.key_values["remembered"].get(remembered_id)
        return None if packed is None else unpack_remembered(packed)

    def remember(self, added: Sequence[Remembered]) -> None:
        """Add remembered decisions."""
        for each in added:
            self.key_values["remembered"].put(each.id, pack_remembered(each))
            self.changes_remembered = True

    def forget(self, dropped: Sequence[str]) -> int:
        """Delete remembered decisions, and return how many existed."""
        gone = sum(self.pop("remembered", each) is not None for each in dropped)
        self.changes_remembered = self.changes_remembered or gone > 0
        return gone

    # Writing.

    @property
    def is_changed(self) -> bool:
        """Whether there is anything to write."""
        return bool(self._written or self._lines) or any(rows.is_changed for rows in self.key_values.values())

    @property
    def is_simple(self) -> bool:
        """Whether one statement can write all its changes."""
        return not any(self.key_values[name].is_changed for name in _KEY_VALUE_TABLES)

    @property
    def used_cache(self) -> bool:
        """Whether a decision used a cached row."""
        return not self._cached.keys().isdisjoint(self._seen)

    async def write(self, connection: Connection, writer: str, number: int) -> Reply:
        """Write all changes, unless the version of a row that was used has changed."""
        for name in _KEY_VALUE_TABLES:
            if self.key_values[name].is_changed:
                await connection.fetch(statement(f"{name}_write"), *self.key_values[name].changes())
        values = (
            *(writer, number),
            *self._new_rows(),
            *self._old_rows(),
            *self._seen_rows(),
            *self.key_values["receipts"].changes()[:2],
            *(self._lines, self.changes_remembered),
        )
        reply: Reply
        reply, self.began = (await connection.fetch(statement("group_write"), *values))[0]
        self.change = self.began + len(self._written)
        return reply

    def _new_rows(self) -> Sequence[list[Any]]:
        rows = [self._written[each] for each in self._added]
        return (
            list(self._added),
            [self._added[request.id] + call_key(request.session, request.tool_call_id) for request, _ in rows],
            [_storable_text(request.project) for request, _ in rows],
            [request.asked_at for request, _ in rows],
            [request.status for request, _ in rows],
            [packed for _, packed in rows],
        )

    def _old_rows(self) -> Sequence[list[Any]]:
        rows = [each for each in self._written.items() if each[0] not in self._added]
        return (
            [each for each, _ in rows],
            [self._changes[each] for each, _ in rows],
            [request.status for _, (request, _) in rows],
            [packed for _, (_, packed) in rows],
        )

    def _seen_rows(self) -> Sequence[list[Any]]:
        seen = [each for each in self._seen if each in self._changes and each not in self._written]
        return seen, [self._changes[each] for each in seen]

    def store_in_cache(self, cache: RequestCache) -> None:
        """Cache the requests that it wrote, each with the version that the database gave it."""
        old = [each for each in self._written if each not in self._added]
        for change, each in enumerate([*old, *self._added], self.began + 1):
            request, packed = self._written[each]
            cache.put(request, change, len(packed))

    def evict_from_cache(self, cache: RequestCache) -> None:
        """Evict all requests that it used: one of them was stale."""
        cache.forget(self._seen)


def _storable_text(value: str) -> str:
    """Replace characters that PostgreSQL cannot store; the text serves for searching and is not the record."""
    return value.replace("\x00", "").encode("utf-8", "replace").decode()


def rows_to_read(needs: Iterable[Need], known: CachedRequests) -> list[Need] | None:
    """Return the rows to read before an optimistic write; None if it needs the lock."""
    wanted = [each for each in needs if each[0] not in _NEW and (each[0] != "request" or each[1] not in known)]
    return wanted if all(kind == "request" for kind, _ in wanted) else None


async def read_rows(connection: Connection, writer: str, needs: Iterable[Need]) -> list[Row]:
    """Read the rows that the jobs of a transaction need."""
    wanted: dict[str, list[str | bytes]] = {kind: [] for kind in _KINDS}
    for kind, name in needs:
        if name:  # an attempt without an idempotency key has no name
            key = row_key(name) if kind in _KEYED and isinstance(name, str) else name
            wanted["request" if kind == "new" else kind].append(key)
    return await connection.fetch(statement("group_read"), writer, *wanted.values())
