"""Remote store for an agent on any machine: its requests are kept at a hub, where people answer them."""

from __future__ import annotations

import asyncio
import ssl
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Never

import msgspec
from msgspec.structs import replace

from sayso.core import agent_protocol as protocol
from sayso.core import audit, decide
from sayso.core.model import ParkedRun, new_id
from sayso.core.msgpack_codec import pack_request, unpack_request
from sayso.errors import NotEntitled, StoreError, UnknownRequest
from sayso.stores.loop_thread import LoopThread
from sayso.stores.remembered_feed import RememberedCallback, RememberedSubscribers
from sayso.stores.remote.follower import CHANGES_REPLY, HubFollower
from sayso.stores.remote.outbox import Outbox
from sayso.stores.remote.transport import AsyncHubTransport, HubAddress, HubUnavailable
from sayso.stores.waiters import Feed, Waiters, deliver

if TYPE_CHECKING:
    from sayso.core.approvers import Seen
    from sayso.core.model import ApprovalDecision, ApprovalRequest, AuditEntry, Remembered, Result, Status
    from sayso.core.ports import QueuedWrite

_KEPT_EXPIRED = 10_000
_BOOL = msgspec.msgpack.Decoder(bool)
_BYTES = msgspec.msgpack.Decoder(bytes)
_MAYBE: msgspec.msgpack.Decoder[bytes | None] = msgspec.msgpack.Decoder(bytes | None)
_LIST = msgspec.msgpack.Decoder(list[bytes])
_RUNS = msgspec.msgpack.Decoder(list[ParkedRun])


