"""The capability: every tool of an agent, inline and deferred, through one edge."""

import asyncio
import contextlib
from pathlib import Path
from typing import Any, cast

import anyio
import anyio.lowlevel
import pytest
from anyio import fail_after
from pydantic import BaseModel
from pydantic_ai import Agent, ApprovalRequired, RunContext
from pydantic_ai.messages import FunctionToolCallEvent, FunctionToolResultEvent
from pydantic_ai.models.test import TestModel
from pydantic_ai.tools import DeferredToolRequests
from pydantic_ai.toolsets import FunctionToolset
from tests.adapters.pydantic_ai.scripted import Call, Inbox, Scripted, Till, returns
from tests.people import YES, Person

from sayso import (
    ApprovalBlocked,
    ApprovalController,
    ApprovalDecision,
    ApprovalDenied,
    ApprovalMemory,
    ApprovalPresentation,
    ApprovalRequest,
    Policy,
    ToolCall,
)
from sayso.adapters.pydantic_ai import Approvals
from sayso.errors import ConfigurationError

POLICY = Policy({"pay": "required", "drop": "blocked"}, default="none")
PAY_5: Call = ("pay", {"amount": 5})
PAY_6: Call = ("pay", {"amount": 6})
LOOK: Call = ("look", {"name": "x"})


def agent_of(till: Till, script: Scripted, *capabilities: Any, **settings: Any) -> Agent[None, Any]:
    return Agent(script.model, tools=till.tools, capabilities=capabilities, **settings)


@pytest.mark.proves("R16", "H17")
async def test_the_run_waits_for_the_answer_and_goes_on_with_it(till: Till) -> None:
    person = Person(YES)
    script = Scripted([LOOK, PAY_5], [PAY_6])
    result = await agent_of(till, script, Approvals(POLICY, approval_callback=person)).run("go")
    assert result.output == "done"
    assert sorted(till.ran[:2]) == [("look", "x"), ("pay", 5)]  # of one response, so in any order
    assert till.ran[2:] == [("pay", 6)]
    assert [(each.tool_name, dict(each.args)) for each in person.asked] == [PAY_5, PAY_6]
    assert script.offered[0] == ["pay", "look"], "what is blocked outright is hidden from the model"


@pytest.mark.proves("H5")
async def test_a_tool_that_a_misspelt_rule_does_not_name_is_asked_about(till: Till) -> None:
    approvals = Approvals(Policy({"payy": "none", "look": "none"}), mode="auto_deny")
    await agent_of(till, Scripted([LOOK, PAY_5]), approvals).run("go")
    assert till.ran == [("look", "x")]


async def test_a_rule_that_misspells_a_tool_of_the_agent_is_logged_once(
    till: Till, caplog: pytest.LogCaptureFixture
) -> None:
    approvals = Approvals(Policy({"payy": "required", "elsewhere": "none"}, default="none"), mode="auto_deny")
    for _ in range(2):
        await agent_of(till, Scripted([LOOK], [PAY_5]), approvals).run("go")
    assert [(record.name, record.levelname, record.getMessage()) for record in caplog.records] == [
        ("sayso", "WARNING", "the rule policy tools.payy names no tool of this agent; did you mean 'pay'?")
    ]


async def test_agents_that_share_a_policy_are_not_warned_of_each_other_s_rules(
    till: Till, caplog: pytest.LogCaptureFixture
) -> None:
    inner = Agent(Scripted([PAY_5]).model, tools=[till.pay], capabilities=[Approvals()])
    approvals = Approvals(Policy({"pay": "none", "ask_inner": "none"}), mode="auto_deny")
    outer = Agent(Scripted([("ask_inner", {})]).model, capabilities=[approvals])

    @outer.tool_plain
    async def ask_inner() -> str:
        return (await inner.run("go")).output

    await outer.run("go")
    assert till.ran == [("pay", 5)]
    assert not caplog.records


@pytest.mark.proves("H12")
async def test_a_refusal_is_told_to_the_model_with_its_note_and_the_other_calls_go_on(till: Till) -> None:
    person = Person(ApprovalDecision(approved=False, note="too much"), YES)
    result = await agent_of(till, Scripted([PAY_5, PAY_6]), Approvals(POLICY, approval_callback=person)).run("go")
    told = returns(result.all_messages())
    refused = next(part for part in told.values() if part.outcome == "denied")
    assert "Not executed: refused by" in str(refused.content)
    assert "do not retry this call unchanged" in str(refused.content)
    assert "too much" in str(refused.content)
    assert len(till.ran) == 1


