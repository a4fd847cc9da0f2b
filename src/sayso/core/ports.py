"""Ports: the protocols of store, channels, clock and hooks, which adapters of the outside world implement."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from sayso.core.model import AuditEntry, Result

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractAsyncContextManager

    from sayso.core.approvers import Seen
    from sayso.core.decide import Mode
    from sayso.core.model import ApprovalDecision, ApprovalRequest, ParkedRun, Remembered, Status
    from sayso.core.tokens import Token

Hook = Callable[[AuditEntry], None]  # called with every step of every call, after the decision
QueuedWrite = tuple[str, Result] | bytes  # the result of a used request, or an encoded audit line
STORABLE_TEXT = r"^[^\x00]*$"  # a text that every store can keep as such: PostgreSQL has none with NUL


class Clock(Protocol):
    """Clock: the current time, and time-outs."""

    def now(self) -> float:
        """Return seconds since the epoch."""
        ...

    def until(self, when: float) -> AbstractAsyncContextManager[object]:
        """Return a context that raises TimeoutError inside its body at that time."""
        ...


@runtime_checkable
class MonotonicClock(Protocol):
    """Clock with a monotonic time of its own; for all others it is this machine's."""

    def monotonic(self) -> float:
        """Return seconds that never go back."""
        ...


@runtime_checkable
class Channel(Protocol):
    """Channel to people: announces an open request, and may return the answer."""

    async def announce(self, request: ApprovalRequest) -> ApprovalDecision | None:
        """Show the request; return the answer, or None if it arrives by another way.

        The call is cancelled when the request is closed elsewhere. An exception withdraws the request.
        """
        ...


class RequestHandle(Protocol):
    """Operations of a channel on an open request besides answering it: edit preview, presence, what else is open."""

    async def preview_edit(self, args: Mapping[str, Any]) -> ApprovalRequest:
        """Return the request as it would be asked with these arguments.

        Raises:
            ApprovalBlocked: the policy blocks these arguments.
            ValueError: no approval can be bound to these arguments.
        """
        ...

    async def mark_seen(self, who: str, channel: str) -> tuple[Seen, ...]:
        """Mark the request as viewed by this person, and return all viewers."""
        ...

    async def pending(self) -> list[ApprovalRequest]:
        """Return all open requests of the store: an answer that is remembered may close others too."""
        ...


@runtime_checkable
class InteractiveChannel(Protocol):
    """An interactive channel, which can preview edits and show the other viewers."""

    async def ask_interactively(self, request: ApprovalRequest, handle: RequestHandle) -> ApprovalDecision | None:
        """Show the request as `announce` does, with a request handle."""
        ...


@runtime_checkable
class ApprovalUI(Protocol):
    """The minimal front end: one method that asks and returns the answer."""

    def choose(self, request: ApprovalRequest, *, mode: Mode) -> ApprovalDecision:
        """Ask a person about this request."""
        ...


class Keyring(Protocol):
    """Storage of tokens; the store of a hub implements it too."""

    async def add_token(self, token: Token) -> None:
        """Store a token."""
        ...

    async def token(self, token_id: str) -> Token | None:
        """Return one token."""
        ...

    async def tokens(self) -> list[Token]:
        """Return all tokens, oldest first."""
        ...

    async def take_token(self, token_id: str) -> Token | None:
        """Delete a token, and return it to exactly one caller."""
        ...


class AuditLog(Protocol):
    """Read access to the audit."""

    async def audit(self, after: int = 0, limit: int = 1000) -> list[tuple[int, bytes, str]]:
        """Return audit entries as (number, body, hash), in order."""
        ...

    async def audit_ends(self) -> tuple[tuple[int, str], tuple[int, str]]:
        """Return number and hash of the entry before the first kept one, and of the last one."""
        ...


class Requests(Protocol):
    """The requests of a store and their states; a call has at most one, by its session and key (idempotency key)."""

    async def open(self, request: ApprovalRequest) -> ApprovalRequest:
        """Add the request, or return the one that its session and key already have."""
        ...

    async def find(self, session: str, key: str) -> ApprovalRequest | None:
        """Return the request for the call with this key in this session."""
        ...

    async def with_call_id(self, session: str, call_id: str, limit: int = 100) -> list[ApprovalRequest]:
        """Return the requests of this session for calls with this id, of any run and in any state, newest first.

        For a caller that has lost the run of a call; a provider may use an id more than once.
        """
        ...

    async def get(self, request_id: str) -> ApprovalRequest | None:
        """Return one request."""
        ...

    async def pending(self, limit: int | None = None, after: str = "") -> list[ApprovalRequest]:
        """Return the open requests in the order of their ids, oldest first; with `after`, those after that id."""
        ...

    async def recent(self, limit: int = 100, part: str = "", before: str = "") -> list[ApprovalRequest]:
        """Return the newest requests, open or not, newest first.

        With `part`, those whose id starts or ends with it; with `before`, those before that id.
        """
        ...

    async def mark_seen(self, request_id: str, seen: Seen) -> ApprovalRequest:
        """Mark a request as viewed, if it is open, and return it in its current state."""
        ...

    async def close(
        self,
        request_id: str,
        status: Status,
        decision: ApprovalDecision | None,
        *,
        now: float,
        remember: Sequence[Remembered] = (),
    ) -> ApprovalRequest:
        """Close the request if it is open, and return its current state; `remember` is stored only with that change."""
        ...

    async def closed(self, request_id: str) -> ApprovalRequest:
        """Wait until the request is no longer open, and return it."""
        ...

    async def claim(self, request_id: str, *, now: float, attempt: str = "") -> bool:
        """Use up an approval: true for exactly one caller, ever."""
        ...


