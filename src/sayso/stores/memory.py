"""Memory store: all records in dictionaries of one process, lost when it ends."""

from __future__ import annotations

import itertools
import threading
from bisect import bisect_right
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, TypeVar

from sayso.core import audit
from sayso.errors import StoreError
from sayso.stores.remembered_feed import RememberedCallback, RememberedSubscribers
from sayso.stores.unit_of_work import UnitOfWork
from sayso.stores.waiters import Feed, Waiters, deliver

if TYPE_CHECKING:
    from sayso.core.approvers import Seen
    from sayso.core.model import ApprovalDecision, ApprovalRequest, AuditEntry, ParkedRun, Remembered, Result, Status
    from sayso.core.ports import QueuedWrite
    from sayso.core.tokens import Token

_KEPT_CLOSED = 10_000
_KEPT_LINES = 100_000
_KEPT_RECEIPTS = 100_000
_MOST_OUTDATED = 1000  # outdated changes that are kept before the log is compacted
_MOST_UNSEALED, _SEALED_AT_ONCE = 20_000, 100

T = TypeVar("T")


class _MemoryTables(UnitOfWork):
    """The requests, remembered decisions and receipts of a memory store; used only under its lock."""

    def __init__(self) -> None:
        super().__init__()
        self.opened: dict[str, ApprovalRequest] = {}
        self.answered: dict[str, ApprovalRequest] = {}
        self.remembered: dict[str, Remembered] = {}
        self.unsealed: deque[AuditEntry | bytes] = deque()
        self.change = 0  # number of the last change of a request
        self.changes_remembered = False
        self._evictable: OrderedDict[str, None] = OrderedDict()  # requests that may be evicted, oldest first
        self._by_call: dict[tuple[str, str], str] = {}
        self._by_call_id: dict[tuple[str, str], list[str]] = {}  # in the order in which they were opened
        self._receipts: OrderedDict[str, bytes] = OrderedDict()
        self._changes: dict[str, int] = {}  # number of the last change of each request
        self._log: list[tuple[int, str]] = []  # all changes, in order; of each request only the last one counts

    def open(self, request: ApprovalRequest) -> ApprovalRequest:
        """Add a request, or return the existing one of its call."""
        known = self.find(request.session, request.key)
        if known is not None:
            return known
        if self.get(request.id) is not None:
            raise StoreError(f"the id {request.id} names another request")
        self._by_call[request.session, request.key] = request.id
        self._by_call_id.setdefault((request.session, request.tool_call_id), []).append(request.id)
        self.update(request)
        self.record_step(request, "asked", request.asked_at)
        return request

    def find(self, session: str, key: str) -> ApprovalRequest | None:
        """Return the request of a call."""
        known = self._by_call.get((session, key))
        return None if known is None else self.require(known)

    def with_call_id(self, session: str, call_id: str) -> list[ApprovalRequest]:
        """Return the requests of a session for calls with this id."""
        return [self.require(each) for each in self._by_call_id.get((session, call_id), ())]

    def get(self, request_id: str) -> ApprovalRequest | None:
        """Return one request."""
        return self.opened.get(request_id) or self.answered.get(request_id)

    def update(self, request: ApprovalRequest) -> None:
        """Write a request in the place of its earlier state, and evict the oldest one if there are too many."""
        self._mark_changed(request.id)
        if request.status == "open":
            self.opened[request.id] = request
            return
        self.opened.pop(request.id, None)
        self.answered[request.id] = request
        if request.status != "approved":  # an approval is still to be used
            self._evictable[request.id] = None
        if len(self.answered) > _KEPT_CLOSED and self._evictable:
            self._evict(self._evictable.popitem(last=False)[0])

    def _mark_changed(self, request_id: str) -> None:
        self.change += 1
        self._changes[request_id] = self.change
        self._log.append((self.change, request_id))
        if len(self._log) > 2 * len(self._changes) + _MOST_OUTDATED:
            self._log = list(filter(self._is_last, self._log))

    def _is_last(self, change: tuple[int, str]) -> bool:
        number, request_id = change
        return self._changes.get(request_id) == number

    def _evict(self, request_id: str) -> None:
        request = self.answered.pop(request_id)
        del self._changes[request.id]
        self._by_call.pop((request.session, request.key), None)
        same_id = self._by_call_id[request.session, request.tool_call_id]
        same_id.remove(request.id)
        if not same_id:
            del self._by_call_id[request.session, request.tool_call_id]

    def changes(self, after: int, limit: int) -> tuple[int, list[ApprovalRequest]]:
        """Return the requests that changed after that point, and the point that these reach."""
        newer = range(bisect_right(self._log, after, key=itemgetter(0)), len(self._log))
        found = list(itertools.islice(filter(self._is_last, map(self._log.__getitem__, newer)), limit))
        return found[-1][0] if found else after, [self.require(each) for _, each in found]

    def record(self, entry: AuditEntry | bytes) -> None:
        """Add an audit entry; it is sealed when the audit is read."""
        self.unsealed.append(entry if isinstance(entry, bytes) else audit.encode_early_if_needed(entry))

    def get_remembered(self, remembered_id: str) -> Remembered | None:
        """Return one remembered decision."""
        return self.remembered.get(remembered_id)

    def remember(self, added: Sequence[Remembered]) -> None:
        """Add remembered decisions."""
        self.remembered.update({each.id: each for each in added})
        self.changes_remembered = True

    def forget(self, dropped: Sequence[str]) -> int:
        """Delete remembered decisions, and return how many existed."""
        self.changes_remembered = True
        return sum(self.remembered.pop(each, None) is not None for each in dropped)

    def get_receipt(self, attempt: str) -> bytes | None:
        """Return the stored answer to an attempt."""
        return self._receipts.get(attempt)

    def put_receipt(self, attempt: str, answer: bytes) -> None:
        """Store the answer to an attempt, and evict the oldest one if there are too many."""
        self._receipts[attempt] = answer
        if len(self._receipts) > _KEPT_RECEIPTS:
            self._receipts.popitem(last=False)


