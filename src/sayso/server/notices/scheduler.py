"""Scheduler of notices: sends each open request at once, as a reminder, and as an escalation."""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import logging
from collections.abc import Coroutine, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from sayso.channels.notify import Destination, Event, Message, build_message, send_to_all
from sayso.core import tokens
from sayso.core.model import ApprovalRequest
from sayso.core.tokens import EVERY_PROJECT
from sayso.engine.lease import Lease
from sayso.errors import StoreError
from sayso.server.hub import Hub

_LOG = logging.getLogger("sayso")
_PROGRESS_KEY = "hub\0notices"  # parked under this key: the point up to which notices were sent
_MOST_REMINDERS = 10
_LEASE_SECONDS = 20.0
_LINK_SECONDS = 3600.0
_PAUSE_SECONDS = 5.0
_SHUTDOWN_SECONDS = 5.0


class Recipient(msgspec.Struct, frozen=True, kw_only=True):
    """Recipient of notices: a person with name and roles, or a program."""

    destinations: tuple[Destination, ...]
    name: str = ""  # of a person, whose notices have a sign-in link
    roles: tuple[str, ...] = ()
    project: str = EVERY_PROJECT
    arguments: tuple[str, ...] = ()  # names of those whose values the text of a notice may show

    def wants(self, request: ApprovalRequest, event: Event, now: float) -> bool:
        """Whether to notify this recipient: a person is notified only if entitled to approve."""
        if self.project not in {EVERY_PROJECT, request.project}:
            return False
        if not self.name:
            return True
        approvers = request.approvers
        if event == "closed":
            return False
        if event == "escalated":
            return approvers is not None and approvers.escalate is not None and approvers.escalate.role in self.roles
        return approvers is None or approvers.entitles(self.roles, now - request.asked_at)


class _Due(NamedTuple):
    """A scheduled notice."""

    at: float
    request_id: str
    event: Event


def notice_times(request: ApprovalRequest) -> Iterator[tuple[float, Event]]:
    """Yield the schedule of a request that stays open: asked, reminders, escalation."""
    yield request.asked_at, "asked"
    approvers = request.approvers
    if approvers is not None and approvers.remind is not None:
        for number in range(1, _MOST_REMINDERS + 1):
            yield request.asked_at + number * approvers.remind, "reminder"
    if approvers is not None and approvers.escalate is not None:
        yield request.asked_at + approvers.escalate.after, "escalated"