class RemoteStore:
    """The agent's own requests and remembered decisions, at a hub; safe with many threads and loops."""

    shared = True
    files: tuple[str, ...] = ()

    def __init__(
        self,
        url: str,
        *,
        token: str,
        insecure: bool = False,
        tls: ssl.SSLContext | None = None,
        patience: float = 30.0,
    ) -> None:
        """Connect to the hub, and load the remembered decisions.

        Args:
            url: where the hub is, such as `https://hub.example.com`.
            token: an agent's token, from `sayso token create`.
            insecure: allow plain HTTP to another machine, which exposes the token.
            tls: context that verifies the hub's certificate; by default, the certificates of the system.
            patience: seconds for which a call is retried when the hub cannot be reached.

        Raises:
            ConfigurationError: the address or the token must not be used.
            StoreError: the hub cannot be reached, or rejects the token.
        """
        hub = HubAddress(url, token, insecure=insecure, tls=tls, patience=patience)
        self._hub = hub
        self.url = hub.url
        self._remembered_subscribers = RememberedSubscribers()
        self._waiters = Waiters()
        self._feed = Feed()
        self._asked: dict[str, ApprovalRequest] = {}  # opened here, and not known to be closed
        self._opening: dict[str, Future[ApprovalRequest]] = {}
        self._expired_here: OrderedDict[str, ApprovalRequest] = OrderedDict()
        self._is_closed = False
        self._loop_thread = LoopThread("sayso-remote")
        self._transport = AsyncHubTransport(hub)
        self._follower = HubFollower(self._transport, self, self._remembered_subscribers)
        try:
            self._feed.advance(self._loop_thread.submit(self._follower.start()).result())
        except BaseException:
            self._shut_down()
            raise
        self._outbox = Outbox(hub)
        self._following = self._loop_thread.submit(self._follower.run())

    def __repr__(self) -> str:
        """Name the hub, and never the token."""
        return f"RemoteStore({self.url!r})"

    async def open(self, request: ApprovalRequest) -> ApprovalRequest:
        """Add the request, or return the one that its session and key already have."""
        message = protocol.Open(request=pack_request(request))
        self._outbox.check_process()
        self._asked[request.id] = request  # before it is sent: it cannot be closed yet
        self._waiters.open_here.add(request.id)
        # Not cancelled with its caller: a withdrawal may follow, and the request has to arrive first.
        opening = self._opening[request.id] = self._loop_thread.submit(self._open(request, message))
        opening.add_done_callback(lambda _: self._opening.pop(request.id, None))
        return await asyncio.shield(asyncio.wrap_future(opening))

    async def _open(self, request: ApprovalRequest, message: protocol.Open) -> ApprovalRequest:
        found: ApprovalRequest | None = None
        try:
            found = self._request(self._hub.decode(await self._transport.send_with_retry("open", message), _BYTES))
            return found
        finally:
            if found is None or found.id != request.id or found.status != "open":
                self._forget(request.id)

    async def find(self, session: str, key: str) -> ApprovalRequest | None:
        """Return the request of this call."""
        expired = (each for each in tuple(self._expired_here.values()) if (each.session, each.key) == (session, key))
        return next(expired, None) or await self._row("find", protocol.Find(session=session, key=key))

    async def with_call_id(self, session: str, call_id: str, limit: int = 100) -> list[ApprovalRequest]:
        """Return the agent's requests of this session for calls with this id, newest first; see `Store`."""
        message = protocol.FindCallId(session=session, call_id=call_id, limit=min(limit, protocol.MOST_ROWS))
        return [self._expired_here.get(each.id, each) for each in await self._rows("with_call_id", message)]

    async def get(self, request_id: str) -> ApprovalRequest | None:
        """Return one request; without a hub, as it was opened here, which is never an approval."""
        await self._wait_until_opened(request_id)
        if request_id in self._expired_here:
            return self._expired_here[request_id]
        try:
            found = await self._rows("get", protocol.Get(ids=(request_id,)))
        except HubUnavailable:
            opened = self._asked.get(request_id)
            if opened is None:
                raise
            return opened
        return found[0] if found else None

    async def pending(self, limit: int | None = None, after: str = "") -> list[ApprovalRequest]:
        """Return the agent's open requests, oldest first; with `after`, only later ids."""
        found: list[ApprovalRequest] = []
        while limit is None or len(found) < limit:
            most = protocol.MOST_ROWS if limit is None else min(limit - len(found), protocol.MOST_ROWS)
            page = await self._rows("pending", protocol.GetPending(limit=most, after=found[-1].id if found else after))
            found += page
            if len(page) < most:
                break
        return found

    async def recent(self, limit: int = 100, part: str = "", before: str = "") -> list[ApprovalRequest]:
        """Return the agent's newest requests, open or not, newest first; see `Store`."""
        message = protocol.GetRecent(limit=min(limit, protocol.MOST_ROWS), part=part, before=before)
        return await self._rows("recent", message)

    async def changes(self, after: int | None = None, limit: int = 1000) -> tuple[int, list[ApprovalRequest]]:
        """Return the agent's requests that changed after that point, and the point that these reach."""
        message = protocol.GetChanges(after=after, limit=min(limit, protocol.MOST_ROWS))
        reply = self._hub.decode(await self._ask("changes", message), CHANGES_REPLY)
        return reply.point, [self._request(each) for each in reply.rows]

    async def changed(self, after: int) -> None:
        """Wait until requests of the agent have changed after that point."""
        await self._feed.wait_past(after)

    async def mark_seen(self, request_id: str, seen: Seen) -> ApprovalRequest:
        """Mark an open request as viewed, as this agent reports."""
        message = protocol.MarkSeen(id=request_id, who=seen.who, channel=seen.channel, at=seen.at)
        return self._require(request_id, await self._row("see", message))

    async def close(
        self,
        request_id: str,
        status: Status,
        decision: ApprovalDecision | None,
        *,
        now: float,
        remember: Sequence[Remembered] = (),
    ) -> ApprovalRequest:
        """Withdraw or expire a request unless it is closed, and return it as it is now; the hub refuses answers."""
        if status not in {"withdrawn", "expired"} or remember or (decision is not None and decision.approved):
            raise NotEntitled(f"only people at the hub {self.url} can answer what is asked there")
        await self._wait_until_opened(request_id)
        message = protocol.Close(
            id=request_id,
            status="withdrawn" if status == "withdrawn" else "expired",
            now=now,
            note=None if decision is None else decision.note,
            decided_at=None if decision is None else decision.decided_at or now,
            unattended=decision is not None and decision.unattended,
        )
        try:
            return self._require(request_id, await self._row("close", message))
        except HubUnavailable:
            opened = self._asked.get(request_id)
            if opened is None or not decide.is_overdue(opened, now):
                raise
            return self._expire_here(opened)

    def _expire_here(self, opened: ApprovalRequest) -> ApprovalRequest:
        """Expire an overdue request for this process; a later answer at the hub does not count here."""
        expired = self._expired_here[opened.id] = replace(opened, status="expired")
        self._forget(opened.id)
        if len(self._expired_here) > _KEPT_EXPIRED:
            self._expired_here.popitem(last=False)
        return expired

    async def claim(self, request_id: str, *, now: float, attempt: str = "") -> bool:
        """Use up an approval: true for exactly one caller, ever, even if the hub's reply is lost."""
        if request_id in self._expired_here:
            return False
        message = protocol.Claim(id=request_id, now=now, attempt=attempt or new_id())
        return self._hub.decode(await self._ask("claim", message), _BOOL)

    async def closed(self, request_id: str) -> ApprovalRequest:
        """Wait until the request is no longer open, and return it."""
        return await self._waiters.wait(request_id, self.get)

    async def spend(self, remembered_id: str, *, attempt: str = "") -> bool:
        """Consume one use of a counted decision: false if none is left."""
        message = protocol.Spend(id=remembered_id, attempt=attempt or new_id())
        return self._hub.decode(await self._ask("spend", message), _BOOL)

    async def park(self, name: str, state: bytes, run: ParkedRun | None = None) -> None:
        """Store the state of a run for a later resume, in the place of an earlier one."""
        await self._ask("park", protocol.Park(name=name, state=state, run=run))

    async def parked(self, name: str) -> bytes | None:
        """Return the state parked under this name."""
        return self._hub.decode(await self._ask("parked", protocol.GetParked(name=name)), _MAYBE)

    async def unpark(self, name: str, *, attempt: str = "") -> bytes | None:
        """Delete the state parked under this name, and return it to exactly one caller."""
        message = protocol.Unpark(name=name, attempt=attempt or new_id())
        return self._hub.decode(await self._ask("unpark", message), _MAYBE)

    async def runs(self) -> list[ParkedRun]:
        """Return the parked runs of this agent, oldest first."""
        return self._hub.decode(await self._ask("runs", protocol.GetRuns()), _RUNS)

    def attach(self, learn: RememberedCallback) -> None:
        """Call `learn` with the remembered decisions for this agent, now and after every change."""
        self._remembered_subscribers.add(learn)

    def remember(self, added: Sequence[Remembered], dropped: Sequence[str]) -> Never:  # noqa: ARG002 - never done
        """Refuse: only people add or revoke remembered decisions."""
        raise NotEntitled(f"only people at the hub {self.url} can change what is remembered there")

    def finish(self, request_id: str, result: Result) -> None:
        """Queue the result of a used request."""
        self._outbox.enqueue((request_id, result))

    def record(self, entry: AuditEntry) -> None:
        """Queue an entry of the audit."""
        self._outbox.enqueue(audit.encode_early_if_needed(entry))

    async def append(self, news: Sequence[QueuedWrite], *, attempt: str = "") -> Never:  # noqa: ARG002 - never done
        """Refuse: an agent reports only its own results."""
        raise StoreError("an agent cannot tell the hub the news of others; give each agent a token of its own")

    @property
    def backlog(self) -> int:
        """Number of queued changes that are not at the hub yet."""
        return self._outbox.backlog

    async def flush(self) -> None:
        """Wait until everything queued so far is at the hub."""
        sent: Future[None] = Future()
        self._outbox.enqueue(sent)
        await asyncio.wrap_future(sent)

    async def audit(self, after: int = 0, limit: int = 1000) -> Never:  # noqa: ARG002 - never done
        """Refuse: the audit is for people."""
        raise StoreError(f"the audit is kept at the hub {self.url}; read it there")

    async def audit_ends(self) -> Never:
        """Refuse: the audit is for people."""
        await self.audit()

    async def aclose(self) -> None:
        """Send the queue and close all connections."""
        await asyncio.to_thread(self._outbox.stop)
        self.fail_waiters(StoreError(f"the store at {self.url} is closed"))
        await asyncio.to_thread(self._shut_down)

    # Callbacks of the follower.

    async def on_changes(self, point: int, rows: Sequence[bytes]) -> None:
        """Settle the futures that wait for closed requests, or for any change."""
        found = [self._request(each) for each in rows]
        self._wake([each for each in found if each.status != "open"])
        if found:
            deliver(self._feed.advance(point))

    async def resync(self) -> None:
        """Read every awaited request: a change may have been missed."""
        ids = self._waiters.note_missed_changes()
        for start in range(0, len(ids), protocol.MOST_ROWS):
            batch = tuple(ids[start : start + protocol.MOST_ROWS])
            content = await self._transport.send_with_retry("get", protocol.Get(ids=batch))
            found = [self._request(each) for each in self._hub.decode(content, _LIST)]
            self._wake([each for each in found if each.status != "open"])
            unknown = set(batch).difference(each.id for each in found)
            deliver(self._waiters.fail(unknown, UnknownRequest("the hub knows no such request any more")))

    def fail_waiters(self, error: StoreError) -> None:
        """Fail all waiting futures."""
        self._waiters.fail_all(error)

    def _wake(self, closed: Sequence[ApprovalRequest]) -> None:
        for each in closed:
            self._forget(each.id)
        deliver(self._waiters.settle(closed))

    def _forget(self, request_id: str) -> None:
        self._waiters.open_here.discard(request_id)
        self._asked.pop(request_id, None)

    # Transport.

    async def _ask(self, operation: str, message: protocol.AgentMessage) -> bytes:
        self._outbox.check_process()
        if self._is_closed:
            raise StoreError(f"the store at {self.url} is closed")
        asking = self._loop_thread.submit(self._transport.send_with_retry(operation, message))
        try:
            return await asyncio.wrap_future(asking)
        except asyncio.CancelledError:
            if self._is_closed and asking.cancelled():
                raise StoreError(f"the store at {self.url} is closed") from None
            raise

    async def _row(self, operation: str, message: protocol.AgentMessage) -> ApprovalRequest | None:
        packed = self._hub.decode(await self._ask(operation, message), _MAYBE)
        return None if packed is None else self._request(packed)

    async def _rows(self, operation: str, message: protocol.AgentMessage) -> list[ApprovalRequest]:
        return [self._request(each) for each in self._hub.decode(await self._ask(operation, message), _LIST)]

    def _request(self, packed: bytes) -> ApprovalRequest:
        request = unpack_request(packed)
        result = self._outbox.unsent_results.get(request.id)
        return request if result is None else decide.finish(request, result)

    @staticmethod
    def _require(request_id: str, request: ApprovalRequest | None) -> ApprovalRequest:
        if request is None:
            raise UnknownRequest(f"no request has the id {request_id!r}")
        return request

    async def _wait_until_opened(self, request_id: str) -> None:
        """Wait until the opening of a request has succeeded or failed."""
        opening = self._opening.get(request_id)
        if opening is not None:
            await asyncio.wait([asyncio.wrap_future(opening)])

    def _shut_down(self) -> None:
        """Cancel all tasks, close the connections, and end the thread."""
        self._is_closed = True
        self._loop_thread.stop(self._transport.aclose)
