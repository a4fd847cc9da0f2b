"""Agents inside agents, workflows, tools that come and go, streams that are left, and what a person reads."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import anyio
import pytest
from agent_framework import (
    Agent,
    Executor,
    FunctionInvocationContext,
    InMemoryCheckpointStorage,
    MiddlewareFailure,
    RawAgent,
    WorkflowBuilder,
    WorkflowContext,
    WorkflowExecutor,
    handler,
    tool,
)
from tests.adapters.agent_framework.driver import ScriptedClient, agent_of
from tests.adapters.agent_framework.people import PAY, answer, person, told
from tests.adapters.conformance import Call, Response
from tests.adapters.conformance.toolbox import NO, YES, Desk, Toolbox

from sayso import ApprovalController, Policy
from sayso.adapters.agent_framework import Approvals, resume
from sayso.core.model import AuditEntry
from sayso.errors import ApprovalDenied, ConfigurationError

ASK_HELPER: list[Response] = [[Call("helper", {"task": "pay"}, "o1")], "outer done"]
UNASKED = Policy({"helper": "none"})


async def test_an_agent_inside_a_function_asks_the_controller_of_the_outer_one() -> None:
    tools, (controller, asked) = Toolbox(), person(policy=UNASKED)
    inner = agent_of(PAY, [tools.pay()], Approvals(), name="clerk")

    async def helper(task: str) -> str:
        return str((await inner.run(task)).text)

    await agent_of(ASK_HELPER, [helper], Approvals(controller), name="boss").run("go")
    assert (tools.amounts, [each.agent_path for each in asked]) == ([5], [("boss", "clerk")])


@pytest.mark.parametrize("as_tool", [True, False])
async def test_an_inner_agent_waits_in_place_though_the_controller_defers(*, as_tool: bool) -> None:
    tools, desk = Toolbox(), Desk()
    controller = ApprovalController(mode="defer", channels=[desk], policy=UNASKED)
    inner = agent_of(PAY, [tools.pay()], Approvals(), name="helper")

    async def helper(task: str) -> str:
        return str((await inner.run(task)).text)

    agent = agent_of(ASK_HELPER, [inner.as_tool() if as_tool else helper], Approvals(controller))
    with anyio.fail_after(20):
        run = asyncio.ensure_future(agent.run("go", session=agent.create_session()))
        (asked,) = await desk.wait_for(1)
        await controller.answer(asked, YES)
        response = await run
    assert (tools.amounts, response.text) == ([5], "outer done")


async def test_an_inner_agent_without_approvals_keeps_the_outer_one_from_running() -> None:
    tools, (controller, _) = Toolbox(), person(policy=Policy(default="none"))
    helper = agent_of(PAY, [tools.pay()], name="helper").as_tool()
    with pytest.raises(ConfigurationError, match="helper"):
        await agent_of(ASK_HELPER, [helper], Approvals(controller)).run("go")
    assert tools.ran == []


async def test_an_agent_that_runs_no_middleware_counts_as_one_without_approvals() -> None:
    tools, (controller, _) = Toolbox(), person(policy=Policy(default="none"))
    bare: Any = RawAgent(ScriptedClient(PAY), tools=[tools.pay()], middleware=[Approvals()], name="helper")
    with pytest.raises(ConfigurationError, match="helper"):
        await agent_of(ASK_HELPER, [bare.as_tool()], Approvals(controller)).run("go")
    assert tools.ran == []


async def test_an_inner_agent_without_approvals_that_a_tool_brings_is_not_called() -> None:
    tools, (controller, _) = Toolbox(), person(policy=Policy(default="none"))
    helper = agent_of(PAY, [tools.pay()], name="helper").as_tool()

    def load(ctx: FunctionInvocationContext) -> str:
        assert ctx.tools is not None
        ctx.tools.append(helper)
        return "loaded"

    responses: list[Response] = [[Call("load", {})], *ASK_HELPER]
    with pytest.raises(ConfigurationError, match="helper"):
        await agent_of(responses, [load], Approvals(controller)).run("go")
    assert tools.ran == []


async def test_an_inner_agent_that_has_lost_its_approvals_meanwhile_is_not_called() -> None:
    tools, controller = Toolbox(), ApprovalController(mode="defer")
    helper = agent_of(PAY, [tools.pay()], Approvals(), name="helper").as_tool()
    agent = agent_of(ASK_HELPER[:1], [helper], Approvals(controller))
    session = agent.create_session()
    await agent.run("go", session=session)
    await answer(controller, YES)
    bare = agent_of(PAY, [tools.pay()], name="helper").as_tool()
    with pytest.raises(MiddlewareFailure, match="helper") as raised:
        await resume(agent_of(["done"], [bare], Approvals(controller)), session, controller=controller)
    assert (tools.ran, type(raised.value.__cause__)) == ([], ConfigurationError)


def workflow_of(*agents: Agent[Any], **settings: Any) -> Any:
    """Return a workflow of agents, one after another."""
    builder = WorkflowBuilder(start_executor=agents[0], **settings)
    for left, right in pairwise(agents):
        builder.add_edge(left, right)
    return builder.build()


@pytest.mark.parametrize("within", [False, True])
async def test_a_workflow_with_an_agent_without_approvals_is_no_tool(*, within: bool) -> None:
    tools, (controller, _) = Toolbox(), person(policy=Policy(default="none"))
    workflow = workflow_of(
        agent_of(PAY, [tools.pay()], Approvals(), name="one"), agent_of(PAY, [tools.pay()], name="two")
    )
    if within:
        workflow = WorkflowBuilder(start_executor=WorkflowExecutor(workflow, id="inner")).build()
    helper = workflow.as_agent(name="helper").as_tool()
    with pytest.raises(ConfigurationError, match="helper"):
        await agent_of(ASK_HELPER, [helper], Approvals(controller)).run("go")
    assert tools.ran == []


async def test_a_workflow_of_agents_with_approvals_is_a_tool() -> None:
    tools, (controller, asked) = Toolbox(), person(policy=UNASKED)
    helper = workflow_of(agent_of(PAY, [tools.pay()], Approvals(), name="one")).as_agent(name="helper").as_tool()
    await agent_of(ASK_HELPER, [helper], Approvals(controller)).run("go")
    assert (tools.amounts, len(asked)) == ([5], 1)


async def test_the_agents_of_a_workflow_ask_one_after_another() -> None:
    tools, (controller, asked) = Toolbox(), person()
    agents = [agent_of(PAY, [tools.pay()], Approvals(controller), name=name) for name in ("one", "two")]
    await workflow_of(*agents).run("go")
    assert (tools.amounts, [each.agent_path for each in asked]) == ([5, 5], [("one",), ("two",)])


def yes_to(events: Sequence[Any]) -> dict[str, Any]:
    """Return an approval of everything that a workflow asks about, as its front end gives it."""
    return {each.request_id: each.data.to_function_approval_response(approved=True) for each in events}


async def test_a_workflow_stops_and_goes_on() -> None:
    tools, controller = Toolbox(), ApprovalController(mode="defer")
    workflow = workflow_of(agent_of(PAY, [tools.pay()], Approvals(controller), name="clerk"))
    events = (await workflow.run("go")).get_request_info_events()
    await workflow.run(responses=yes_to(events))  # too early: nobody has answered
    assert tools.ran == []
    await answer(controller, YES)
    await workflow.run(responses=yes_to(events))
    assert tools.amounts == [5]


async def test_a_checkpoint_of_a_workflow_that_is_resumed_twice_runs_the_call_once() -> None:
    tools, controller, storage = Toolbox(), ApprovalController(mode="defer"), InMemoryCheckpointStorage()

    def build(*responses: Response) -> Any:
        clerk = agent_of(responses, [tools.pay()], Approvals(controller), name="clerk")
        return workflow_of(clerk, checkpoint_storage=storage, name="payments")

    events = (await build(*PAY[:1]).run("go")).get_request_info_events()
    (*_, newest) = sorted(await storage.list_checkpoints(workflow_name="payments"), key=lambda each: each.timestamp)
    await answer(controller, YES)
    for _ in range(2):
        await build("done").run(checkpoint_id=newest.checkpoint_id, responses=yes_to(events))
    assert tools.amounts == [5]


async def test_a_refusal_in_a_workflow_reaches_the_model() -> None:
    tools, controller = Toolbox(), ApprovalController(mode="defer")
    clerk = agent_of(PAY, [tools.pay()], Approvals(controller), name="clerk")
    workflow = workflow_of(clerk)
    events = (await workflow.run("go")).get_request_info_events()
    await answer(controller, NO)
    (response,) = (await workflow.run(responses=yes_to(events))).get_outputs()
    assert (tools.ran, "too much" in told(response)) == ([], True)


async def test_a_tool_that_an_executor_calls_by_hand_is_its_own_affair() -> None:
    tools, (controller, asked) = Toolbox(), person(NO)
    pay = tool(tools.pay())
    await agent_of(PAY, [pay], Approvals(controller)).run("go")

    class Pays(Executor):
        @handler
        async def run(self, message: str, ctx: WorkflowContext[str]) -> None:
            await pay.invoke(arguments={"amount": len(message)})

    await WorkflowBuilder(start_executor=Pays(id="pays")).build().run("go")
    assert (tools.amounts, len(asked)) == ([2], 1)


async def test_a_tool_that_another_one_calls_by_hand_needs_a_rule() -> None:
    tools = Toolbox()
    pay = tool(tools.pay())

    async def helper(task: str) -> str:
        await pay.invoke(arguments={"amount": len(task)})
        return "paid"

    for policy, amounts in ((UNASKED, []), (Policy({"helper": "none", "pay": "none"}), [3])):
        controller, _ = person(NO, policy)
        await agent_of(ASK_HELPER, [helper, pay], Approvals(controller)).run("go")
        assert tools.amounts == amounts


@pytest.mark.filterwarnings("ignore:.*experimental")
async def test_a_tool_that_comes_during_the_run_is_asked_about() -> None:
    tools, (controller, asked) = Toolbox(), person(policy=Policy({"load": "none"}))
    pay = tool(tools.pay(), approval_mode="always_require")

    def load(ctx: FunctionInvocationContext) -> str:
        ctx.add_tools([pay])
        return "loaded"

    await agent_of([[Call("load", {}, "l1")], *PAY], [load], Approvals(controller)).run("go")
    assert (tools.amounts, len(asked)) == ([5], 1)


async def test_a_marked_tool_does_not_hold_up_the_others() -> None:
    tools, desk = Toolbox(), Desk()
    controller = ApprovalController(channels=[desk], policy=Policy(default="none"))
    calls: list[Response] = [[Call("pay", {"amount": 5}, "c1"), Call("look", {"what": "x"}, "c2")], "done"]
    marked = tool(tools.pay(), approval_mode="always_require")
    agent = agent_of(calls, [marked, tools.look()], Approvals(controller))
    with anyio.fail_after(20):
        run = asyncio.ensure_future(agent.run("go"))
        (asked,) = await desk.wait_for(1)
        await controller.answer(asked, NO)
        await run
    assert tools.names == ["look"]


async def test_a_stream_that_is_left_withdraws_its_question() -> None:
    tools, desk = Toolbox(), Desk()
    controller = ApprovalController(channels=[desk])
    agent = agent_of(PAY, [tools.pay()], Approvals(controller))

    async def read() -> None:
        async for _ in agent.run("go", stream=True):
            pass

    with anyio.fail_after(20):
        reading = asyncio.create_task(read())
        (asked,) = await desk.wait_for(1)
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        assert (await controller.wait(asked.id, timeout=10)).status == "withdrawn"
    assert tools.ran == []


async def test_a_refusal_that_ends_the_run_ends_the_other_calls_too() -> None:
    tools, began = Toolbox(), asyncio.Event()

    async def wait() -> str:
        began.set()
        await asyncio.Event().wait()
        return "never"

    async def refuse(_: object) -> Any:
        await began.wait()
        return NO

    controller = ApprovalController(approval_callback=refuse, policy=Policy({"wait": "none"}))
    calls: list[Response] = [[Call("pay", {"amount": 5}, "c1"), Call("wait", {}, "c2")], "done"]
    agent = agent_of(calls, [tools.pay(), wait], Approvals(controller, on_denied="raise"))
    with anyio.fail_after(20), pytest.raises(MiddlewareFailure, match="too much") as raised:
        await agent.run("go")
    assert (tools.ran, type(raised.value.__cause__)) == ([], ApprovalDenied)


async def test_a_person_reads_what_was_said_before_the_call() -> None:
    tools, (controller, asked) = Toolbox(), person(policy=Policy(conversation={"messages": 9}))
    agent = agent_of(
        [[Call("look", {"what": "debts"}, "l1")], *PAY], [tools.look(), tools.pay()], Approvals(controller)
    )
    await agent.run("pay my debts")
    said = [(each.role, each.text) for each in asked[-1].conversation]
    assert ("user", "pay my debts") in said
    assert any(role == "agent" and "look" in text for role, text in said)
    assert any(role == "tool" and "looked at debts" in text for role, text in said)


async def test_each_call_is_audited_once_with_what_came_of_it() -> None:
    steps: list[AuditEntry] = []
    controller = ApprovalController(approval_callback=lambda _: YES, hooks=[steps.append])
    await agent_of(PAY, [Toolbox().pay()], Approvals(controller)).run("go")
    await controller.flush()
    assert [each.step for each in steps] == ["asked", "approved", "claimed", "returned"]
