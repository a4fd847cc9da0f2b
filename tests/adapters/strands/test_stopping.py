"""Stop and go on: what front ends are shown, whose answers count, tools that interrupt, and calls that cannot stop."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import pytest
from strands import Agent, ToolContext, tool
from strands.vended_interventions.hitl import HumanInTheLoop
from tests.adapters.conformance import Call, Response
from tests.adapters.conformance.toolbox import NO, YES, Desk, Toolbox
from tests.adapters.strands.driver import AgentAsTool, agent_of, new_folder, session_in, yes_to_all
from tests.adapters.strands.people import PAY, told

from sayso import ApprovalController, ApprovalPending, Policy
from sayso.adapters.strands import Approvals, WebUser, resume, resume_sync
from sayso.core.model import AuditEntry
from sayso.engine import blocking
from sayso.errors import ConfigurationError

ANN = WebUser("ann")


def deferring(tools: Toolbox, **settings: Any) -> tuple[Agent, ApprovalController]:
    controller = ApprovalController(mode="defer")
    return agent_of(PAY, [tools.pay()], Approvals(controller, **settings)), controller


def test_an_interrupt_has_what_front_ends_show() -> None:
    agent, _ = deferring(Toolbox())
    result = agent("go")
    assert result.stop_reason == "interrupt"
    (asked,) = list(result.interrupts or [])
    assert asked.name.startswith("sayso:")
    assert (asked.reason["tool_name"], asked.reason["tool_use_id"]) == ("pay", "c1")
    assert asked.reason["tool_input"] == {"amount": 5, "to": "bob"}
    assert asked.reason["sayso_request"] in asked.name
    assert "Pay somebody." in asked.reason["description"]
    assert "pay" in asked.reason["prompt"]


ANSWERS = [True, "y", "yes", {"approved": True}, {"approved": True, "args": {"amount": 3}}]


@pytest.mark.parametrize("said", [*ANSWERS, {"sayso_request": "go on"}, "trust"])
def test_an_answer_in_a_front_end_counts_for_nothing_unless_the_host_says_whose_it_is(said: object) -> None:
    tools = Toolbox()
    agent, _ = deferring(tools)
    agent("go")
    for _ in range(2):
        assert agent(yes_to_all(agent, said)).stop_reason == "interrupt"
    assert tools.ran == []


@pytest.mark.parametrize(
    ("said", "amounts"),
    [
        (True, [5]),
        (" Yes ", [5]),
        ({"approved": True}, [5]),
        ({"approved": True, "args": {"amount": 3}}, [3]),
        (False, []),
        ("n", []),
        ({"approved": False, "note": "too much"}, []),
        ({"approved": False, "args": {"amount": 3}, "note": "too much"}, []),
    ],
)
def test_an_answer_of_a_person_whom_the_host_names_counts(said: object, amounts: list[int]) -> None:
    tools = Toolbox()
    agent, _ = deferring(tools, answered_by=lambda _: ANN)
    agent("go")
    result = agent(yes_to_all(agent, said))
    assert (tools.amounts, str(result).strip()) == (amounts, "done")
    assert ("too much" in told(agent)) == ("too much" in str(said))


@pytest.mark.parametrize(
    "said",
    [
        "trust",
        "yes please",
        1,
        ["y"],
        {},
        {"approved": "yes"},
        {"approved": True, "args": [3]},
        {"approved": True, "note": 3},
        {"sayso_request": "go on"},
    ],
)
def test_an_unclear_answer_asks_again(said: object) -> None:
    tools = Toolbox()
    agent, _ = deferring(tools, answered_by=lambda _: ANN)
    agent("go")
    assert agent(yes_to_all(agent, said)).stop_reason == "interrupt"
    assert tools.ran == []
    assert str(agent(yes_to_all(agent, "y"))).strip() == "done"


def test_the_host_finds_the_person_in_the_state_of_the_run() -> None:
    def signed_in(state: Mapping[str, Any]) -> WebUser | None:
        return WebUser(state["user"]) if state.get("user") else None

    tools = Toolbox()
    agent, _ = deferring(tools, answered_by=signed_in)
    agent("go")
    assert agent(yes_to_all(agent), invocation_state={"user": ""}).stop_reason == "interrupt"
    assert tools.ran == []
    agent(yes_to_all(agent), invocation_state={"user": "ann"})
    assert tools.amounts == [5]


def test_an_earlier_answer_of_somebody_else_is_not_taken_for_that_of_the_next_person() -> None:
    tools, controller = Toolbox(), ApprovalController(mode="defer")
    approvals = Approvals(controller, answered_by=lambda state: ANN if state.get("user") == "ann" else None)
    calls: list[Response] = [[Call("pay", {"amount": 1}, "c1"), Call("pay", {"amount": 2}, "c2")], "done"]
    agent = agent_of(calls, [tools.pay()], approvals)
    agent("go")
    result = agent(yes_to_all(agent), invocation_state={"user": "mallory"})
    (second,) = [each for each in list(result.interrupts or []) if each.reason["tool_use_id"] == "c2"]
    no: Any = [{"interruptResponse": {"interruptId": second.id, "response": "n"}}]
    result = agent(no, invocation_state={"user": "ann"})
    assert (tools.ran, result.stop_reason) == ([], "interrupt")
    (first,) = list(result.interrupts or [])
    yes: Any = [{"interruptResponse": {"interruptId": first.id, "response": "y"}}]
    agent(yes, invocation_state={"user": "ann"})
    assert tools.amounts == [1]


def test_resume_is_no_answer_though_the_host_names_somebody() -> None:
    tools = Toolbox()
    agent, controller = deferring(tools, answered_by=lambda _: ANN)
    agent("go")
    with pytest.raises(ApprovalPending):
        resume_sync(agent, controller=controller)
    assert tools.ran == []


def test_synchronous_callers_resume_too() -> None:
    tools = Toolbox()
    agent, controller = deferring(tools)
    result = agent("go")
    with pytest.raises(ApprovalPending):
        resume_sync(agent, controller=controller)

    async def answer() -> None:
        (request,) = await controller.pending()
        await controller.answer(request.id, YES)

    blocking.run(answer)
    assert str(resume_sync(agent, result.interrupts, controller=controller)).strip() == "done"
    assert tools.amounts == [5]


async def test_an_agent_that_waits_for_nothing_is_told_apart() -> None:
    agent, controller = deferring(Toolbox())
    with pytest.raises(ConfigurationError, match="not interrupted for a question"):
        await resume(agent, controller=controller)


@pytest.mark.parametrize("rule", ["name", "function"])
async def test_a_refusal_stands_in_the_agent_that_stopped_though_its_rule_changes_its_mind(rule: str) -> None:
    asks = [True]
    if rule == "name":
        verdicts = ({"pay": "required"}, {"pay": "none"})
        outer = [ApprovalController(mode="defer", policy=Policy(each)) for each in verdicts]
        outer[1] = ApprovalController(mode="defer", policy=Policy(verdicts[1]), store=outer[0].store)
    else:
        outer = [ApprovalController(mode="defer", policy=Policy(needs_approval=lambda _: asks[0]))] * 2
    tools = Toolbox()
    agent = agent_of(PAY, [tools.pay()], Approvals())
    with outer[0].activated():
        await agent.invoke_async("go")
    (request,) = await outer[0].pending()
    await outer[0].answer(request.id, NO)
    asks[0] = False
    with outer[1].activated():
        await resume(agent, controller=outer[1])
    assert tools.ran == []
    assert "too much" in told(agent)


async def test_strands_own_handler_asks_besides_and_neither_answer_stands_for_the_other() -> None:
    tools, controller = Toolbox(), ApprovalController(mode="defer")
    agent = agent_of(PAY, [tools.pay()], Approvals(controller), interventions=[HumanInTheLoop()])
    await agent.invoke_async("go")
    assert await controller.pending() == []
    assert (await agent.invoke_async(yes_to_all(agent))).stop_reason == "interrupt"
    (request,) = await controller.pending()
    assert tools.ran == []
    await controller.answer(request.id, YES)
    await resume(agent, controller=controller)
    assert tools.amounts == [5]


async def test_a_tool_that_interrupts_by_itself_gets_its_own_answer_and_runs_on_one_approval() -> None:
    said: list[object] = []

    @tool(context=True)
    def confirm(amount: int, tool_context: ToolContext[Any]) -> str:
        """Pay after a question of the tool's own."""
        said.append(tool_context.interrupt("really", reason="really?"))
        return f"paid {amount}"

    steps: list[AuditEntry] = []
    controller = ApprovalController(mode="defer", hooks=[steps.append])
    folder = new_folder()

    def agent(responses: Sequence[Response]) -> Agent:
        return agent_of(responses, [confirm], Approvals(controller), session_manager=session_in(folder))

    await agent([[Call("confirm", {"amount": 5})]]).invoke_async("go")
    (request,) = await controller.pending()
    await controller.answer(request.id, YES)
    own = await resume(agent(["done"]), controller=controller)
    assert ([each.reason for each in own.interrupts], said) == (["really?"], [])
    last = agent(["done"])
    result = await last.invoke_async(yes_to_all(last, "yes, really"))
    assert (said, str(result).strip()) == (["yes, really"], "done")
    await controller.flush()
    assert [each.step for each in steps].count("returned") == 1


