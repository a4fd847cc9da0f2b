"""When those are told whose work a PostgreSQL store has written: so that the server and they are busy at the same time.

Who hears does the next thing, and that takes about as long as a group does. So they hear while the next group is under
way; and where there is none yet, half of them hear first, and what they do is that group.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection
from concurrent.futures import Future
from functools import partial
from weakref import WeakSet

from sayso.stores.waiting import Loop, Settled, deliver

_CROWD = 4
_BREATH_SECONDS = 0.005
# What a job may cost where half a crowd has a group of its own. Where it costs more, most of that is not for the job
# but for the group, as with a slow disk or a long way, and then it is better to have few groups.
_CHEAP_SECONDS = 100e-6
_TURNS = 2  # of a loop: one in which a result wakes a task, and one in which the task goes on


class Telling:
    """For a store whose loop is its own, which would otherwise begin with the first of them and let the others wait."""

    def __init__(self, loop: asyncio.AbstractEventLoop, queue: Collection[object]) -> None:
        """Take where groups are written, and what waits for the next one."""
        self._loop, self._queue = loop, queue
        self._told: set[Loop] = set()  # while a group was under way: they may not have come to their next work yet
        self._busy: WeakSet[Loop] = WeakSet()  # they are to have a turn, and have not come to it

    async def tell(self, settled: Settled, others: Settled, seconds: float) -> None:
        """Tell those whose jobs took this long together, and others who waited for what they did."""
        told, crowd = settled + others, len(settled)
        if seconds < crowd * _CHEAP_SECONDS:
            await self._in_turns(told, crowd)
            return
        deliver(told)
        if crowd >= _CROWD and self._is_quiet(crowd):
            await self._taken_in(_loops(told))

    async def _in_turns(self, told: Settled, crowd: int) -> None:
        if len(self._queue) < crowd:
            await self._taken_in(self._told)
        half = len(told) // 2 if self._is_quiet(crowd) else 0
        if half:
            deliver(told[:half])
            await self._taken_in(_loops(told[:half]))
        self._told = _loops(told[half:])
        self._loop.call_soon(deliver, told[half:])  # when this loop has nothing else to do: the next group is under way

    def _is_quiet(self, crowd: int) -> bool:
        """Whether few have come with something new while that many were served."""
        return len(self._queue) < crowd // _CROWD

    async def _taken_in(self, loops: set[Loop]) -> None:
        """Wait until those who were told in one of these loops have had their turn: a moment at most, once for each."""
        turns: list[asyncio.Future[None]] = []
        for loop in loops.difference(self._busy):
            turn: asyncio.Future[None] = self._loop.create_future()
            with contextlib.suppress(RuntimeError):  # that loop is closed
                loop.call_soon_threadsafe(_after_turns, loop, _TURNS, turn)
                self._busy.add(loop)
                turn.add_done_callback(partial(self._is_back, loop))
                turns.append(turn)
        if turns:
            await asyncio.wait(turns, timeout=_BREATH_SECONDS, return_when=asyncio.FIRST_COMPLETED)

    def _is_back(self, loop: Loop, _: object) -> None:
        self._busy.discard(loop)


def _loops(told: Settled) -> set[Loop]:
    return {future.get_loop() for future, _ in told if not isinstance(future, Future)}


def _after_turns(loop: Loop, turns: int, future: asyncio.Future[None]) -> None:
    if turns:
        loop.call_soon(_after_turns, loop, turns - 1, future)
    else:
        deliver([(future, None)])
