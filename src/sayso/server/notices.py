"""Who is told of which question, and when: at once, again after a while, or because nobody else answered."""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import logging
from collections.abc import Coroutine, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from sayso import tokens
from sayso.channels.notify import Destination, Event, message_of, tell
from sayso.errors import StoreError
from sayso.model import ApprovalRequest
from sayso.server.hub import Hub
from sayso.tokens import EVERY_PROJECT

_LOG = logging.getLogger("sayso")
_POINT = "hub\0notices"  # under this the store keeps up to where people were told
_MOST_REMINDERS = 10
_LINK_SECONDS = 3600.0
_PAUSE_SECONDS = 5.0


class Recipient(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody to be told: a person with a name and roles, or a program."""

    destinations: tuple[Destination, ...]
    name: str = ""  # of a person, who gets a link to sign in with
    roles: tuple[str, ...] = ()
    project: str = EVERY_PROJECT

    def wants(self, request: ApprovalRequest, event: Event, now: float) -> bool:
        """Whether this concerns them: everybody may say no, but only those are told who could say yes."""
        if self.project not in {EVERY_PROJECT, request.project}:
            return False
        if not self.name:
            return True
        wanted = request.approvers
        if event == "closed":
            return False
        if event == "escalated":
            return wanted is not None and wanted.escalate is not None and wanted.escalate.role in self.roles
        return wanted is None or wanted.entitles(self.roles, now - request.asked_at)


class _Due(NamedTuple):
    """Something to tell, and when."""

    at: float
    request_id: str
    event: Event


def moments(request: ApprovalRequest) -> Iterator[tuple[float, Event]]:
    """Yield when people have to be told of a question that stays open."""
    yield request.asked_at, "asked"
    wanted = request.approvers
    if wanted is not None and wanted.remind is not None:
        for number in range(1, _MOST_REMINDERS + 1):
            yield request.asked_at + number * wanted.remind, "reminder"
    if wanted is not None and wanted.escalate is not None:
        yield request.asked_at + wanted.escalate.after, "escalated"


class Notices:
    """Follows the requests of a hub and tells people of them; what was missed while it was down is told after."""

    def __init__(self, hub: Hub, recipients: Sequence[Recipient], *, url: str) -> None:
        """Take the hub, who is told, and the address under which they reach the hub."""
        self._hub = hub
        self._recipients = recipients
        self._url = url.rstrip("/")
        self._due: list[_Due] = []
        self._open: set[str] = set()  # what people were told of, or will be
        self._telling: set[asyncio.Task[None]] = set()

    async def begin(self) -> int:
        """Return up to where people were told; if nobody ever was, what is asked from now on counts."""
        store = self._hub.store
        kept = await store.parked(_POINT)
        if kept is not None:
            return int(kept)
        point, _ = await store.changes()
        await store.park(_POINT, str(point).encode())
        return point

    async def run(self) -> None:
        """Tell until cancelled; a store that fails is tried again."""
        while True:
            try:
                await self._follow()
            except StoreError as error:
                _LOG.warning("people are not told of questions for the moment: %s", error)
                await asyncio.sleep(_PAUSE_SECONDS)

    async def _follow(self) -> None:
        point = await self._catch_up(await self.begin())  # first: what is found open after that was told of before
        for request in await self._hub.store.pending():
            self._plan(request, later_only=True)
        while True:
            self._tell_what_is_due()
            await self._wait(point)
            point = await self._catch_up(point)

    async def _catch_up(self, point: int) -> int:
        reached, changed = await self._hub.store.changes(point)
        for request in changed:
            self._note(request)
        if reached != point:
            await self._hub.store.park(_POINT, str(reached).encode())
        return reached

    def _note(self, request: ApprovalRequest) -> None:
        if request.status == "open":
            self._plan(request, later_only=False)
        elif request.id in self._open:
            self._open.discard(request.id)
            self._begin(request, "closed")

    def _plan(self, request: ApprovalRequest, *, later_only: bool) -> None:
        if request.id in self._open:
            return
        self._open.add(request.id)
        now = self._hub.clock.now()
        for at, event in moments(request):
            if at > now or not later_only:
                heapq.heappush(self._due, _Due(at, request.id, event))

    def _tell_what_is_due(self) -> None:
        now = self._hub.clock.now()
        while self._due and self._due[0].at <= now:
            due = heapq.heappop(self._due)
            self._start(self._tell(due))

    async def _wait(self, point: int) -> None:
        store, clock = self._hub.store, self._hub.clock
        with contextlib.suppress(TimeoutError):
            async with clock.until(self._due[0].at) if self._due else contextlib.nullcontext():
                await store.changed(point)

    async def _tell(self, due: _Due) -> None:
        request = await self._hub.store.get(due.request_id)
        if request is not None and request.status == "open":
            self._begin(request, due.event)

    def _begin(self, request: ApprovalRequest, event: Event) -> None:
        now = self._hub.clock.now()
        for recipient in self._recipients:
            if recipient.wants(request, event, now):
                self._start(self._send(recipient, request, event))

    async def _send(self, recipient: Recipient, request: ApprovalRequest, event: Event) -> None:
        link = await self._link(recipient, request) if recipient.name else None
        await tell(message_of(request, event, link), recipient.destinations)

    async def _link(self, recipient: Recipient, request: ApprovalRequest) -> str:
        """Return an address that signs this person in, once, and opens the request; looking at it decides nothing."""
        token, text = tokens.make(
            "link",
            recipient.name,
            now=self._hub.clock.now(),
            seconds=_LINK_SECONDS,
            project=recipient.project,
            roles=recipient.roles,
            opens=request.id,
        )
        await self._hub.store.add_token(token)
        return f"{self._url}/sign-in?code={text}"

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._telling.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._telling.discard(task)
        if not task.cancelled() and task.exception() is not None:
            _LOG.warning("somebody was not told of a question: %s", task.exception())
