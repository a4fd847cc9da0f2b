"""One long poll for all who wait in this process: it hears of every change, and comes back by itself."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

import msgspec

from sayso.core.agent_protocol import Changes, Told
from sayso.core.msgpack_codec import unpack_remembered
from sayso.errors import StoreError, UnknownRequest
from sayso.stores.remembered_feed import Learners
from sayso.stores.remote.transport import Away
from sayso.stores.retry import pauses

if TYPE_CHECKING:
    from sayso.core.model import Remembered
    from sayso.stores.remote.transport import AsyncWay

_LOG = logging.getLogger("sayso")
_WAIT_SECONDS = 25.0  # less than what stands between agent and hub lets a connection be idle
_STALE_SECONDS = 60.0
_BEGIN_SECONDS = 10.0


class Hearer(Protocol):
    """Who has to know what is heard."""

    async def hear(self, point: int, rows: Sequence[bytes]) -> None:
        """Take what has changed up to that point."""
        ...

    async def look(self) -> None:
        """Look at everything that is waited for: something may have been missed."""
        ...

    def lose(self, error: StoreError) -> None:
        """Give up: the hub does not talk to this agent any more."""
        ...


class Follower:
    """Follows the changes of the agent's own requests, and what is remembered for it."""

    def __init__(self, way: AsyncWay, hearer: Hearer, learners: Learners) -> None:
        """Know nothing yet."""
        self._way = way
        self._hearer = hearer
        self._learners = learners
        self._point: int | None = None
        self._known = ""
        self._remembered: Sequence[Remembered] = ()
        self._heard_at = time.monotonic()

    async def begin(self) -> int:
        """Learn where the hub stands and what is remembered, before anything is decided; return the point."""
        told = _read(await self._way.ask("changes", Changes(after=None), patience=_BEGIN_SECONDS))
        self._learn(told)
        self._point = told.point
        return told.point

    async def run(self) -> None:
        """Follow until cancelled."""
        waiting, missed = pauses(), False
        while True:
            try:
                if missed:
                    await self._hearer.look()
                    await self._listen(0.0)  # only what it answers says that it is back
                    missed = False
                    _LOG.warning("the hub %s is back; waiting goes on", self._way.hub.url)
                await self._listen(_WAIT_SECONDS)
                waiting = pauses()
            except (StoreError, UnknownRequest) as error:
                if not missed:
                    _LOG.warning("nothing is heard from the hub, trying again: %s", error)
                missed = True
                self._doubt(error)
                await asyncio.sleep(next(waiting))

    async def _listen(self, seconds: float) -> None:
        asked = Changes(after=self._point, wait=seconds, known=self._known)
        told = _read(await self._way.once("changes", asked, longer=seconds))
        self._heard_at = time.monotonic()
        self._learn(told)
        if self._point is not None and told.point < self._point:  # another past: perhaps an older copy of its store
            await self._hearer.look()
        await self._hearer.hear(told.point, told.rows)
        self._point = told.point

    def _learn(self, told: Told) -> None:
        if told.remembered is not None:
            self._remembered = [unpack_remembered(each) for each in told.remembered]
            self._known = told.known
            self.teach()

    def teach(self, only: Callable[[Remembered], bool] = lambda _: True) -> None:
        """Tell everybody what is remembered, as far as it is known to hold."""
        self._learners.teach(self._learners.version + 1, [each for each in self._remembered if only(each)])

    def _doubt(self, error: StoreError | UnknownRequest) -> None:
        """Go on without what may have been revoked: a yes holds only as long as the hub could take it back."""
        if not isinstance(error, Away):
            self._hearer.lose(StoreError(str(error)))
        elif time.monotonic() - self._heard_at < _STALE_SECONDS:
            return
        if self._known:
            _LOG.warning("what the hub remembers as allowed is not gone by until it can be heard again")
            self._known = ""
            self.teach(lambda each: not each.decision.approved)


def _read(content: bytes) -> Told:
    try:
        return msgspec.msgpack.decode(content, type=Told)
    except (msgspec.MsgspecError, ValueError) as error:
        raise StoreError(f"the hub answers in a way that cannot be read: {error}") from error
