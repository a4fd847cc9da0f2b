"""Asking through the host's own function: any failure of it means no, with a reason of its own."""

import asyncio
import contextvars
import functools
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest
from tests.people import YES

from sayso import ApprovalController, ApprovalDecision, ApprovalRequest, Policy, ToolCall, requires_approval
from sayso.core.model import Approved, Denied
from sayso.errors import ApprovalCancelled, StoreError
from sayso.stores.memory import MemoryStore
from sayso.testing import FixedClock

ASKS = Policy(default="required")


def controller_with(callback: Any, **settings: Any) -> ApprovalController:
    return ApprovalController(policy=ASKS, approval_callback=callback, **settings)


def call(number: int = 1) -> ToolCall:
    return ToolCall(tool="pay", args={"number": number})


def yes(request: ApprovalRequest) -> ApprovalDecision:
    return YES


async def yes_async(request: ApprovalRequest) -> ApprovalDecision:
    return YES


def yes_in_a_coroutine(request: ApprovalRequest) -> Awaitable[ApprovalDecision]:
    return yes_async(request)


class Caller:
    async def __call__(self, request: ApprovalRequest) -> ApprovalDecision:
        return YES


class Chooser:
    """The smallest front end of seed 000."""

    def __init__(self) -> None:
        self.modes: list[str] = []

    def choose(self, request: ApprovalRequest, *, mode: str) -> ApprovalDecision:
        self.modes.append(mode)
        return YES


@pytest.mark.proves("R27", "R30", "C9")
@pytest.mark.parametrize(
    "callback",
    [yes, yes_async, Caller(), functools.partial(yes_async), yes_in_a_coroutine, Chooser()],
    ids=["sync", "async", "async object", "async partial", "sync that returns a coroutine", "choose"],
)
async def test_every_kind_of_callback_can_approve(callback: Any) -> None:
    assert isinstance(await controller_with(callback).settle(call()), Approved)


@pytest.mark.proves("R3")
async def test_an_object_with_only_choose_is_a_complete_front_end() -> None:
    chooser = Chooser()
    await controller_with(chooser).settle(call())
    assert chooser.modes == ["interactive"]


def raises(request: ApprovalRequest) -> ApprovalDecision:
    raise ValueError("the socket broke")


def exits(request: ApprovalRequest) -> ApprovalDecision:
    raise SystemExit(3)


def stops(request: ApprovalRequest) -> ApprovalDecision:
    raise StopIteration


async def raises_async(request: ApprovalRequest) -> ApprovalDecision:
    raise EOFError


async def blocks_async(request: ApprovalRequest) -> ApprovalDecision:
    raise PermissionError("not you")


def returns(value: object) -> Callable[[ApprovalRequest], object]:
    return lambda request: value


def takes_nothing() -> ApprovalDecision:
    raise NotImplementedError


@pytest.mark.proves("H5")
@pytest.mark.parametrize(
    ("callback", "reason"),
    [
        (raises, "raised ValueError: the socket broke"),
        (exits, "raised RuntimeError: SystemExit(3)"),
        (stops, "raised RuntimeError: StopIteration()"),
        (raises_async, "raised EOFError"),
        (blocks_async, "raised PermissionError: not you"),
        (returns(1), "returned 1 instead of an ApprovalDecision"),
        (returns("y"), "returned 'y' instead of an ApprovalDecision"),
        (returns({"approved": True}), "returned {'approved': True} instead of"),
        (returns(ApprovalDecision), "instead of an ApprovalDecision"),
        (takes_nothing, "raised TypeError"),
        (returns(None), "returned None instead of an ApprovalDecision"),
    ],
)
async def test_a_callback_that_fails_or_returns_something_else_denies_with_its_own_reason(
    callback: Any,
    reason: str,
) -> None:
    with anyio.fail_after(10):
        outcome = await controller_with(callback).settle(call())
    assert isinstance(outcome, Denied)
    assert outcome.cause == "withdrawn"
    assert reason in outcome.reason


@pytest.mark.proves("H5")
async def test_a_callback_that_raises_cancelled_error_does_not_leave_its_caller_waiting() -> None:
    async def cancels(request: ApprovalRequest) -> ApprovalDecision:
        raise asyncio.CancelledError

    with anyio.fail_after(10):
        outcome = await controller_with(cancels).settle(call())
    assert isinstance(outcome, Denied)
    assert "was cancelled by itself" in outcome.reason