class Notices:
    """Follows the requests of a hub and sends notices: at-least-once delivery, and nearly always once.

    Of several hubs on one store the holder of the lease does it. Progress is saved after the messages are sent, so the
    next holder sends again what was under way when a hub crashed.
    """

    def __init__(self, hub: Hub, recipients: Sequence[Recipient], *, url: str) -> None:
        self._hub = hub
        self._recipients = recipients
        self._url = url
        self._lease = Lease(hub.store, hub.clock, "notices", seconds=_LEASE_SECONDS)
        self._due: list[_Due] = []
        self._open: set[str] = set()  # scheduled or sent
        self._sending: set[asyncio.Task[None]] = set()
        self._saving: set[asyncio.Task[None]] = set()
        self._saved_point = -1  # the point that is saved in the store

    async def load_progress(self) -> tuple[int, float]:
        """Return the point and time up to which notices were sent; at the first start, the current ones."""
        store, now = self._hub.store, self._hub.clock.now()
        saved = await store.parked(_PROGRESS_KEY)
        if saved is not None:
            point, _, at = saved.partition(b" ")
            return int(point), float(at or now)
        point, _ = await store.changes()
        await self._save_progress(point, now)
        return point, now

    async def run(self) -> None:
        """Send notices while holding the lease, until cancelled; retries when the store fails."""
        try:
            while True:
                try:
                    await self._run_with_lease()
                except StoreError as error:
                    _LOG.warning("people are not told of questions for the moment: %s", error)
                    await asyncio.sleep(_PAUSE_SECONDS)
        finally:
            await self._shut_down()

    async def _run_with_lease(self) -> None:
        while True:
            if await self._lease.acquire_or_renew():
                await self._send_while_leased()
            await self._wait_until_due(None)

    async def _shut_down(self) -> None:
        """Wait some seconds for messages under way, then release the lease."""
        if under_way := {*self._sending, *self._saving}:
            await asyncio.wait(under_way, timeout=_SHUTDOWN_SECONDS)
        with contextlib.suppress(StoreError):
            await self._lease.release()

    async def _send_while_leased(self) -> None:
        """Send notices while this hub holds the lease."""
        self._due, self._open = [], set()
        point, sent_until = await self.load_progress()
        # First: the notices of requests found open below were sent by the last holder; those of requests closed since,
        # perhaps not.
        point = await self._catch_up(point, first=True)
        for request in await self._hub.store.pending():
            self._schedule(request, after=sent_until)
        while await self._lease.acquire_or_renew():
            self._send_due()
            if self._sending or point != self._saved_point:
                # After all messages under way: if a crash cuts them off, the next holder sends them again.
                self._start(self._save_progress(point, self._hub.clock.now(), *self._sending), self._saving)
            await self._wait_until_due(point)
            point = await self._catch_up(point)

    async def _catch_up(self, point: int, *, first: bool = False) -> int:
        reached, changed = await self._hub.store.changes(point)
        for request in changed:
            self._on_change(request, first=first)
        return reached

    def _on_change(self, request: ApprovalRequest, *, first: bool) -> None:
        if request.status == "open":
            self._schedule(request, after=None)
        elif first or request.id in self._open:
            self._open.discard(request.id)
            self._start(self._send_all(request, "closed", None), self._sending)

    def _schedule(self, request: ApprovalRequest, *, after: float | None) -> None:
        if request.id in self._open:
            return
        self._open.add(request.id)
        for at, event in notice_times(request):
            if after is None or at > after:
                heapq.heappush(self._due, _Due(at, request.id, event))

    def _send_due(self) -> None:
        now = self._hub.clock.now()
        while self._due and self._due[0].at <= now:
            self._start(self._send_if_open(heapq.heappop(self._due)), self._sending)

    async def _save_progress(self, point: int, at: float, *sending: asyncio.Task[None]) -> None:
        if sending:
            await asyncio.wait(sending)
        await self._hub.store.park(_PROGRESS_KEY, f"{point} {at}".encode())
        self._saved_point = point

    async def _wait_until_due(self, point: int | None) -> None:
        """Wait for the next lease check or, with a point, for the next due notice or a change after it."""
        store, clock = self._hub.store, self._hub.clock
        ends = [self._lease.check_again_at, *([self._due[0].at] if self._due and point is not None else [])]
        with contextlib.suppress(TimeoutError):
            async with clock.until(min(ends)):
                await (asyncio.get_running_loop().create_future() if point is None else store.changed(point))

    async def _send_if_open(self, due: _Due) -> None:
        request = await self._hub.store.get(due.request_id)
        if request is not None and request.status == "open":
            await self._send_all(request, due.event, due.at)

    async def _send_all(self, request: ApprovalRequest, event: Event, at: float | None) -> None:
        now = self._hub.clock.now()
        recipients = [each for each in self._recipients if each.wants(request, event, now)]
        messages = (build_message(request, event, at=at, arguments=each.arguments) for each in recipients)
        await asyncio.gather(*map(self._send, recipients, messages))

    async def _send(self, recipient: Recipient, message: Message) -> None:
        if recipient.name:
            link = await self._link(recipient, message.request_id)
        else:  # a program gets nothing that signs anybody in
            link = f"{self._url.rstrip('/')}/#/inbox/{message.request_id}"
        await send_to_all(message.with_link(link), recipient.destinations)

    async def _link(self, recipient: Recipient, request_id: str) -> str:
        """Return a one-time sign-in link that opens the request; opening it decides nothing."""
        token, text = tokens.make(
            "link",
            recipient.name,
            now=self._hub.clock.now(),
            seconds=_LINK_SECONDS,
            project=recipient.project,
            roles=recipient.roles,
            opens=request_id,
        )
        await self._hub.store.add_token(token)
        return tokens.sign_in_address(self._url, text, request_id)

    def _start(self, work: Coroutine[Any, Any, None], tasks: set[asyncio.Task[None]]) -> None:
        task = asyncio.ensure_future(work)
        tasks.add(task)
        task.add_done_callback(self._on_done)

    def _on_done(self, task: asyncio.Task[None]) -> None:
        self._sending.discard(task)
        self._saving.discard(task)
        if not task.cancelled() and task.exception() is not None:
            _LOG.warning("somebody was not told of a question: %s", task.exception())
