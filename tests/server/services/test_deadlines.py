"""Time limits that share one timer."""

import asyncio

import pytest

from sayso.server.services.deadlines import Deadlines


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sayso.server.services.deadlines._TICK_SECONDS", 0.01)


async def for_ever() -> None:
    await asyncio.get_running_loop().create_future()


async def test_whoever_takes_too_long_is_ended_and_nobody_else() -> None:
    deadlines, lives = Deadlines(), asyncio.Event()

    async def patient() -> str:
        with deadlines.within(60):
            await lives.wait()
        return "done"

    other = asyncio.create_task(patient())
    for _ in range(2):  # and again, after nobody was left for a while
        with pytest.raises(TimeoutError), deadlines.within(0.01):
            await for_ever()
    lives.set()
    assert await other == "done"


async def test_a_task_that_somebody_ends_is_ended_whatever_its_limit_says() -> None:
    deadlines, within = Deadlines(), asyncio.Event()

    async def slow() -> None:
        with deadlines.within(0):
            within.set()
            try:
                await for_ever()
            except asyncio.CancelledError:
                asyncio.current_task().cancel()  # type: ignore[union-attr] - it is one; somebody else ends it as well
                raise

    task = asyncio.create_task(slow())
    await within.wait()
    await asyncio.wait([task])
    assert task.cancelled()


async def test_what_goes_wrong_within_the_limit_is_told_as_it_is() -> None:
    deadlines = Deadlines()
    with pytest.raises(KeyError), deadlines.within(60):
        raise KeyError
    with pytest.raises(TimeoutError), deadlines.within(0):  # so the timer has looked, and there was nobody else to end
        await for_ever()


def test_limits_hold_in_the_next_loop_too_whatever_the_last_one_left() -> None:
    deadlines = Deadlines()

    async def soon() -> None:
        with deadlines.within(60):
            pass  # over before the timer has looked

    async def late() -> None:
        with deadlines.within(0):
            await for_ever()

    async def next_one() -> None:
        done, _ = await asyncio.wait([asyncio.create_task(late())], timeout=20)
        assert [type(each.exception()) for each in done] == [TimeoutError]

    asyncio.run(soon())
    asyncio.run(next_one())
