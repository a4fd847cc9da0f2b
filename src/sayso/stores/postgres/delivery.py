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

from sayso.stores.waiters import Loop, Settled, deliver

_CROWD, _BREATH_SECONDS = 4, 0.005  # so many are worth waiting for, and so long
# How many a half has to be, and what a job may cost then. Where they are fewer, or it costs more, most of that is not
# for the jobs but for the group, as with a slow disk or a long way; and then it is better to have few groups.
_HALF, _CHEAP_SECONDS = 20, 80e-6
_TURNS = 2  # of a loop: one in which a result wakes a task, and one in which the task goes on


class Telling:
    """Tells them now, or half of them, or all when the next group is under way.

    For a store whose loop is its own, which would otherwise begin with the first of them and let the others wait.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, queue: Collection[object]) -> None:
        """Take where groups are written, and what waits for the next one."""
        self._loop, self._queue = loop, queue
        self._told: set[Loop] = set()  # while a group was under way: they may not have come to their next work yet
        self._busy: WeakSet[Loop] = WeakSet()  # they are to have a turn, and have not come to it

    async def tell(self, settled: Settled, others: Settled, seconds: float) -> None:
        """Tell those whose jobs took this long together, and others who waited for what they did."""
        told, crowd = settled + others, len(settled)
        is_cheap = crowd >= _HALF and seconds < crowd * _CHEAP_SECONDS
        if is_cheap and len(self._queue) < crowd:
            await self._taken_in(self._told)
        is_quiet = len(self._queue) < crowd // _CROWD  # few have come with something new while these were served
        if is_cheap and not is_quiet:
            first = 0
        elif is_cheap and crowd >= 2 * _HALF:
            first = len(told) // 2
        else:
            first = len(told)
        deliver(told[:first])
        if first and is_quiet and crowd >= _CROWD:
            await self._taken_in(_loops(told[:first]))
        self._told = _loops(told[first:])
        self._loop.call_soon(deliver, told[first:])  # when nothing else is to be done here: a group is under way

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
