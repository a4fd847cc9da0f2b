"""Memory store: all records in dictionaries of one process, lost when it ends."""

from __future__ import annotations

import itertools
import threading
from bisect import bisect_right
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, TypeVar, cast

from sayso.core import audit, decide
from sayso.errors import StoreError, UnknownRequest
from sayso.stores.remembered_feed import RememberedCallback, RememberedSubscribers
from sayso.stores.waiters import Feed, Settled, Waiters, deliver

if TYPE_CHECKING:
    from sayso.core.approvers import Seen
    from sayso.core.model import ApprovalDecision, ApprovalRequest, AuditEntry, Remembered, Result, Status, Step
    from sayso.core.ports import QueuedWrite
    from sayso.core.tokens import Token

_KEPT_CLOSED = 10_000
_KEPT_LINES = 100_000
_KEPT_RECEIPTS = 100_000
_MOST_OUTDATED = 1000  # outdated changes that are kept before the log is compacted
_MOST_UNSEALED, _SEALED_AT_ONCE = 20_000, 100

T = TypeVar("T")


class IdempotencyKeys:
    """Answers by idempotency key, for attempts that a caller repeats."""

    def __init__(self) -> None:
        self._answers: OrderedDict[str, object] = OrderedDict()

    def idempotent(self, attempt: str, work: Callable[[], T]) -> T:
        """Run the work once per idempotency key (`attempt`); return the stored answer to a repeated one."""
        if not attempt:
            return work()
        if attempt not in self._answers:
            self._answers[attempt] = work()
            if len(self._answers) > _KEPT_RECEIPTS:
                self._answers.popitem(last=False)
        return cast("T", self._answers[attempt])


