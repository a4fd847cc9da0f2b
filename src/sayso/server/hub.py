"""What all routes of a hub share: the store, the controller that closes requests, the time, and what runs beside."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

from sayso.core.ports import Keyring, Store
from sayso.engine.clock import clock_of
from sayso.engine.controller import ApprovalController
from sayso.errors import StoreError, UnknownRequest
from sayso.server.services.agent_feed import Desk
from sayso.server.services.audit_check import Chain
from sayso.server.services.connections import Connections
from sayso.server.services.deadlines import Deadlines
from sayso.server.services.events import Events
from sayso.server.services.metrics import Meters
from sayso.server.services.open_requests import Waiting
from sayso.server.services.stats import Stats
from sayso.server.services.throttle import Throttle

if TYPE_CHECKING:
    from sayso.core.model import ApprovalRequest
    from sayso.core.ports import Clock, Hook
    from sayso.policy.policy import Policy
    from sayso.server.services.connections import Connection


_LOG = logging.getLogger("sayso.server")
_TIDY_SECONDS = 600.0
MOST_OPEN = 10_000


class HubStore(Store, Keyring, Protocol):
    """A store that also keeps tokens."""


class Hub:
    """One hub. What it knows is in its store: any number of hubs may stand on one."""

    def __init__(
        self,
        store: HubStore,
        *,
        policy: Policy | None = None,
        clock: Clock | None = None,
        throttle: Throttle | None = None,
        connections: Connections | None = None,
        most_open: int = MOST_OPEN,
        hooks: Iterable[Hook] = (),
    ) -> None:
        """Take the store, and what is to differ.

        Args:
            store: where requests and tokens are kept.
            policy: judges edited arguments here as well as where the call runs.
            clock: tells the time; tests pass a fixed one.
            throttle: how often somebody may do something.
            connections: how many connections may stay open.
            most_open: how many questions of one agent may wait at once.
            hooks: told of every answer that is given here.
        """
        self.store = store
        self.clock = clock_of(store, clock)
        self.controller = ApprovalController(mode="defer", store=store, policy=policy, clock=self.clock, hooks=hooks)
        self.connections = connections or Connections(store, self.clock)
        self.most_open = most_open
        self.throttle = throttle or Throttle()
        self.deadlines = Deadlines()
        self.waiting = Waiting(store, self.clock)
        self.meters = Meters(self.waiting, self.connections)
        self.events = Events(store, self.meters.note, self.waiting.note)
        self.desk = Desk(store)
        self.chain = Chain(store, self.clock)
        self.stats = Stats(store, self.clock)
        self.following = asyncio.Event()  # it hears of what happens to requests from now on
        self._beside: asyncio.Task[None] | None = None

    def wake(self) -> None:
        """Start what runs beside the routes, if it does not run yet: nobody has to run a lifespan for it."""
        if (self._beside is None or self._beside.done()) and not self.connections.resting:
            self._beside = asyncio.get_running_loop().create_task(self._run_beside(), name="sayso-hub")
            self._beside.add_done_callback(_tell)

    async def _run_beside(self) -> None:
        await self.events.start()  # first, so that nothing is missed between this and what is open now
        await self.waiting.load()
        self.following.set()
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self.events.follow())
                tasks.create_task(self.waiting.close_overdue())
                tasks.create_task(self.connections.watch())
                tasks.create_task(self._tidy())
        finally:
            self.following.clear()

    async def _tidy(self) -> None:
        """Forget tokens whose time is up: every message to a person has one."""
        while True:
            try:
                for each in await self.store.tokens():
                    if each.is_over(self.clock.now()):
                        await self.store.take_token(each.id)
            except StoreError as error:
                _LOG.warning("old tokens could not be forgotten, trying again: %s", error)
            with contextlib.suppress(TimeoutError):
                async with self.clock.until(self.clock.now() + _TIDY_SECONDS):
                    await asyncio.get_running_loop().create_future()

    async def wait(self, request_id: str, seconds: float, connection: Connection) -> ApprovalRequest:
        """Wait until a request is closed, that many seconds are over, or the connection has to end.

        Returns:
            The request as it stands.

        """
        closed = asyncio.ensure_future(self.controller.wait(request_id, seconds))
        over = asyncio.ensure_future(connection.over.wait())
        try:
            await asyncio.wait({closed, over}, return_when=asyncio.FIRST_COMPLETED)
            return closed.result() if closed.done() else await self.get(request_id)
        finally:
            over.cancel()
            closed.cancel()

    async def get(self, request_id: str) -> ApprovalRequest:
        """Return a request as it stands.

        Raises:
            UnknownRequest: no request has this id.
        """
        request = await self.store.get(request_id)
        if request is None:
            raise UnknownRequest(request_id)
        return request

    def rest(self) -> None:
        """Let streams, sockets and long polls end, before the hub stops."""
        self.connections.end()

    async def aclose(self) -> None:
        """End what runs beside, and write what is queued; the store is its owner's to close."""
        self.rest()
        if self._beside is not None:
            self._beside.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._beside
        await self.store.flush()


def _tell(beside: asyncio.Task[None]) -> None:
    if not beside.cancelled() and beside.exception() is not None:
        _LOG.critical("the hub follows its store no longer, until the next request to it", exc_info=beside.exception())