@pytest.mark.proves("R57", "H12")
@pytest.mark.parametrize(
    ("answer", "policy", "error"),
    [
        (ApprovalDecision(approved=False, note="no"), POLICY, ApprovalDenied),
        (
            YES,
            Policy({"pay": {"approval": "blocked", "when": {"args.amount": {"gt": 1}}}}, default="none"),
            ApprovalBlocked,
        ),
    ],
)
async def test_a_refusal_ends_the_run_where_that_is_wanted(
    till: Till, answer: ApprovalDecision, policy: Policy, error: type[Exception]
) -> None:
    approvals = Approvals(policy, approval_callback=Person(answer), on_denied="raise")
    with pytest.raises(error):
        await agent_of(till, Scripted([PAY_5]), approvals).run("go")
    assert till.ran == []


async def test_a_block_that_depends_on_the_arguments_is_told_without_asking(till: Till) -> None:
    person = Person(YES)
    policy = Policy({"pay": {"approval": "blocked", "when": {"args.amount": {"gt": 5}}}}, default="none")
    script = Scripted([PAY_5, PAY_6])
    result = await agent_of(till, script, Approvals(policy, approval_callback=person)).run("go")
    assert till.ran == [("pay", 5)]
    assert sorted(part.outcome for part in returns(result.all_messages()).values()) == ["denied", "success"]
    assert person.asked == []


@pytest.mark.proves("R16")
async def test_all_calls_of_one_response_are_asked_about_before_any_is_answered(till: Till) -> None:
    inbox = Inbox()
    controller = ApprovalController(policy=POLICY, channels=[inbox])
    run = asyncio.create_task(agent_of(till, Scripted([PAY_5, LOOK, PAY_6]), Approvals(controller)).run("go"))
    for request in await inbox.until(2):
        assert ("pay", request.args["amount"]) not in till.ran
        await controller.answer(request.id, YES)
    with fail_after(10):
        await run
    assert sorted(till.ran) == [("look", "x"), ("pay", 5), ("pay", 6)]


@pytest.mark.proves("R2", "H4")
async def test_edited_arguments_are_what_runs_and_unfit_ones_run_nothing(till: Till) -> None:
    person = Person(
        ApprovalDecision(approved=True, override_args={"amount": 1}),
        ApprovalDecision(approved=True, override_args={"amount": "a lot"}),
    )
    result = await agent_of(till, Scripted([PAY_5], [PAY_6]), Approvals(POLICY, approval_callback=person)).run("go")
    assert till.ran == [("pay", 1)]
    assert "do not fit the tool" in str(list(returns(result.all_messages()).values())[-1].content)


@pytest.mark.proves("R10")
async def test_what_is_remembered_is_not_asked_again_in_the_next_run(till: Till) -> None:
    person = Person(ApprovalDecision(approved=True, remember="session"))
    agent = agent_of(till, Scripted([PAY_5]), Approvals(POLICY, approval_callback=person, memory=ApprovalMemory()))
    await agent.run("go")
    await agent.run("go")
    assert till.ran == [("pay", 5), ("pay", 5)]
    assert len(person.asked) == 1


async def test_two_runs_that_make_up_the_same_call_ids_are_two(till: Till) -> None:
    person = Person(YES)
    approvals = Approvals(POLICY, approval_callback=person)
    agent = agent_of(till, Scripted([PAY_5], reuse_ids=True), approvals)
    result = await agent.run("go")
    await agent.run("again", message_history=result.all_messages())
    assert till.ran == [("pay", 5), ("pay", 5)]
    testing = Agent(TestModel(call_tools=["pay"]), tools=till.tools, capabilities=[approvals])
    for _ in range(2):
        await testing.run("go")
    assert len(till.ran) == len(person.asked) == 4


@pytest.mark.proves("R14")
async def test_what_a_tool_says_by_itself_reaches_the_person_unchanged(till: Till) -> None:
    said = {"summary": "Pay 5", "presentation": {"diff": "-0\n+5", "language": "money"}}

    def pay(ctx: RunContext[None], amount: int) -> str:
        if not ctx.tool_call_approved:
            raise ApprovalRequired(metadata=said)
        return till.pay(amount)

    person = Person(YES)
    agent = Agent(
        Scripted([PAY_5]).model, tools=[pay], capabilities=[Approvals(Policy(default="none"), approval_callback=person)]
    )
    await agent.run("go")
    (request,) = person.asked
    assert request.metadata == said
    assert request.summary == "Pay 5"
    assert request.presentation == ApprovalPresentation(diff="-0\n+5", language="money")
    assert till.ran == [("pay", 5)]