class ChangeFeed(Protocol):
    """The changed requests in order, for subscribers that keep a position (cursor)."""

    async def changes(self, after: int | None = None, limit: int = 1000) -> tuple[int, list[ApprovalRequest]]:
        """Return the new cursor and the requests that changed after the given one, each once in its current state.

        Without a cursor, return the current cursor and no requests.
        """
        ...

    async def changed(self, after: int) -> None:
        """Wait until a request has changed after that cursor."""
        ...


class RememberedDecisions(Protocol):
    """The remembered decisions of a store, their subscribers, and the remaining uses of counted ones."""

    def attach(self, learn: Callable[[Sequence[Remembered]], None]) -> None:
        """Call the method `learn`, held weakly, with all remembered decisions, now and after each change."""
        ...

    def remember(self, added: Sequence[Remembered], dropped: Sequence[str]) -> int:
        """Add and drop remembered decisions, and return how many were dropped; may block until that is durable."""
        ...

    async def spend(self, remembered_id: str, *, attempt: str = "") -> bool:
        """Consume one use of a counted decision; false if none is left."""
        ...


class Parking(Protocol):
    """The serialised state of suspended runs, by name, which may be any text; and the list of these runs."""

    async def park(self, name: str, state: bytes, run: ParkedRun | None = None) -> None:
        """Store the state of a suspended run, replacing an earlier one, and list it as `run`."""
        ...

    async def parked(self, name: str) -> bytes | None:
        """Return the state that is parked under this name."""
        ...

    async def unpark(self, name: str, *, attempt: str = "") -> bytes | None:
        """Delete the state that is parked under this name, and return it to exactly one caller."""
        ...

    async def runs(self) -> list[ParkedRun]:
        """Return the parked runs that were listed, oldest first."""
        ...


class MeteredParking(Protocol):
    """The number and size of parked states; the store of a hub implements it, so that each agent has a limit."""

    async def parked_size(self, prefix: str) -> tuple[int, int]:
        """Return how many states are parked under names with this prefix, and how many bytes they have together.

        A name counts if it is plain text of at most a few hundred characters; the prefix ends with a slash.
        """
        ...


class QueuedWrites(Protocol):
    """Write-behind: writes that callers do not wait for, and the closing of the store, which flushes them."""

    def finish(self, request_id: str, result: Result) -> None:
        """Queue the result of a used request."""
        ...

    def record(self, entry: AuditEntry) -> None:
        """Queue an audit entry."""
        ...

    async def append(self, news: Sequence[QueuedWrite], *, attempt: str = "") -> None:
        """Write the queued writes of another process, and return when all of them are durable."""
        ...

    @property
    def backlog(self) -> int:
        """How many queued changes are not durable yet."""
        ...

    async def flush(self) -> None:
        """Wait until everything queued so far is durable."""
        ...

    async def aclose(self) -> None:
        """Flush the queue and close the store."""
        ...


@runtime_checkable
class Store(Requests, ChangeFeed, RememberedDecisions, Parking, AuditLog, QueuedWrites, Protocol):
    """The persistence port, the sum of the small ones; every change of a request is audited in one transaction with it.

    Async methods return when the change is durable. The others queue their change: it is visible at once in this
    process, is written in order, and `flush` waits for it. Losing a race to another caller is never an error.

    An `attempt` is an idempotency key of a caller that may have to retry because it got no answer, as over a network: a
    retry with the same key returns the first result, and nothing is done twice.

    A store that several machines share may have a `clock: Clock`, which all of them use.
    """

    shared: bool  # other processes may answer requests that were opened here
    files: tuple[str, ...]  # the store's files as real paths, which no tool may touch


@runtime_checkable
class Prunable(Store, Protocol):
    """A store with deletion of old records; see `sayso.client.retention`."""

    async def oldest(self, limit: int, after: str = "") -> list[ApprovalRequest]:
        """Return the requests after that id in the order of their ids, open or not, oldest first."""
        ...

    async def drop(self, ids: Sequence[str]) -> int:
        """Delete those of these requests that are final, and return how many were deleted."""
        ...

    async def cut(self, start: tuple[int, str], end: tuple[int, str]) -> None:
        """Delete the audit entries after `start` up to `end`, if the audit still begins after `start`."""
        ...