@pytest.mark.proves("H5")
def test_a_callback_that_makes_a_guarded_call_itself_is_refused_and_does_not_wait_for_itself() -> None:
    @requires_approval
    def look_up(name: str) -> str:
        raise NotImplementedError

    def ask(request: ApprovalRequest) -> ApprovalDecision:
        return ApprovalDecision(approved=look_up("ann") == "ann")

    controller = ApprovalController(approval_callback=ask)
    with controller.activated(), pytest.raises(ApprovalCancelled, match=r"look_up.*itself made a call"):
        look_up("bob")


@pytest.mark.proves("H5")
async def test_an_answer_that_could_not_be_written_withdraws_the_question_once_the_store_works_again() -> None:
    class Flaky(MemoryStore):
        failures = 2

        async def close(self, *args: Any, **kwargs: Any) -> ApprovalRequest:
            if self.failures:
                self.failures -= 1
                raise StoreError("the disk is full")
            return await super().close(*args, **kwargs)

    with anyio.fail_after(10):
        outcome = await controller_with(yes_async, store=Flaky()).settle(call())
    assert isinstance(outcome, Denied)
    assert (outcome.cause, "the disk is full" in outcome.reason) == ("withdrawn", True)


@pytest.mark.proves("H7", "R71")
async def test_a_synchronous_callback_never_stalls_the_loop() -> None:
    asked, answer = threading.Event(), threading.Event()

    def think(request: ApprovalRequest) -> ApprovalDecision:
        asked.set()
        assert answer.wait(10)
        return YES

    controller = controller_with(think)
    waiting = asyncio.ensure_future(controller.settle(call()))
    while not asked.is_set():
        await anyio.lowlevel.checkpoint()  # the loop turns while the person thinks
    assert not waiting.done()
    answer.set()
    assert isinstance(await waiting, Approved)


@pytest.mark.proves("H7")
async def test_synchronous_prompts_come_one_at_a_time_while_all_requests_are_open() -> None:
    inside, most, asked = 0, 0, threading.Semaphore(0)
    go_on = threading.Event()

    def prompt(request: ApprovalRequest) -> ApprovalDecision:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        asked.release()
        assert go_on.wait(10)
        inside -= 1
        return ApprovalDecision(approved=True, note=str(request.args["number"]))

    controller = controller_with(prompt)
    waiting = [asyncio.ensure_future(controller.settle(call(number))) for number in range(5)]
    while len(await controller.pending()) < 5:
        await anyio.lowlevel.checkpoint()
    assert await asyncio.to_thread(asked.acquire, timeout=10)
    go_on.set()
    outcomes = await asyncio.gather(*waiting)
    notes = [outcome.decision.note for outcome in outcomes if isinstance(outcome, Approved) and outcome.decision]
    assert (notes, most) == (["0", "1", "2", "3", "4"], 1)


@pytest.mark.proves("H7")
async def test_a_prompt_that_hangs_after_its_time_is_up_does_not_hold_up_the_next_question() -> None:
    clock, hang = FixedClock(), threading.Event()
    asked: list[int] = []

    def prompt(request: ApprovalRequest) -> ApprovalDecision:
        asked.append(request.args["number"])
        if request.args["number"] == 0:
            hang.wait(30)
        return YES

    controller = controller_with(prompt, timeout=5, clock=clock)
    first = asyncio.ensure_future(controller.settle(call(0)))
    while asked != [0]:
        await anyio.lowlevel.checkpoint()
    clock.advance(3)
    second = asyncio.ensure_future(controller.settle(call(1)))
    while len(await controller.pending()) < 2:
        await anyio.lowlevel.checkpoint()
    clock.advance(2)
    with anyio.fail_after(10):
        expired, approved = await asyncio.gather(first, second)
    hang.set()
    assert isinstance(expired, Denied)
    assert expired.cause == "expired"
    assert isinstance(approved, Approved)


async def test_a_synchronous_callback_sees_the_context_of_who_asks() -> None:
    user = contextvars.ContextVar("user", default="nobody")
    seen: list[str] = []

    def look(request: ApprovalRequest) -> ApprovalDecision:
        seen.append(user.get())
        return YES

    user.set("ann")
    await controller_with(look).settle(call())
    assert seen == ["ann"]