@pytest.mark.proves("R43")
async def test_the_owner_may_let_run_what_a_tool_would_ask_about(till: Till) -> None:
    def pay(ctx: RunContext[None], amount: int) -> str:
        if not ctx.tool_call_approved:
            raise ApprovalRequired
        return till.pay(amount)

    toolset: FunctionToolset[Any] = FunctionToolset([pay])
    toolset.add_function(till.look, requires_approval=True)
    approvals = Approvals(Policy({"*": "none"}, default="none"), mode="auto_deny")
    await Agent(Scripted([PAY_5, LOOK]).model, toolsets=[toolset], capabilities=[approvals]).run("go")
    assert sorted(till.ran) == [("look", "x"), ("pay", 5)]


class Order(BaseModel):
    item: str
    count: int = 1


async def test_arguments_are_shown_as_plain_data_and_the_tool_gets_its_own_types() -> None:
    got: list[Any] = []

    def order(orders: list[Order], note: str = "") -> str:
        got.append(orders)
        return note

    person = Person(YES, ApprovalDecision(approved=True, override_args={"orders": [{"item": "pen"}]}))
    script = Scripted([("order", {"orders": [{"item": "ink", "count": 2}]})], [("order", {"orders": []})])
    policy = Policy({"order": "required"}, default="none")
    await Agent(script.model, tools=[order], capabilities=[Approvals(policy, approval_callback=person)]).run("go")
    assert person.asked[0].args["orders"] == [{"item": "ink", "count": 2}]
    assert got == [[Order(item="ink", count=2)], [Order(item="pen")]]


@pytest.mark.proves("H6")
async def test_a_run_that_is_cancelled_withdraws_what_it_asked(till: Till) -> None:
    inbox = Inbox()
    controller = ApprovalController(policy=POLICY, channels=[inbox])
    run = asyncio.create_task(agent_of(till, Scripted([PAY_5, PAY_6]), Approvals(controller)).run("go"))
    await inbox.until(2)
    run.cancel()
    with fail_after(10), pytest.raises(asyncio.CancelledError):
        await run
    assert await controller.pending() == []
    assert till.ran == []


@pytest.mark.proves("H6")
async def test_a_run_that_breaks_off_withdraws_what_it_asked(till: Till) -> None:
    def fail(reason: str) -> str:
        raise RuntimeError(reason)

    controller = ApprovalController(policy=POLICY, mode="defer")
    script = Scripted([PAY_5, ("fail", {"reason": "broken"})])
    agent = Agent(
        script.model,
        tools=[till.pay, fail],
        capabilities=[Approvals(controller)],
        output_type=[str, DeferredToolRequests],
    )
    with pytest.raises(RuntimeError, match="broken"):
        await agent.run("go")
    assert await controller.pending() == []


@pytest.mark.proves("H5")
async def test_nobody_answering_in_time_runs_nothing(till: Till) -> None:
    approvals = Approvals(POLICY, channels=[Inbox()], timeout=0.05)
    result = await agent_of(till, Scripted([PAY_5]), approvals).run("go")
    assert "nobody answered in time" in str(next(iter(returns(result.all_messages()).values())).content)
    assert till.ran == []


async def test_events_of_a_stream_come_in_order_and_nothing_runs_before_its_answer(till: Till) -> None:
    inbox = Inbox()
    controller = ApprovalController(policy=POLICY, channels=[inbox])
    agent = Agent(TestModel(call_tools=["pay"]), tools=till.tools, capabilities=[Approvals(controller)])
    seen: list[str] = []

    async def listen() -> None:
        stream: Any = agent.run_stream_events("go")
        async with contextlib.AsyncExitStack() as stack:
            if isinstance(stream, contextlib.AbstractAsyncContextManager):  # since PydanticAI 2
                stream = await stack.enter_async_context(cast("Any", stream))
            async for event in stream:
                note(event)

    def note(event: object) -> None:
        if isinstance(event, FunctionToolCallEvent | FunctionToolResultEvent) or "Deferred" in type(event).__name__:
            seen.append(type(event).__name__)

    listening = asyncio.create_task(listen())
    (request,) = await inbox.until(1)
    assert till.ran == []
    await controller.answer(request.id, YES)
    with fail_after(10):
        await listening
    assert len(till.ran) == 1
    assert [name for name in seen if name.startswith("Function")] == [
        "FunctionToolCallEvent",
        "FunctionToolResultEvent",
    ]
    assert seen[0] == "FunctionToolCallEvent"
    assert seen[-1] == "FunctionToolResultEvent"