async def test_a_direct_call_waits_in_place_though_the_controller_defers() -> None:
    for decision, amounts in ((YES, [5]), (NO, [])):
        tools, desk = Toolbox(), Desk()
        controller = ApprovalController(mode="defer", channels=[desk])
        agent = agent_of(PAY, [tools.pay()], Approvals(controller))
        run = asyncio.create_task(asyncio.to_thread(agent.tool.pay, amount=5))
        (asked,) = await desk.wait_for(1)
        await controller.answer(asked.id, decision)
        result: Any = await run
        assert tools.amounts == amounts
        assert ("too much" in result["content"][0]["text"]) == (not amounts)


def test_direct_calls_with_equal_arguments_are_two_calls() -> None:
    tools, asked = Toolbox(), list[object]()
    controller = ApprovalController(approval_callback=lambda each: asked.append(each) or YES)
    agent = agent_of(PAY, [tools.pay()], Approvals(controller))
    for _ in range(2):
        agent.tool.pay(amount=5)
    assert (tools.amounts, len(asked)) == ([5, 5], 2)


def test_a_direct_call_with_what_no_approval_can_be_bound_to_does_not_run() -> None:
    tools = Toolbox()
    agent = agent_of(PAY, [tools.pay()], Approvals(ApprovalController(approval_callback=lambda _: YES)))
    assert "no canonical form" in str(agent.tool.pay(amount=5, agent=agent))
    assert tools.ran == []


