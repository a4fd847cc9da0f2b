"""One long poll for all who wait in this process: it hears of every change, and comes back by itself."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

import msgspec

from sayso.core.agent_protocol import ChangesReply, GetChanges
from sayso.core.backoff import backoff
from sayso.core.msgpack_codec import unpack_remembered
from sayso.errors import StoreError, UnknownRequest
from sayso.stores.remembered_feed import RememberedSubscribers
from sayso.stores.remote.transport import HubUnavailable

if TYPE_CHECKING:
    from sayso.core.model import Remembered
    from sayso.stores.remote.transport import AsyncHubTransport

_LOG = logging.getLogger("sayso")
_WAIT_SECONDS = 25.0  # less than what stands between agent and hub lets a connection be idle
_STALE_SECONDS = 60.0
_BEGIN_SECONDS = 10.0


class ChangeListener(Protocol):
    """Who has to know what is heard."""

    async def on_changes(self, point: int, rows: Sequence[bytes]) -> None:
        """Take what has changed up to that point."""
        ...

    async def resync(self) -> None:
        """Look at everything that is waited for: something may have been missed."""
        ...

    def fail_waiters(self, error: StoreError) -> None:
        """Give up: the hub does not talk to this agent any more."""
        ...


class HubFollower:
    """Follows the changes of the agent's own requests, and what is remembered for it."""

    def __init__(
        self, transport: AsyncHubTransport, listener: ChangeListener, subscribers: RememberedSubscribers
    ) -> None:
        """Know nothing yet."""
        self._transport = transport
        self._listener = listener
        self._subscribers = subscribers
        self._point: int | None = None
        self._known = ""
        self._remembered: Sequence[Remembered] = ()
        self._heard_at = time.monotonic()

    async def start(self) -> int:
        """Learn where the hub stands and what is remembered, before anything is decided; return the point."""
        told = _decode_reply(
            await self._transport.send_with_retry("changes", GetChanges(after=None), patience=_BEGIN_SECONDS)
        )
        self._update_remembered(told)
        self._point = told.point
        return told.point

    async def run(self) -> None:
        """Follow until cancelled."""
        waiting, missed = backoff(), False
        while True:
            try:
                if missed:
                    await self._listener.resync()
                    await self._long_poll(0.0)  # only what it answers says that it is back
                    missed = False
                    _LOG.warning("the hub %s is back; waiting goes on", self._transport.hub.url)
                await self._long_poll(_WAIT_SECONDS)
                waiting = backoff()
            except (StoreError, UnknownRequest) as error:
                if not missed:
                    _LOG.warning("nothing is heard from the hub, trying again: %s", error)
                missed = True
                self._distrust(error)
                await asyncio.sleep(next(waiting))

    async def _long_poll(self, seconds: float) -> None:
        asked = GetChanges(after=self._point, wait=seconds, known=self._known)
        told = _decode_reply(await self._transport.send_once("changes", asked, extra_seconds=seconds))
        self._heard_at = time.monotonic()
        self._update_remembered(told)
        if self._point is not None and told.point < self._point:  # another past: perhaps an older copy of its store
            await self._listener.resync()
        await self._listener.on_changes(told.point, told.rows)
        self._point = told.point

    def _update_remembered(self, told: ChangesReply) -> None:
        if told.remembered is not None:
            self._remembered = [unpack_remembered(each) for each in told.remembered]
            self._known = told.known
            self.publish()

    def publish(self, only: Callable[[Remembered], bool] = lambda _: True) -> None:
        """Tell everybody what is remembered, as far as it is known to hold."""
        self._subscribers.publish(self._subscribers.version + 1, [each for each in self._remembered if only(each)])

    def _distrust(self, error: StoreError | UnknownRequest) -> None:
        """Go on without what may have been revoked: a yes holds only as long as the hub could take it back."""
        if not isinstance(error, HubUnavailable):
            self._listener.fail_waiters(StoreError(str(error)))
        elif time.monotonic() - self._heard_at < _STALE_SECONDS:
            return
        if self._known:
            _LOG.warning("what the hub remembers as allowed is not gone by until it can be heard again")
            self._known = ""
            self.publish(lambda each: not each.decision.approved)


def _decode_reply(content: bytes) -> ChangesReply:
    try:
        return msgspec.msgpack.decode(content, type=ChangesReply)
    except (msgspec.MsgspecError, ValueError) as error:
        raise StoreError(f"the hub answers in a way that cannot be read: {error}") from error