@pytest.mark.proves("H2")
async def test_a_deferred_run_takes_refusals_edits_and_external_calls(till: Till) -> None:
    controller = ApprovalController(policy=POLICY, mode="defer")
    script = Scripted([PAY_5, PAY_6, LOOK])
    agent = agent_of(till, script, Approvals(controller), output_type=[str, DeferredToolRequests])
    stopped = await agent.run("go")
    assert isinstance(stopped.output, DeferredToolRequests)
    assert till.ran == [("look", "x")]
    first, second = await controller.pending()
    await controller.answer(first.id, ApprovalDecision(approved=True, override_args={"amount": 1}))
    await controller.answer(second.id, ApprovalDecision(approved=False, note="no"))
    results = stopped.output.build_results(approve_all=True)
    result = await agent.run(message_history=stopped.all_messages(), deferred_tool_results=results)
    assert result.output == "done"
    assert till.ran[1:] == [("pay", 1)]
    assert returns(result.all_messages())[second.tool_call_id].outcome == "denied"


@pytest.mark.parametrize(
    ("arguments", "settings", "problem"),
    [
        (("sayso.yaml",), {}, r"^'sayso.yaml' is not a Policy; pass load_policy\('sayso.yaml'\)$"),
        (("sayso.yaml",), {"mode": "auto_deny"}, r"pass load_policy\('sayso.yaml'\)$"),
        ((Path("sayso.yaml"),), {}, r"pass load_policy\('sayso.yaml'\)$"),
        (({"pay": "required"},), {}, r"^a mapping is not a Policy; pass Policy\({…}\)$"),
        ((5,), {}, "5 is not a Policy; pass a Policy"),
        ((Policy(default="none"),), {"on_denied": "return"}, "use 'model' or 'raise'"),
        ((ApprovalController(mode="defer"),), {"memory": ApprovalMemory()}, "the controller has its own memory"),
        ((Policy(default="none"),), {"mode": "interactive"}, "nobody to ask"),
    ],
)
def test_settings_that_make_no_sense_are_refused_at_once(
    arguments: tuple[Any, ...], settings: dict[str, Any], problem: str
) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        Approvals(*arguments, **settings)


async def test_without_anybody_to_ask_nothing_runs(till: Till) -> None:
    with pytest.raises(ConfigurationError, match="there is nobody to ask"):
        await agent_of(till, Scripted([LOOK]), Approvals()).run("go")
    assert till.ran == []


class Crowd:
    """Refuses every fourth payment, raises every fourth, approves the others; some sooner, some later."""

    def __init__(self) -> None:
        self.begun = anyio.Event()

    async def announce(self, request: ApprovalRequest) -> ApprovalDecision:
        self.begun.set()
        amount = request.args["amount"]
        for _ in range(amount % 7):
            await anyio.lowlevel.checkpoint()
        if amount % 4 == 1:
            return ApprovalDecision(approved=True, override_args={**request.args, "amount": amount + 100})
        return ApprovalDecision(approved=amount % 4 != 0)


@pytest.mark.proves("H8")
async def test_a_hundred_runs_at_once_get_their_own_answers() -> None:
    """Ten calls each; every tenth run is cancelled while it waits."""
    ran: list[tuple[int, int]] = []

    def pay(run: int, amount: int) -> str:
        ran.append((run, amount))
        return "paid"

    crowd = Crowd()
    controller = ApprovalController(policy=Policy({"pay": "required"}, default="none"), channels=[crowd])
    before = asyncio.all_tasks()

    async def one(number: int) -> None:
        calls: list[Call] = [("pay", {"run": number, "amount": amount}) for amount in range(10)]
        agent = Agent(Scripted(calls, reuse_ids=True).model, tools=[pay], capabilities=[Approvals(controller)])
        run = asyncio.create_task(agent.run("go"))
        if number % 10 == 0:
            await crowd.begun.wait()
            run.cancel()
            with contextlib.suppress(asyncio.CancelledError, anyio.ClosedResourceError):  # the latter by PydanticAI 1
                await run
        else:
            assert (await run).output == "done"

    with fail_after(60):
        async with asyncio.TaskGroup() as group:
            for number in range(100):
                group.create_task(one(number))
    expected = {amount + 100 if amount % 4 == 1 else amount for amount in range(10) if amount % 4}
    for number in range(1, 100):
        if number % 10:
            assert {amount for run, amount in ran if run == number} == expected
    assert len(ran) == len(set(ran))
    assert await controller.pending() == []
    assert asyncio.all_tasks() - before == set()


def asks(_: ToolCall) -> bool:
    return True


@pytest.mark.parametrize("policy", [Policy({"pay": "required"}), Policy({"pay": {"needs_approval": asks}})])
async def test_a_run_that_can_neither_wait_nor_stop_says_what_to_do_and_leaves_no_question(policy: Policy) -> None:
    till, approvals = Till(), Approvals(policy)
    with pytest.raises(
        ConfigurationError, match=r"`Approvals`, run the agent by `run_with_approval`, or .* output_type="
    ):
        await agent_of(till, Scripted([PAY_5]), approvals).run("go")
    assert till.ran == []
    assert [each.status for each in await approvals.controller.store.recent()] == ["withdrawn"]