class MemoryStore:
    """Requests, remembered decisions and audit in memory, bounded; safe with many threads and loops."""

    shared = False
    files: tuple[str, ...] = ()
    backlog = 0  # there is no queue

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[str, ApprovalRequest] = {}
        self._closed: dict[str, ApprovalRequest] = {}
        self._evictable: OrderedDict[str, None] = OrderedDict()  # requests that may be evicted, oldest first
        self._by_call: dict[tuple[str, str], str] = {}
        self._remembered: dict[str, Remembered] = {}
        self._parked: dict[str, bytes] = {}
        self._tokens: dict[str, Token] = {}
        self._idempotency_keys = IdempotencyKeys()
        self._remembered_subscribers = RememberedSubscribers()
        self._waiters = Waiters()
        self._feed = Feed()
        self._changes: dict[str, int] = {}  # number of the last change of each request
        self._log: list[tuple[int, str]] = []  # all changes, in order; of each request only the last one counts
        self._change = 0
        self._unsealed: deque[AuditEntry | bytes] = deque()
        self._lines: deque[tuple[int, bytes, str]] = deque(maxlen=_KEPT_LINES)
        self._start = (0, audit.START)

    async def open(self, request: ApprovalRequest) -> ApprovalRequest:
        """Add the request, or return the one that its session and key already have."""
        with self._lock:
            known = self._by_call.get((request.session, request.key))
            if known is not None:
                return self._get(known)
            if request.id in self._open or request.id in self._closed:
                raise StoreError(f"the id {request.id} names another request")
            self._by_call[request.session, request.key] = request.id
            self._open[request.id] = request
            self._unsealed.append(audit.encode_early_if_needed(audit.request_entry(request, "asked", request.asked_at)))
            woken = self._mark_changed(request.id)
        deliver(woken)
        return request

    async def find(self, session: str, key: str) -> ApprovalRequest | None:
        """Return the request of this call."""
        with self._lock:
            known = self._by_call.get((session, key))
            return None if known is None else self._get(known)

    async def get(self, request_id: str) -> ApprovalRequest | None:
        """Return one request."""
        with self._lock:
            return self._open.get(request_id) or self._closed.get(request_id)

    async def pending(self, limit: int | None = None, after: str = "") -> list[ApprovalRequest]:
        """Return the open requests, oldest first; with `after`, only later ids."""
        with self._lock:
            known = self._open.copy()
        return [known[each] for each in sorted(each for each in known if each > after)[:limit]]

    async def recent(self, limit: int = 100, part: str = "", before: str = "") -> list[ApprovalRequest]:
        """Return the newest requests, open or not, newest first; see `Store`."""
        with self._lock:
            known = {**self._open, **self._closed}
        found = [each for each in known if each.startswith(part) or each.endswith(part)]
        found = [each for each in found if not before or each < before]
        return [known[each] for each in sorted(found, reverse=True)[:limit]]

    async def changes(self, after: int | None = None, limit: int = 1000) -> tuple[int, list[ApprovalRequest]]:
        """Return the requests that changed after that point, and the point that these reach."""
        with self._lock:
            if after is None:
                return self._change, []
            newer = range(bisect_right(self._log, after, key=itemgetter(0)), len(self._log))
            found = list(itertools.islice(filter(self._is_last, map(self._log.__getitem__, newer)), limit))
            return found[-1][0] if found else after, [self._get(each) for _, each in found]

    async def changed(self, after: int) -> None:
        """Wait until requests have changed after that point."""
        await self._feed.wait_past(after)

    async def mark_seen(self, request_id: str, seen: Seen) -> ApprovalRequest:
        """Mark an open request as viewed."""
        with self._lock:
            before = self._get(request_id)
            after = decide.mark_seen(before, seen)
            if after is before:
                return after
            self._open[request_id] = after
            woken = self._mark_changed(request_id)
        deliver(woken)
        return after

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
        with self._lock:
            before = self._get(request_id)
            after = decide.close(before, status, decision, now)
            if after is before:
                return before
            if after.status == "open":
                self._open[request_id] = after
                self._unsealed.append(
                    audit.encode_early_if_needed(audit.request_entry(after, decide.audit_step(after), now))
                )
                woken = self._mark_changed(request_id)
            else:
                woken = self._store_closed(after, decide.audit_step(after), now) + self._waiters.settle([after])
                if remember and after.status == status:
                    self._change_remembered(remember, [])
        deliver(woken)
        return after

    async def claim(self, request_id: str, *, now: float, attempt: str = "") -> bool:
        """Use up an approval: true for exactly one caller, ever."""
        woken: Settled = []

        def work() -> bool:
            claimed = decide.claim(self._get(request_id), now)
            if claimed is not None:
                woken.extend(self._store_closed(claimed, "claimed", now))
            return claimed is not None

        with self._lock:
            won = self._idempotency_keys.idempotent(attempt, work)
        deliver(woken)
        return won

    async def closed(self, request_id: str) -> ApprovalRequest:
        """Wait until the request is no longer open, and return it."""
        with self._lock:
            request = self._get(request_id)
            if request.status != "open":
                return request
            future = self._waiters.add(request_id)
        try:
            return await future
        finally:
            self._waiters.discard(request_id, future)

    async def spend(self, remembered_id: str, *, attempt: str = "") -> bool:
        """Consume one use of a counted decision: false if none is left."""

        def work() -> bool:
            left = decide.spend(self._remembered.get(remembered_id))
            if left is not None:
                self._change_remembered([left] if left.uses_left else [], [] if left.uses_left else [left.id])
            return left is not None

        with self._lock:
            return self._idempotency_keys.idempotent(attempt, work)

    async def park(self, name: str, state: bytes) -> None:
        """Store the state of a run for a later resume, in the place of an earlier one."""
        self._parked[name] = state

    async def parked(self, name: str) -> bytes | None:
        """Return the state parked under this name."""
        return self._parked.get(name)

    async def unpark(self, name: str, *, attempt: str = "") -> bytes | None:
        """Delete the state parked under this name, and return it to exactly one caller."""
        with self._lock:
            return self._idempotency_keys.idempotent(attempt, lambda: self._parked.pop(name, None))

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
        with self._lock:
            existing = sum(each in self._remembered for each in dropped)
            self._change_remembered(added, dropped)
            return existing

    def finish(self, request_id: str, result: Result) -> None:
        """Store the result of a used request."""
        with self._lock:
            woken = self._finish(request_id, result)
        deliver(woken)

    async def append(self, news: Sequence[QueuedWrite], *, attempt: str = "") -> None:
        """Store results and audit lines that another process sent."""
        woken: Settled = []

        def work() -> None:
            for each in news:
                if isinstance(each, bytes):
                    self._unsealed.append(each)
                else:
                    woken.extend(self._finish(*each))

        with self._lock:
            self._idempotency_keys.idempotent(attempt, work)
        deliver(woken)

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

    def _get(self, request_id: str) -> ApprovalRequest:
        request = self._open.get(request_id) or self._closed.get(request_id)
        if request is None:
            raise UnknownRequest(request_id)
        return request

    def _finish(self, request_id: str, result: Result) -> Settled:
        if request_id not in self._closed:
            return []  # evicted
        self._closed[request_id] = decide.finish(self._closed[request_id], result)
        return self._mark_changed(request_id)

    def _mark_changed(self, request_id: str) -> Settled:
        self._change += 1
        self._changes[request_id] = self._change
        self._log.append((self._change, request_id))
        if len(self._log) > 2 * len(self._changes) + _MOST_OUTDATED:
            self._log = list(filter(self._is_last, self._log))
        return self._feed.advance(self._change)

    def _is_last(self, change: tuple[int, str]) -> bool:
        number, request_id = change
        return self._changes.get(request_id) == number

    def _store_closed(self, request: ApprovalRequest, step: Step, now: float) -> Settled:
        self._open.pop(request.id, None)
        self._closed[request.id] = request
        if request.status != "approved":  # an approval is still to be used
            self._evictable[request.id] = None
        self._unsealed.append(audit.encode_early_if_needed(audit.request_entry(request, step, now)))
        woken = self._mark_changed(request.id)
        if len(self._closed) > _KEPT_CLOSED and self._evictable:
            self._forget(self._evictable.popitem(last=False)[0])
        return woken

    def _forget(self, request_id: str) -> None:
        request = self._closed.pop(request_id)
        del self._changes[request.id]
        self._by_call.pop((request.session, request.key), None)

    def _change_remembered(self, added: Sequence[Remembered], dropped: Sequence[str]) -> None:
        self._remembered.update({each.id: each for each in added})
        for each in dropped:
            self._remembered.pop(each, None)
        self._remembered_subscribers.publish(list(self._remembered.values()))

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