@pytest.mark.parametrize("outermost", ["function", "direct", "function round an agent's tool"])
async def test_an_agent_whose_stop_would_be_lost_waits_in_place(outermost: str) -> None:
    tools, desk = Toolbox(), Desk()
    controller = ApprovalController(mode="defer", channels=[desk], policy=Policy({"*helper": "none"}))
    inner: Any = agent_of(PAY, [tools.pay()], Approvals(), name="inner")
    if outermost.endswith("tool"):
        middle = [[Call("inner_helper", {"prompt": "pay"})], "done"]
        inner = agent_of(middle, [AgentAsTool(inner, "inner_helper")], Approvals(), name="middle")

    async def helper(prompt: str) -> str:
        """Ask the helper."""
        return str(await inner.invoke_async(prompt))

    given = AgentAsTool(inner, "helper") if outermost == "direct" else helper
    agent = agent_of([[Call("helper", {"prompt": "pay"})], "done"], [given], Approvals(controller), name="outer")
    start = partial(asyncio.to_thread, agent.tool.helper, prompt="pay")
    run = asyncio.ensure_future(start() if outermost == "direct" else agent.invoke_async("go"))
    (asked,) = await desk.wait_for(1)
    assert (asked.agent_path[0], asked.agent_path[-1]) == ("outer", "inner")
    await controller.answer(asked.id, YES)
    assert "done" in str(await run)
    assert tools.amounts == [5]


async def test_an_agent_that_keeps_its_context_stops_with_its_session_manager() -> None:
    tools, outer, inner = Toolbox(), new_folder(), new_folder()

    def build(controller: ApprovalController, responses: Sequence[Response], within: Sequence[Response]) -> Agent:
        helper = agent_of(within, [tools.pay()], Approvals(), session_manager=session_in(inner), agent_id="helper")
        as_tool = helper.as_tool(name="helper", preserve_context=True)
        return agent_of(responses, [as_tool], Approvals(controller), session_manager=session_in(outer))

    controller = ApprovalController(mode="defer", policy=Policy({"helper": "none"}))
    call = Call("helper", {"input": "pay"})
    await build(controller, [[call]], PAY[:1]).invoke_async("go")
    (request,) = await controller.pending()
    await controller.answer(request.id, YES)
    result = await resume(build(controller, ["done"], PAY[1:]), controller=controller)
    assert (tools.amounts, str(result).strip()) == ([5], "done")


async def test_agents_two_levels_down_stop_and_go_on() -> None:
    tools, folder, controller = Toolbox(), new_folder(), ApprovalController(mode="defer", policy=Policy({"a*": "none"}))

    def build(responses: Sequence[Response], middle: Sequence[Response], lowest: Sequence[Response]) -> Agent:
        below = AgentAsTool(agent_of(lowest, [tools.pay()], Approvals(), name="below"), "a_below")
        between = AgentAsTool(agent_of(middle, [below], Approvals(), name="between"), "a_between")
        return agent_of(responses, [between], Approvals(controller), session_manager=session_in(folder))

    stopped = build([[Call("a_between", {"prompt": "x"}, "o")]], [[Call("a_below", {"prompt": "y"}, "m")]], PAY[:1])
    await stopped.invoke_async("go")
    (request,) = await controller.pending()
    assert request.agent_path == ("Strands Agents", "between", "below")
    await controller.answer(request.id, YES)
    result = await resume(build(["done"], ["between done"], PAY[1:]), controller=controller)
    assert (tools.amounts, str(result).strip()) == ([5], "done")


async def test_an_agent_that_is_cancelled_while_somebody_is_asked_does_not_run_the_call() -> None:
    tools, desk = Toolbox(), Desk()
    controller = ApprovalController(channels=[desk])
    agent = agent_of(PAY, [tools.pay()], Approvals(controller))
    run = asyncio.create_task(agent.invoke_async("go"))
    (asked,) = await desk.wait_for(1)
    agent.cancel()
    await controller.answer(asked.id, YES)
    result = await run
    assert (tools.ran, result.stop_reason) == ([], "cancelled")
