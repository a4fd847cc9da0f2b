"""A clock that is set back does not lengthen a question, where somebody waits for the answer."""

import asyncio
import time
from typing import Self

import anyio
import pytest
from msgspec.structs import replace
from tests.people import YES

from sayso import ApprovalController, ApprovalRequest, Policy, ToolCall
from sayso.core.model import Approved, Denied, Pending
from sayso.engine.clock import SystemClock
from sayso.stores.memory import MemoryStore
from sayso.testing import FixedClock

ASKS = Policy({"pay": "required"}, default="none")
PAY = ToolCall(tool="pay", args={"amount": 5}, call_id="c1")
HOUR = 3600.0

pytestmark = [pytest.mark.anyio, pytest.mark.proves("H5")]


class Unanswered:
    """A channel on which nobody answers."""

    async def announce(self, request: ApprovalRequest) -> None:
        """Show nothing."""


class Waiting:
    """A call that waits for its answer, at most half a minute."""

    def __init__(self, clock: FixedClock, store: MemoryStore) -> None:
        self.controller = ApprovalController(
            policy=ASKS, channels=[Unanswered()], timeout=30, clock=clock, store=store, session="s"
        )

    async def __aenter__(self) -> Self:
        self.outcome = asyncio.ensure_future(self.controller.settle(PAY))
        while not (found := await self.controller.store.pending()):
            await anyio.lowlevel.checkpoint()
        await anyio.wait_all_tasks_blocked()
        self.request = found[0]
        return self

    async def __aexit__(self, *_: object) -> None:
        self.outcome.cancel()

    async def is_expired(self) -> bool:
        with anyio.fail_after(10):
            outcome = await self.outcome
        return isinstance(outcome, Denied) and outcome.cause == "expired"


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock()


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


async def test_a_question_ends_when_its_time_has_passed_whatever_the_clock_says(
    clock: FixedClock, store: MemoryStore
) -> None:
    async with Waiting(clock, store) as waiting:
        clock.set_back(HOUR)
        clock.advance(29)
        await anyio.wait_all_tasks_blocked()
        assert not waiting.outcome.done()
        clock.advance(1)
        assert await waiting.is_expired()
        assert (await waiting.controller.answer(waiting.request.id, YES)).status == "expired"


async def test_a_yes_after_its_time_does_not_count_even_if_the_waiter_was_not_woken_yet(
    clock: FixedClock, store: MemoryStore
) -> None:
    async with Waiting(clock, store) as waiting:
        clock.set_back(HOUR)
        clock.advance(30)
        assert (await waiting.controller.answer(waiting.request.id, YES)).status == "expired"
        assert await waiting.is_expired()


async def test_a_yes_after_its_time_by_another_process_is_used_up_and_runs_nothing(
    clock: FixedClock, store: MemoryStore
) -> None:
    elsewhere = ApprovalController(mode="defer", policy=ASKS, store=store, clock=FixedClock(clock.now() - HOUR))
    async with Waiting(clock, store) as waiting:
        clock.set_back(HOUR)
        clock.advance(30)
        assert (await elsewhere.answer(waiting.request.id, YES)).status == "approved"
        assert await waiting.is_expired()
        found = await store.get(waiting.request.id)
        assert found is not None
        assert found.status == "used", "nobody can use it later"


async def test_a_yes_in_time_counts_though_the_clock_was_set_back(clock: FixedClock, store: MemoryStore) -> None:
    async with Waiting(clock, store) as waiting:
        clock.set_back(HOUR)
        clock.advance(29)
        assert (await waiting.controller.answer(waiting.request.id, YES)).status == "approved"
        with anyio.fail_after(10):
            assert not isinstance(await waiting.outcome, Denied)


async def test_waiting_once_more_does_not_lengthen_a_question(clock: FixedClock) -> None:
    controller = ApprovalController(mode="defer", policy=ASKS, clock=clock, timeout=30)
    pending = await controller.review(PAY)
    assert isinstance(pending, Pending)

    async def waited(seconds: float) -> ApprovalRequest:
        waiting = asyncio.ensure_future(controller.wait(pending.request.id, timeout=15))
        await anyio.wait_all_tasks_blocked()
        clock.advance(seconds)
        with anyio.fail_after(10):
            return await waiting

    assert (await waited(15)).status == "open"
    clock.set_back(HOUR)
    assert (await waited(15)).status == "expired"


@pytest.mark.parametrize("looks", [False, True])
async def test_a_yes_after_its_time_does_not_count_though_nobody_waits(clock: FixedClock, looks: bool) -> None:
    controller = ApprovalController(mode="defer", policy=ASKS, clock=clock, timeout=30)
    pending = await controller.review(PAY)
    assert isinstance(pending, Pending)
    clock.set_back(HOUR)
    clock.advance(30)
    if looks:
        assert await controller.pending() == []
    assert (await controller.answer(pending.request.id, YES)).status == "expired"
    outcome = await controller.review(PAY, asked=True)
    assert isinstance(outcome, Denied)
    assert outcome.cause == "expired"


async def test_a_process_that_begins_after_the_clock_was_set_back_waits_no_longer_than_was_asked_for(
    clock: FixedClock, store: MemoryStore
) -> None:
    pending = await ApprovalController(mode="defer", policy=ASKS, clock=clock, store=store, timeout=30).review(PAY)
    assert isinstance(pending, Pending)
    clock.set_back(HOUR)
    restarted = ApprovalController(mode="defer", policy=ASKS, clock=clock, store=store)
    waiting = asyncio.ensure_future(restarted.wait(pending.request.id))
    await anyio.wait_all_tasks_blocked()
    clock.advance(30)
    with anyio.fail_after(10):
        assert (await waiting).status == "expired"


async def test_a_yes_for_ten_minutes_ends_after_ten_minutes_though_the_clock_was_set_back(clock: FixedClock) -> None:
    controller = ApprovalController(mode="defer", policy=ASKS, clock=clock)
    pending = await controller.review(PAY)
    assert isinstance(pending, Pending)
    await controller.answer(pending.request.id, replace(YES, remember="always", until=clock.now() + 600))
    again = replace(PAY, call_id="c2")
    clock.set_back(HOUR)
    assert isinstance(await controller.review(again), Approved)
    clock.advance(599)
    assert len(controller.memory) == 1
    clock.advance(1)
    assert (len(controller.memory), controller.memory.lookup("pay", PAY.args)) == (0, None)
    assert isinstance(await controller.review(replace(PAY, call_id="c3")), Pending)


async def test_a_clock_without_a_monotonic_time_has_that_of_the_machine() -> None:
    class SetBack(SystemClock):
        by = 0.0

        def now(self) -> float:  # pyright: ignore[reportIncompatibleMethodOverride] - a static one there
            return time.time() - self.by

    clock = SetBack()
    controller = ApprovalController(policy=ASKS, channels=[Unanswered()], timeout=0.2, clock=clock)
    waiting = asyncio.ensure_future(controller.settle(PAY))
    await anyio.wait_all_tasks_blocked()
    clock.by = HOUR
    with anyio.fail_after(10):
        outcome = await waiting
    assert isinstance(outcome, Denied)
    assert outcome.cause == "expired"
