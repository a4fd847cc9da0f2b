"""The thread of a store whose library is bound to one loop."""

import asyncio
import threading

from sayso.stores.loop_thread import LoopThread


async def nothing() -> None:
    pass


def test_what_a_task_begins_when_it_is_ended_is_ended_too() -> None:
    home, begun, never = LoopThread("test"), threading.Event(), asyncio.Event()
    last: list[asyncio.Task[object]] = []

    async def work() -> None:
        try:
            begun.set()
            await never.wait()
        finally:  # as a driver does that tells its server so, when a statement is cancelled
            last.append(asyncio.create_task(never.wait()))

    working = home.submit(work())
    assert begun.wait(20)
    home.stop(nothing)
    assert working.cancelled()
    assert [each.cancelled() for each in last] == [True]
