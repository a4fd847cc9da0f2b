"""One group of changes of a PostgreSQL store: the rows that its jobs need, as they stand, and what becomes of them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import msgspec

from sayso.core import audit, decide
from sayso.core.msgpack_codec import pack_remembered, pack_request, unpack_remembered, unpack_request
from sayso.errors import StoreError, UnknownRequest
from sayso.stores.postgres.schema import statement

if TYPE_CHECKING:
    from sayso.core.model import ApprovalRequest, AuditEntry, Remembered, Step
    from sayso.core.ports import QueuedWrite
    from sayso.stores.postgres.cache import RequestCache
    from sayso.stores.postgres.connection import Connection, Row

T = TypeVar("T")

Reply = Literal["written", "written before", "stale"]  # of the database, to a group
CachedRequests = Mapping[
    str, tuple["ApprovalRequest", int]
]  # requests that were read or written before, each with its change
Need = tuple[str, str | bytes]  # a kind of row, and which
_KINDS = ("request", "call", "remembered", "parked", "tokens", "receipts")
_KEY_VALUE_TABLES = ("remembered", "parked", "tokens")
_NEW = ("new", "call", "receipts")  # what is nearly always not there; the database notices if it is


def call_key(session: str, key: str) -> bytes:
    """Return what stands for a call of a session in the database, which limits how long a key can be."""
    return hashlib.sha256(f"{len(session)}:{session}{key}".encode("utf-8", "surrogatepass")).digest()


class KeyValueRows:
    """Bytes under names, as they stand and as the group leaves them."""

    def __init__(self) -> None:
        """Begin with what will be read."""
        self._there: dict[str, bytes | None] = {}
        self._changed: dict[str, bytes | None] = {}

    def load(self, name: str, packed: bytes) -> None:
        """Take a row as it stands."""
        self._there[name] = packed

    def get(self, name: str) -> bytes | None:
        """Return what is under a name."""
        return self._there.get(name)

    def put(self, name: str, packed: bytes | None) -> None:
        """Put this under a name, or nothing."""
        self._there[name] = self._changed[name] = packed

    @property
    def is_changed(self) -> bool:
        """Whether there is anything to write."""
        return bool(self._changed)

    def changes(self) -> tuple[list[str], list[bytes], list[str]]:
        """Return the names and bytes to put, and the names to drop."""
        kept = {name: packed for name, packed in self._changed.items() if packed is not None}
        return list(kept), list(kept.values()), [name for name in self._changed if name not in kept]


class GroupTransaction:
    """What a group knows and does. What it decides holds only if all that it knows is still so when it is written."""

    def __init__(self, rows: Iterable[Row], known: CachedRequests | None = None) -> None:
        """Take the rows that were read, and requests that are known from before."""
        self.closed: list[ApprovalRequest] = []
        self.changes_remembered = False
        self.last_group = -1  # of this writer
        self.began = self.change = 0  # how far the changes went before it and go with it, once it is written
        self._known: CachedRequests = known or {}
        self._requests: dict[str, bytes | ApprovalRequest] = {}
        self._changes: dict[str, int] = {}  # of the requests that were there
        self._seen: set[str] = set()
        self._by_call: dict[bytes, str] = {}
        self._added: dict[str, bytes] = {}
        self._written: dict[str, tuple[ApprovalRequest, bytes]] = {}
        self._lines: list[bytes] = []
        self.key_values = {name: KeyValueRows() for name in (*_KEY_VALUE_TABLES, "receipts")}
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
        """Return one request."""
        self._seen.add(request_id)
        found = self._requests.get(request_id)
        if isinstance(found, bytes):
            found = self._requests[request_id] = unpack_request(found)
        elif found is None and request_id in self._known:
            found, self._changes[request_id] = self._known[request_id]
            self._requests[request_id] = found
        return found

    def require(self, request_id: str) -> ApprovalRequest:
        """Return a request that has to be there."""
        request = self.get(request_id)
        if request is None:
            raise UnknownRequest(request_id)
        return request

    def open(self, request: ApprovalRequest, call: bytes, packed: bytes, line: bytes) -> ApprovalRequest:
        """Add a request with the line that tells of it, or return the one that its call has."""
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
        """Change a request to what it is now."""
        self._written[request.id] = (request, pack_request(request))
        self._requests[request.id] = request

    def append(self, news: Sequence[QueuedWrite]) -> None:
        """Take results, and lines of the audit; a request that is no longer kept needs no result."""
        for each in news:
            if isinstance(each, bytes):
                self.record(each)
                continue
            request = self.get(each[0])
            if request is not None:
                self.update(decide.finish(request, each[1]))

    # The audit.

    def record_step(self, request: ApprovalRequest, step: Step, at: float) -> None:
        """Audit a step of a request."""
        self.record(audit.request_entry(request, step, at))

    def record(self, entry: AuditEntry | bytes) -> None:
        """Add an entry behind the last one."""
        self._lines.append(entry if isinstance(entry, bytes) else audit.encode(entry))

    # Everything else.

    def idempotent(self, attempt: str, work: Callable[[], T]) -> T:
        """Do this, unless this attempt has its answer."""
        if not attempt:
            return work()
        receipts = self.key_values["receipts"]
        known = receipts.get(attempt)
        if known is not None:
            return msgspec.msgpack.decode(known)
        answer = work()
        receipts.put(attempt, msgspec.msgpack.encode(answer))
        return answer

    def pop(self, table: str, name: str) -> bytes | None:
        """Return what is under a name, and leave nothing there."""
        packed = self.key_values[table].get(name)
        if packed is not None:
            self.key_values[table].put(name, None)
        return packed

    def remember(self, added: Sequence[Remembered]) -> None:
        """Add remembered decisions."""
        for each in added:
            self.key_values["remembered"].put(each.id, pack_remembered(each))
            self.changes_remembered = True

    def forget(self, dropped: Sequence[str]) -> int:
        """Drop remembered decisions, and return how many were there."""
        gone = sum(self.pop("remembered", each) is not None for each in dropped)
        self.changes_remembered = self.changes_remembered or gone > 0
        return gone

    def spend(self, remembered_id: str) -> bool:
        """Take one use of a counted decision: false when none is left."""
        packed = self.key_values["remembered"].get(remembered_id)
        left = decide.spend(None if packed is None else unpack_remembered(packed))
        if left is None:
            return False
        if left.uses_left:
            self.remember([left])
        else:
            self.forget([left.id])
        return True

    # Writing.

    @property
    def is_changed(self) -> bool:
        """Whether there is anything to write."""
        return bool(self._written or self._lines) or any(shelf.is_changed for shelf in self.key_values.values())

    @property
    def is_simple(self) -> bool:
        """Whether all that it changes can be written in one statement."""
        return not any(self.key_values[name].is_changed for name in _KEY_VALUE_TABLES)

    @property
    def used_cache(self) -> bool:
        """Whether it decided anything by what is only known from before."""
        return not self._known.keys().isdisjoint(self._seen)

    async def write(self, connection: Connection, writer: str, number: int) -> Reply:
        """Write all that has changed, unless something else has changed that it decided by."""
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
            list(self._added.values()),
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
        """Have the requests kept that it wrote, each with the change that the database gave it."""
        old = [each for each in self._written if each not in self._added]
        for change, each in enumerate([*old, *self._added], self.began + 1):
            request, packed = self._written[each]
            cache.put(request, change, len(packed))

    def evict_from_cache(self, cache: RequestCache) -> None:
        """Have nothing kept by which it decided."""
        cache.forget(self._seen)


def _storable_text(value: str) -> str:
    """Return a text as the database can hold it: a name to look for, not the record."""
    return value.replace("\x00", "").encode("utf-8", "replace").decode()


def rows_to_read(needs: Iterable[Need], known: CachedRequests) -> list[Need] | None:
    """Return what has to be read before a group can be tried; None if it cannot be tried at all."""
    wanted = [each for each in needs if each[0] not in _NEW and (each[0] != "request" or each[1] not in known)]
    return wanted if all(kind == "request" for kind, _ in wanted) else None


async def read_rows(connection: Connection, writer: str, needs: Iterable[Need]) -> list[Row]:
    """Return the rows that a group needs."""
    wanted: dict[str, list[str | bytes]] = {kind: [] for kind in _KINDS}
    for kind, name in needs:
        if name:  # who makes one attempt only gives it no name
            wanted["request" if kind == "new" else kind].append(name)
    return await connection.fetch(statement("group_read"), writer, *wanted.values())
