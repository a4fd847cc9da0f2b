"""Follower of a hub: one long poll of the change feed for all waiters of this process, with back-off.

Tests: tests/stores/remote/test_store.py
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import msgspec

from sayso.core.agent_protocol import ChangesReply, GetChanges
from sayso.core.backoff import backoff
from sayso.core.msgpack_codec import unpack_remembered
from sayso.errors import StoreError, UnknownRequest
from sayso.stores.remembered_feed import RememberedSubscribers
from sayso.stores.remote.transport import HubUnavailable

if TYPE_CHECKING:
    from sayso.stores.remote.transport import AsyncHubTransport

_LOG = logging.getLogger("sayso")
_WAIT_SECONDS = 25.0  # less than the idle timeout of common proxies
_STALE_SECONDS = 60.0
_BEGIN_SECONDS = 10.0
CHANGES_REPLY = msgspec.msgpack.Decoder(ChangesReply)


class ChangeListener(Protocol):
    """Receiver of the changes: the remote store."""

    async def on_changes(self, point: int, rows: Sequence[bytes]) -> None:
        """Receive the changes up to that point."""
        ...

    async def resync(self) -> None:
        """Read every awaited request: a change may have been missed."""
        ...

    def fail_waiters(self, error: StoreError) -> None:
        """Fail all waiters: the hub refuses this agent."""
        ...


class HubFollower:
    """Delivers the changes of the agent's own requests and of the remembered decisions for it."""

    def __init__(
        self, transport: AsyncHubTransport, listener: ChangeListener, subscribers: RememberedSubscribers
    ) -> None:
        self._transport = transport
        self._listener = listener
        self._subscribers = subscribers
        self._point: int | None = None
        self._known = ""
        self._last_reply_at = time.monotonic()

    async def start(self) -> int:
        """Load the current change number and the remembered decisions, before any decision; return the number."""
        content = await self._transport.send_with_retry("changes", GetChanges(after=None), patience=_BEGIN_SECONDS)
        reply = self._transport.hub.decode(content, CHANGES_REPLY)
        self._update_remembered(reply)
        self._point = reply.point
        return reply.point

    async def run(self) -> None:
        """Follow until cancelled."""
        waiting, missed = backoff(), False
        while True:
            try:
                if missed:
                    await self._listener.resync()
                    await self._long_poll(0.0)  # only a reply proves that the hub is back
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
        message = GetChanges(after=self._point, wait=seconds, known=self._known)
        content = await self._transport.send_once("changes", message, extra_seconds=seconds)
        reply = self._transport.hub.decode(content, CHANGES_REPLY)
        self._last_reply_at = time.monotonic()
        self._update_remembered(reply)
        if self._point is not None and reply.point < self._point:  # perhaps its store was restored from a copy
            await self._listener.resync()
        await self._listener.on_changes(reply.point, reply.rows)
        self._point = reply.point

    def _update_remembered(self, reply: ChangesReply) -> None:
        if reply.remembered is not None:
            self._known = reply.known
            self._subscribers.publish([unpack_remembered(each) for each in reply.remembered])

    def _distrust(self, error: StoreError | UnknownRequest) -> None:
        """Withdraw remembered approvals, which the hub may have revoked unnoticed; remembered denials stay."""
        if not isinstance(error, HubUnavailable):
            self._listener.fail_waiters(StoreError(str(error)))
        elif time.monotonic() - self._last_reply_at < _STALE_SECONDS:
            return
        if self._known:
            _LOG.warning(
                "the hub cannot be reached: until it can, remembered approvals do not apply, and such calls ask again"
            )
            self._known = ""
            self._subscribers.withdraw_approvals()
