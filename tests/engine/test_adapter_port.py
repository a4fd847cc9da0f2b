"""The adapter port: the contract that adapters of frameworks are built on."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
import pytest
from msgspec.structs import replace

from sayso import ApprovalController, ApprovalDecision, ApprovalRequest, Policy, ToolCall, Verdict
from sayso.core.model import Approved, Denied, Pending
from sayso.engine import context
from sayso.errors import ApprovalPending
from sayso.policy.policy import ToolRules
from sayso.stores.memory import MemoryStore
from sayso.testing import FixedClock

YES = ApprovalDecision(approved=True)
NO = ApprovalDecision(approved=False)
RULES = Policy({"pay": "required", "read": "none", "wipe": "blocked"}, default="none")
PAY = ToolCall(tool="pay", args={"amount": 5}, call_id="c1", run="r1")
ASKS = ToolRules(judge=lambda _: Verdict(approval="required", reason="marked"))
LOST = replace(PAY, run="")  # as it comes back in a history from a browser


class Silent:
    """A channel that only tells somebody."""

    async def announce(self, request: ApprovalRequest) -> None:
        """Answer by another way, or never."""


@pytest.fixture
def controller() -> ApprovalController:
    return ApprovalController(mode="defer", policy=RULES, store=MemoryStore())


async def opened(controller: ApprovalController) -> str:
    assert controller.adapter.decide_fast(PAY) is None
    return await again(controller, PAY)


async def again(controller: ApprovalController, call: ToolCall) -> str:
    pending = await controller.adapter.review(call)
    assert isinstance(pending, Pending)
    return pending.request.id


def test_what_needs_nobody_is_decided_at_once_and_finally(controller: ApprovalController) -> None:
    assert isinstance(controller.adapter.decide_fast(ToolCall(tool="read")), Approved)
    assert isinstance(controller.adapter.decide_fast(ToolCall(tool="wipe")), Denied)


async def test_a_fast_look_that_leaves_a_call_open_has_asked_nobody(controller: ApprovalController) -> None:
    assert controller.adapter.decide_fast(PAY) is None
    assert await controller.pending() == []


@pytest.mark.parametrize("tool", ["read", "wipe"])
async def test_a_full_review_decides_as_the_fast_look_does(controller: ApprovalController, tool: str) -> None:
    call = ToolCall(tool=tool)
    assert await controller.adapter.review(call) == controller.adapter.decide_fast(call)


class Counting(Policy):
    """A policy that counts how often it is asked."""

    def __init__(self, tools: dict[str, str]) -> None:
        super().__init__(tools)
        self.by_name = self.in_full = 0

    def judge_by_name(self, call: ToolCall, tool_rules: ToolRules | None = None) -> Verdict | None:
        self.by_name += 1
        return super().judge_by_name(call, tool_rules)

    async def judge_async(self, call: ToolCall, tool_rules: ToolRules | None = None) -> Verdict:
        self.in_full += 1
        return await super().judge_async(call, tool_rules)


async def test_the_policy_is_asked_once_for_each_review_of_a_call() -> None:
    policy = Counting({"pay": "required"})
    controller = ApprovalController(mode="defer", policy=policy, store=MemoryStore())
    request_id = await opened(controller)
    assert (policy.by_name, policy.in_full) == (1, 1)
    await controller.answer(request_id, YES)
    assert isinstance(await controller.adapter.review(PAY, asked=True), Approved)
    assert (policy.by_name, policy.in_full) == (2, 1)  # its name is enough: nobody has to be shown anything now


async def test_an_approved_call_is_given_to_one_caller(controller: ApprovalController) -> None:
    await controller.answer(await opened(controller), YES)
    outcomes = [await controller.adapter.review(PAY, asked=True) for _ in range(3)]
    assert [type(each) for each in outcomes] == [Approved, Denied, Denied]


async def test_a_call_that_was_never_asked_about_is_forged(controller: ApprovalController) -> None:
    outcome = await controller.adapter.review(PAY, asked=True)
    assert isinstance(outcome, Denied)
    assert outcome.cause == "forged"
    assert await controller.pending() == []


async def test_settling_in_the_mode_defer_raises_with_the_request(controller: ApprovalController) -> None:
    with pytest.raises(ApprovalPending) as raised:
        await controller.adapter.settle(PAY)
    assert [raised.value.request] == await controller.pending()


async def test_a_wait_ends_with_the_answer(controller: ApprovalController) -> None:
    request_id = await opened(controller)
    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(controller.answer, request_id, NO)
            assert (await controller.adapter.wait_or_withdraw(request_id)).status == "denied"


async def test_a_cancelled_wait_withdraws_the_request(controller: ApprovalController) -> None:
    request_id = await opened(controller)
    with anyio.move_on_after(0):
        await controller.adapter.wait_or_withdraw(request_id)
    found = await controller.store.get(request_id)
    assert found is not None
    assert found.status == "withdrawn"


async def test_withdrawing_is_quiet_about_requests_that_are_closed_or_unknown(controller: ApprovalController) -> None:
    request_id = await opened(controller)
    await controller.answer(request_id, YES)
    await controller.adapter.withdraw_if_open(request_id)
    await controller.adapter.withdraw_if_open("nothing")
    assert isinstance(await controller.adapter.review(PAY, asked=True), Approved)


async def test_a_request_is_found_by_its_run_and_call_in_the_current_session(controller: ApprovalController) -> None:
    request_id = await opened(controller)
    await again(controller, replace(PAY, run="r2"))
    for run, number in (("r1", 1), ("", 2), ("r3", 0)):
        found = [each.id for each in await controller.adapter.find_requests(run, "c1")]
        assert len(found) == number
        assert (request_id in found) is bool(number)
        with context.resumed_session("another"):
            assert await controller.adapter.find_requests(run, "c1") == []


async def test_a_call_without_its_run_gets_the_run_of_the_one_request_that_fits(controller: ApprovalController) -> None:
    request_id = await opened(controller)
    await again(controller, replace(PAY, args={"amount": 6}, run="r2"))
    await again(controller, replace(PAY, call_id="c2", run="r4"))
    await again(controller, replace(PAY, session="another", run="r5"))
    restored = await controller.adapter.restore_run(LOST)
    assert isinstance(restored, ToolCall)
    assert restored.run == "r1"
    await controller.answer(request_id, YES)
    assert isinstance(await controller.adapter.review(restored, asked=True), Approved)


async def test_a_call_without_its_run_that_fits_two_open_approvals_is_refused(controller: ApprovalController) -> None:
    await opened(controller)
    await again(controller, replace(PAY, run="r2"))
    refused = await controller.adapter.restore_run(LOST)
    assert isinstance(refused, Denied)
    assert refused.cause == "forged"
    assert "the history has lost its run" in refused.message
    lines = await controller.store.audit()
    assert [json.loads(line)["step"] for _, line, _ in lines] == ["asked", "asked", "stopped"]


@pytest.mark.parametrize(
    "call",
    [replace(LOST, args={"amount": 6}), replace(LOST, tool="give"), replace(LOST, call_id="c9"),
     replace(LOST, schema_hash="another"), replace(LOST, session="another")],
)  # fmt: skip
async def test_a_call_without_its_run_that_was_changed_or_made_up_is_refused(
    controller: ApprovalController, call: ToolCall
) -> None:
    await controller.answer(await opened(controller), YES)
    restored = await controller.adapter.restore_run(call)
    outcome = restored if isinstance(restored, Denied) else await controller.adapter.review(restored, ASKS, asked=True)
    assert isinstance(outcome, Denied)
    assert outcome.cause == "forged"


async def test_a_call_without_its_run_whose_approval_is_used_or_denied_is_told_so(
    controller: ApprovalController,
) -> None:
    await controller.answer(await opened(controller), YES)
    assert isinstance(await controller.adapter.review(PAY, asked=True), Approved)
    used = await controller.adapter.restore_run(LOST)
    assert isinstance(used, ToolCall)
    replayed = await controller.adapter.review(used, asked=True)
    assert isinstance(replayed, Denied)
    assert replayed.cause == "replayed"
    await controller.answer(await again(controller, replace(PAY, run="r2")), NO)
    denied = await controller.adapter.restore_run(LOST)
    assert isinstance(denied, ToolCall)
    assert denied.run == "r2", "the newest says why"


async def test_a_suspended_call_resumes_only_if_its_approval_was_used(controller: ApprovalController) -> None:
    request_id = await opened(controller)
    assert isinstance(await controller.adapter.resume_suspended(PAY), Denied)
    await controller.answer(request_id, YES)
    assert isinstance(await controller.adapter.resume_suspended(PAY), Denied)
    assert isinstance(await controller.adapter.review(PAY, asked=True), Approved)
    assert isinstance(await controller.adapter.resume_suspended(PAY), Approved)


async def test_an_execution_is_audited_with_its_result(controller: ApprovalController) -> None:
    await controller.answer(request_id := await opened(controller), YES)
    outcome = await controller.adapter.review(PAY, asked=True)
    assert isinstance(outcome, Approved)
    with controller.adapter.execution(PAY, outcome) as running:
        running.result = "paid"
    await controller.flush()
    found = await controller.store.get(request_id)
    assert found is not None
    assert found.result is not None


async def test_a_timer_that_fires_before_its_time_refuses_nothing() -> None:
    class HastyClock(FixedClock):
        fired = 0

        @asynccontextmanager
        async def until(self, when: float) -> AsyncGenerator[None]:
            self.fired += 1
            if self.fired == 1:  # as if the clock had been set back since
                raise TimeoutError
            self.advance(when - self.now())
            async with super().until(when):
                yield

    controller = ApprovalController(
        policy=RULES, channels=[Silent()], timeout=60, store=MemoryStore(), clock=HastyClock()
    )
    outcome = await controller.adapter.settle(PAY)
    assert isinstance(outcome, Denied)
    assert outcome.cause == "expired"
    assert await controller.pending() == []


def test_whether_a_call_may_be_asked_about_does_not_depend_on_what_is_remembered() -> None:
    for mode, asks in (("interactive", True), ("defer", True), ("approve_all", False), ("auto_deny", False)):
        controller = ApprovalController(mode=mode, policy=RULES, approval_callback=lambda _: YES)
        found = [controller.adapter.may_ask(ToolCall(tool=tool)) for tool in ("pay", "read", "wipe")]
        assert found == [asks, False, False]


async def test_an_answer_that_is_heard_is_not_used(controller: ApprovalController) -> None:
    with pytest.raises(ApprovalPending) as pending:
        await controller.adapter.hear(PAY)
    await controller.answer(pending.value.request.id, YES)
    assert [await controller.adapter.hear(PAY) for _ in range(2)] == [None, None]
    assert isinstance(await controller.adapter.settle(PAY), Approved)
    assert isinstance(await controller.adapter.settle(PAY), Denied)


async def test_a_no_that_is_heard_is_a_no(controller: ApprovalController) -> None:
    await controller.answer(await opened(controller), NO)
    heard = await controller.adapter.hear(PAY)
    assert heard is not None
    assert heard.cause == "refused"


class Told:
    """A channel that says when it was told, and answers nothing."""

    def __init__(self) -> None:
        self.told = anyio.Event()

    async def announce(self, request: object) -> None:
        self.told.set()


@pytest.mark.parametrize(("keep", "status"), [(True, "open"), (False, "withdrawn")])
async def test_a_question_that_is_kept_outlives_a_cancelled_wait_and_the_next_controller_asks_again(
    keep: bool, status: str
) -> None:
    store, first, second = MemoryStore(), Told(), Told()
    controller = ApprovalController(policy=RULES, store=store, channels=[first], session="s")
    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: controller.adapter.settle(PAY, keep=keep))
            await first.told.wait()
            group.cancel_scope.cancel()
        (request,) = await controller.adapter.find_requests(PAY.run, PAY.call_id)
        assert request.status == status
        if keep:
            other = ApprovalController(policy=RULES, store=store, channels=[second], session="s")
            async with anyio.create_task_group() as group:
                group.start_soon(lambda: other.adapter.settle(PAY, keep=keep))
                await second.told.wait()
                await other.answer(request.id, YES)
            used = await store.get(request.id)
            assert used is not None
            assert used.status == "used"
