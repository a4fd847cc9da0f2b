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
    from sayso.core.model import ApprovalDecision, ApprovalRequest, Remembered, Status
    from sayso.core.tokens import Token

Hook = Callable[[AuditEntry], None]  # told of every step of every call, after it was decided
QueuedWrite = tuple[str, Result] | bytes  # what came of a used request, or a line of the audit that is written out


class Clock(Protocol):
    """Tells the time and ends a wait when it is up."""

    def now(self) -> float:
        """Return seconds since the epoch."""
        ...

    def until(self, when: float) -> AbstractAsyncContextManager[object]:
        """Return a context that raises TimeoutError inside its body at that time."""
        ...


@runtime_checkable
class Channel(Protocol):
    """Tells people that a request is open, and may bring back their answer."""

    async def announce(self, request: ApprovalRequest) -> ApprovalDecision | None:
        """Show the request; return the answer, or None if it will come by another way.

        Cancelled when the request was closed elsewhere. An exception withdraws the request.
        """
        ...


class RequestHandle(Protocol):
    """Operations of a channel on an open request besides answering it: edit preview and presence."""

    async def preview_edit(self, args: Mapping[str, Any]) -> ApprovalRequest:
        """Return the request as it would be asked with these arguments.

        Raises:
            ApprovalBlocked: they must not run, and why.
            ValueError: nothing can be bound to them.
        """
        ...

    async def mark_seen(self, who: str, channel: str) -> tuple[Seen, ...]:
        """Mark the request as viewed by this person, and return all viewers."""
        ...


@runtime_checkable
class InteractiveChannel(Protocol):
    """A channel at which people sit: it may try out an edit, and show who else looks."""

    async def ask_interactively(self, request: ApprovalRequest, handle: RequestHandle) -> ApprovalDecision | None:
        """Do what `announce` does, with a request handle."""
        ...


@runtime_checkable
class ApprovalUI(Protocol):
    """The smallest front end: one method that asks and returns the answer."""

    def choose(self, request: ApprovalRequest, *, mode: Mode) -> ApprovalDecision:
        """Ask a person about this request."""
        ...


class Keyring(Protocol):
    """Keeps tokens; a store that a hub stands on is one too."""

    async def add_token(self, token: Token) -> None:
        """Keep a token."""
        ...

    async def token(self, token_id: str) -> Token | None:
        """Return one token."""
        ...

    async def tokens(self) -> list[Token]:
        """Return all tokens, oldest first."""
        ...

    async def take_token(self, token_id: str) -> Token | None:
        """Forget a token, and return it to exactly one caller."""
        ...


class AuditLog(Protocol):
    """The audit, as it is read."""

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
        """Return what was asked about the call that has this key in its session."""
        ...

    async def get(self, request_id: str) -> ApprovalRequest | None:
        """Return one request."""
        ...

    async def pending(self, limit: int | None = None, after: str = "") -> list[ApprovalRequest]:
        """Return the open requests, oldest first, as ids sort; with `after`, those that come after that id."""
        ...

    async def recent(self, limit: int = 100, part: str = "", before: str = "") -> list[ApprovalRequest]:
        """Return the newest requests, open or not, newest first.

        With `part`, those whose id starts or ends so; with `before`, those that come before that id.
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
        """Close the request unless it is closed, and return it as it stands; `remember` is kept only with it."""
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
        """Return what changed after that point, each request once and as it stands, and the point that this reaches.

        Without a point, nothing but the point that is reached now.
        """
        ...

    async def changed(self, after: int) -> None:
        """Wait until requests have changed after that point."""
        ...


class RememberedDecisions(Protocol):
    """The remembered decisions of a store, their subscribers, and the uses that are left of them."""

    def attach(self, learn: Callable[[Sequence[Remembered]], None]) -> None:
        """Call `learn` with all remembered decisions, now and whenever they change; a method, held weakly."""
        ...

    def remember(self, added: Sequence[Remembered], dropped: Sequence[str]) -> int:
        """Change the remembered decisions and return how many were dropped; it may block until that is durable."""
        ...

    async def spend(self, remembered_id: str, *, attempt: str = "") -> bool:
        """Take one use of a counted decision: false when none is left."""
        ...


class Parking(Protocol):
    """The serialised state of suspended runs, by name."""

    async def park(self, name: str, state: bytes) -> None:
        """Keep the state of a run that can go on later, in the place of an earlier one."""
        ...

    async def parked(self, name: str) -> bytes | None:
        """Return the state that was parked under this name."""
        ...

    async def unpark(self, name: str, *, attempt: str = "") -> bytes | None:
        """Forget what was parked under this name, and return it to exactly one caller."""
        ...


class QueuedWrites(Protocol):
    """The writes that callers do not wait for, and the end of the store, which writes them first."""

    def finish(self, request_id: str, result: Result) -> None:
        """Queue what came of a used request."""
        ...

    def record(self, entry: AuditEntry) -> None:
        """Queue an entry of the audit."""
        ...

    async def append(self, news: Sequence[QueuedWrite], *, attempt: str = "") -> None:
        """Do what `finish` and `record` do, for another process, and return when all of it is durable."""
        ...

    @property
    def backlog(self) -> int:
        """How many queued changes are not durable yet."""
        ...

    async def flush(self) -> None:
        """Wait until everything queued so far is durable."""
        ...

    async def aclose(self) -> None:
        """Write what is queued and let go of the store."""
        ...


@runtime_checkable
class Store(Requests, ChangeFeed, RememberedDecisions, Parking, AuditLog, QueuedWrites, Protocol):
    """The persistence port, the sum of the small ones; every change of a request is audited in one transaction with it.

    Async methods return when the change is durable. The others queue their change: it holds at once in this
    process, is written in order, and `flush` waits for it. No method raises because another was faster.

    An `attempt` is an idempotency key, from a caller that may have to try again because it never got the answer, as
    over a network: tried again under the same key, it gets the first answer, and nothing happens twice.

    A store that several machines use may have a `clock: Clock` by which all of them go.
    """

    shared: bool  # other processes may answer what is opened here
    files: tuple[str, ...]  # in which it keeps all this, as real paths: no tool may touch them


@runtime_checkable
class Prunable(Store, Protocol):
    """A store that keeps everything until it is told what may go; see `sayso.client.retention`."""

    async def oldest(self, limit: int, after: str = "") -> list[ApprovalRequest]:
        """Return the requests that come after that id, open or not, oldest first, as ids sort."""
        ...

    async def drop(self, ids: Sequence[str]) -> int:
        """Forget these requests, but none that is open or approved and not used, and return how many were there."""
        ...

    async def cut(self, start: tuple[int, str], end: tuple[int, str]) -> None:
        """Forget the audit up to an entry, if what it keeps still begins after `start`; then it begins after `end`."""
        ...
