"""The hub object that all routes share: store, controller, clock, services and background tasks.

Tests: tests/server/test_hubs.py
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal, Protocol

from sayso.core.ports import Keyring, MeteredParking, Store
from sayso.engine.clock import clock_of
from sayso.engine.controller import ApprovalController
from sayso.errors import StoreError, UnknownRequest
from sayso.server.services.agent_feed import AgentFeed
from sayso.server.services.audit_check import AuditCheck
from sayso.server.services.connections import Connections
from sayso.server.services.deadlines import Deadlines
from sayso.server.services.events import Events
from sayso.server.services.metrics import Metrics
from sayso.server.services.open_requests import OpenRequests
from sayso.server.services.stats_cache import Stats
from sayso.server.services.throttle import Throttle

if TYPE_CHECKING:
    from sayso.core.model import ApprovalRequest
    from sayso.core.ports import Clock, Hook
    from sayso.policy.policy import Policy
    from sayso.server.services.connections import ClientConnection


_LOG = logging.getLogger("sayso.server")
_PURGE_SECONDS = 600.0
MOST_OPEN = 10_000
MOST_PARKED, MOST_PARKED_BYTES = 10_000, 1_000_000_000


MetricsAudience = Literal["local", "token", "nobody"]


class HubStore(Store, Keyring, MeteredParking, Protocol):
    """A store that also keeps tokens, and measures what is parked."""


class Hub:
    """One hub process. All durable state is in the store, so any number of hubs can share one."""

    def __init__(
        self,
        store: HubStore,
        *,
        policy: Policy | None = None,
        clock: Clock | None = None,
        throttle: Throttle | None = None,
        connections: Connections | None = None,
        most_open: int = MOST_OPEN,
        most_parked: int = MOST_PARKED,
        most_parked_bytes: int = MOST_PARKED_BYTES,
        metrics_for: MetricsAudience = "local",
        hooks: Iterable[Hook] = (),
    ) -> None:
        """Create a hub; nothing runs before `start_background`.

        Args:
            store: holds requests and tokens.
            policy: judges edited arguments at the hub, in addition to the agent's own policy.
            clock: the source of time; tests pass a fixed one.
            throttle: the rate limits.
            connections: the registry of long-lived connections, with its limits.
            most_open: the limit of open requests per agent.
            most_parked: the limit of parked states per agent: runs, and the nested runs inside them.
            most_parked_bytes: the limit of their bytes.
            metrics_for: for whom `GET /metrics` answers: `local`, people with a token, and this machine without one;
                `token`, people with a token only; `nobody`.
            hooks: called with every answer that is given here.
        """
        self.store = store
        self.clock = clock_of(store, clock)
        self.controller = ApprovalController(mode="defer", store=store, policy=policy, clock=self.clock, hooks=hooks)
        self.connections = connections or Connections(store, self.clock)
        self.most_open = most_open
        self.most_parked = most_parked
        self.most_parked_bytes = most_parked_bytes
        self.metrics_for: MetricsAudience = metrics_for
        self.throttle = throttle or Throttle()
        self.deadlines = Deadlines()
        self.open_requests = OpenRequests(store, self.clock, self.controller.deadlines)
        self.metrics = Metrics(self.open_requests, self.connections)
        self.events = Events(store, self.metrics.observe, self.open_requests.update)
        self.agent_feed = AgentFeed(store)
        self.audit_check = AuditCheck(store, self.clock)
        self.stats = Stats(store, self.clock)
        self.ready = asyncio.Event()  # set while the feed is followed
        self._background: asyncio.Task[None] | None = None

    def start_background(self) -> None:
        """Start the background tasks unless they run; no ASGI lifespan is needed for it."""
        if (self._background is None or self._background.done()) and not self.connections.draining:
            self._background = asyncio.get_running_loop().create_task(self._run_background(), name="sayso-hub")
            self._background.add_done_callback(_log_crash)

    async def _run_background(self) -> None:
        await self.events.start()  # first, so that no change is missed while the open requests are loaded
        await self.open_requests.load()
        self.ready.set()
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self.events.follow())
                tasks.create_task(self.open_requests.close_overdue())
                tasks.create_task(self.connections.watch())
                tasks.create_task(self._purge_tokens())
        finally:
            self.ready.clear()

    async def _purge_tokens(self) -> None:
        """Delete expired tokens: every notice to a person creates one."""
        while True:
            try:
                for each in await self.store.tokens():
                    if each.is_expired(self.clock.now()):
                        await self.store.take_token(each.id)
            except StoreError as error:
                _LOG.warning("old tokens could not be forgotten, trying again: %s", error)
            with contextlib.suppress(TimeoutError):
                async with self.clock.until(self.clock.now() + _PURGE_SECONDS):
                    await asyncio.get_running_loop().create_future()

    async def wait(self, request_id: str, seconds: float, connection: ClientConnection) -> ApprovalRequest:
        """Wait until a request is closed, the time is up, or the connection must close.

        Returns:
            The current request.

        """
        closed = asyncio.ensure_future(self.controller.wait(request_id, seconds))
        closing = asyncio.ensure_future(connection.must_close.wait())
        try:
            await asyncio.wait({closed, closing}, return_when=asyncio.FIRST_COMPLETED)
            return closed.result() if closed.done() else await self.get(request_id)
        finally:
            closing.cancel()
            closed.cancel()

    async def get(self, request_id: str) -> ApprovalRequest:
        """Return the current request.

        Raises:
            UnknownRequest: no request has this id.
        """
        request = await self.store.get(request_id)
        if request is None:
            raise UnknownRequest(request_id)
        return request

    def rest(self) -> None:
        """Drain streams, WebSockets and long polls, before the hub stops."""
        self.connections.drain()

    async def aclose(self) -> None:
        """Stop the background tasks and flush the store; its owner closes it."""
        self.rest()
        if self._background is not None:
            self._background.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._background
        await self.store.flush()


def _log_crash(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and task.exception() is not None:
        _LOG.critical("the hub follows its store no longer, until the next request to it", exc_info=task.exception())