class MemoryStore:
    """Requests, remembered decisions and audit in memory, bounded; safe with many threads and loops."""

    shared = False
    files: tuple[str, ...] = ()
    backlog = 0  # there is no queue

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tables = _MemoryTables()
        self._unsealed = self._tables.unsealed
        self._parked: dict[str, bytes] = {}
        self._runs: dict[str, ParkedRun] = {}
        self._tokens: dict[str, Token] = {}
        self._remembered_subscribers = RememberedSubscribers()
        self._waiters = Waiters()
        self._feed = Feed()
        self._lines: deque[tuple[int, bytes, str]] = deque(maxlen=_KEPT_LINES)
        self._start = (0, audit.START)

    def _transact(self, work: Callable[[_MemoryTables], T]) -> T:
        """Run work under the lock, publish its changes, and then settle the futures that wait for them."""
        tables = self._tables
        with self._lock:
            result = work(tables)
            if tables.changes_remembered:
                tables.changes_remembered = False
                self._remembered_subscribers.publish(list(tables.remembered.values()))
            woken = self._feed.advance(tables.change)
            if tables.closed:
                woken += self._waiters.settle(tables.closed)
                tables.closed.clear()
        deliver(woken)
        return result

    async def open(self, request: ApprovalRequest) -> ApprovalRequest:
        """Add the request, or return the one that its session and key already have."""
        return self._transact(lambda tables: tables.open(request))

    async def find(self, session: str, key: str) -> ApprovalRequest | None:
        """Return the request of this call."""
        with self._lock:
            return self._tables.find(session, key)

    async def with_call_id(self, session: str, call_id: str, limit: int = 100) -> list[ApprovalRequest]:
        """Return the requests of this session for calls with this id, newest first; see `Store`."""
        with self._lock:
            found = self._tables.with_call_id(session, call_id)
        return sorted(found, key=attrgetter("id"), reverse=True)[:limit]

    async def get(self, request_id: str) -> ApprovalRequest | None:
        """Return one request."""
        with self._lock:
            return self._tables.get(request_id)

    async def pending(self, limit: int | None = None, after: str = "") -> list[ApprovalRequest]:
        """Return the open requests, oldest first; with `after`, only later ids."""
        with self._lock:
            known = self._tables.opened.copy()
        return [known[each] for each in sorted(each for each in known if each > after)[:limit]]

    async def recent(self, limit: int = 100, part: str = "", before: str = "") -> list[ApprovalRequest]:
        """Return the newest requests, open or not, newest first; see `Store`."""
        with self._lock:
            known = {**self._tables.opened, **self._tables.answered}
        found = [each for each in known if each.startswith(part) or each.endswith(part)]
        found = [each for each in found if not before or each < before]
        return [known[each] for each in sorted(found, reverse=True)[:limit]]

    async def changes(self, after: int | None = None, limit: int = 1000) -> tuple[int, list[ApprovalRequest]]:
        """Return the requests that changed after that point, and the point that these reach."""
        with self._lock:
            return (self._tables.change, []) if after is None else self._tables.changes(after, limit)

    async def changed(self, after: int) -> None:
        """Wait until requests have changed after that point."""
        await self._feed.wait_past(after)

    async def mark_seen(self, request_id: str, seen: Seen) -> ApprovalRequest:
        """Mark an open request as viewed."""
        return self._transact(lambda tables: tables.mark_seen(request_id, seen))

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
        return self._transact(lambda tables: tables.close(request_id, status, decision, now=now, remember=remember))

    async def claim(self, request_id: str, *, now: float, attempt: str = "") -> bool:
        """Use up an approval: true for exactly one caller, ever."""
        return self._transact(lambda tables: tables.claim(request_id, now=now, attempt=attempt))

    async def closed(self, request_id: str) -> ApprovalRequest:
        """Wait until the request is no longer open, and return it."""
        return await self._waiters.wait(request_id, self.get)

    async def spend(self, remembered_id: str, *, attempt: str = "") -> bool:
        """Consume one use of a counted decision: false if none is left."""
        return self._transact(lambda tables: tables.spend(remembered_id, attempt=attempt))

    async def park(self, name: str, state: bytes, run: ParkedRun | None = None) -> None:
        """Store the state of a run for a later resume, in the place of an earlier one."""
        with self._lock:
            self._parked[name] = state
            if run is not None:
                self._runs[name] = run

    async def parked(self, name: str) -> bytes | None:
        """Return the state parked under this name."""
        return self._parked.get(name)

    async def unpark(self, name: str, *, attempt: str = "") -> bytes | None:
        """Delete the state parked under this name, and return it to exactly one caller."""
        return self._transact(lambda tables: tables.idempotent(attempt, lambda: self._take(name)))

    def _take(self, name: str) -> bytes | None:
        self._runs.pop(name, None)
        return self._parked.pop(name, None)

    async def parked_size(self, prefix: str) -> tuple[int, int]:
        """Return the number of states under this prefix, and their bytes."""
        with self._lock:
            sizes = [len(state) for name, state in self._parked.items() if name.startswith(prefix)]
        return len(sizes), sum(sizes)

    async def runs(self) -> list[ParkedRun]:
        """Return the parked runs that were listed, oldest first."""
        with self._lock:
            return sorted(self._runs.values(), key=attrgetter("id"))

    async def add_token(self, token: Token) -> None:
        """Store a token."""
        self._tokens[token.id] = token

    async def token(self, token_id: str) -> Token | None:
        """Return one token."""
        return self._tokens.get(token_id)

    async def tokens(self) -> list[Token]:
        """Return all tokens, oldest first."""
        return list(self._tokens.values())

    async def take_token(self, token_id: str) -> Token | None:
        """Delete a token, and return it to exactly one caller."""
        return self._tokens.pop(token_id, None)

    def attach(self, learn: RememberedCallback) -> None:
        """Call `learn` with all remembered decisions, now and whenever they change."""
        self._remembered_subscribers.add(learn)

    def remember(self, added: Sequence[Remembered], dropped: Sequence[str]) -> int:
        """Change the remembered decisions, and return how many were dropped."""
        return self._transact(lambda tables: tables.change_remembered(added, dropped))

    def finish(self, request_id: str, result: Result) -> None:
        """Store the result of a used request."""
        self._transact(lambda tables: tables.append([(request_id, result)]))

    async def append(self, news: Sequence[QueuedWrite], *, attempt: str = "") -> None:
        """Store results and audit lines that another process sent."""
        self._transact(lambda tables: tables.append(news, attempt=attempt))

    def record(self, entry: AuditEntry) -> None:
        """Add an entry to the audit; it is sealed when the audit is read."""
        self._unsealed.append(audit.encode_early_if_needed(entry))
        if len(self._unsealed) > _MOST_UNSEALED:
            with self._lock:
                self._seal(_SEALED_AT_ONCE)  # a few at a time: the caller waits

    async def flush(self) -> None:
        """Return at once: there is no queue."""

    async def audit(self, after: int = 0, limit: int = 1000) -> list[tuple[int, bytes, str]]:
        """Return audit entries as (number, body, hash), in order."""
        with self._lock:
            self._seal()
            return [line for line in self._lines if line[0] > after][:limit]

    async def audit_ends(self) -> tuple[tuple[int, str], tuple[int, str]]:
        """Return number and hash of the entry before the first kept one, and of the last one."""
        with self._lock:
            self._seal()
            return self._start, self._end()

    async def aclose(self) -> None:
        """Do nothing: another controller may share this store."""

    def _end(self) -> tuple[int, str]:
        return (self._lines[-1][0], self._lines[-1][2]) if self._lines else self._start

    def _seal(self, most: int | None = None) -> None:
        for _ in range(len(self._unsealed) if most is None else min(most, len(self._unsealed))):
            number, previous = self._end()
            entry = self._unsealed.popleft()
            line = entry if isinstance(entry, bytes) else audit.encode(entry)
            if len(self._lines) == _KEPT_LINES:
                self._start = (self._lines[0][0], self._lines[0][2])
            self._lines.append((number + 1, line, audit.seal(previous, number + 1, line)))
