"""What is special in Strands: graphs and swarms, structured output, provider tools, background tasks, executors."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import weakref
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from pydantic import BaseModel
from strands import Agent
from strands.agent import AgentBase
from strands.multiagent import GraphBuilder, Swarm
from strands.tools.executors import ConcurrentToolExecutor, SequentialToolExecutor
from tests.adapters.conformance import Call, Response
from tests.adapters.conformance.toolbox import NO, YES, Desk, Toolbox
from tests.adapters.strands.driver import AgentAsTool, ScriptedModel, agent_of, new_folder, session_in
from tests.adapters.strands.people import PAY, person

from sayso import ApprovalController, ApprovalDecision, Policy
from sayso.adapters.strands import Approvals, resume
from sayso.core.model import ApprovalRequest, AuditEntry
from sayso.engine import context
from sayso.errors import ConfigurationError


def graph_of(tools: Toolbox, *plugins: Any, responses: Sequence[Response] = PAY, **settings: Any) -> Any:
    """Return a graph of two agents, of which the second one pays."""
    builder = GraphBuilder()
    builder.add_node(agent_of(["hello"], [], name="first"), "first")
    builder.add_node(agent_of(responses, [tools.pay()], name="second"), "second")
    builder.add_edge("first", "second")
    if "session" in settings:
        builder.set_session_manager(session_in(settings["session"]))
    return built(builder, *plugins)


def built(builder: GraphBuilder, *plugins: Any) -> Any:
    """Return the graph with these plugins."""
    builder.set_plugins(list(plugins))
    return builder.set_max_node_executions(9).build()


def test_a_graph_without_approvals_runs_what_its_agents_call() -> None:
    tools = Toolbox()
    graph_of(tools)("go")
    assert tools.amounts == [5]


@pytest.mark.parametrize(("decision", "amounts"), [(YES, [5]), (NO, [])])
def test_a_graph_with_approvals_asks_about_the_calls_of_all_its_agents(
    decision: ApprovalDecision, amounts: list[int]
) -> None:
    tools, (controller, asked) = Toolbox(), person(decision)
    graph_of(tools, Approvals(controller))("go")
    assert (tools.amounts, [each.agent_path for each in asked]) == (amounts, [("second",)])


async def test_a_graph_stops_for_the_answer_and_goes_on() -> None:
    for decision, amounts in ((YES, [5]), (NO, [])):
        tools, controller = Toolbox(), ApprovalController(mode="defer")
        graph = graph_of(tools, Approvals(controller))
        stopped = await graph.invoke_async("go")
        (request,) = await controller.pending()
        assert tools.ran == []
        await controller.answer(request.id, decision)
        result = await resume(graph, stopped.interrupts, controller=controller)
        assert (tools.amounts, result.status.value) == (amounts, "completed")


def swarm_of(tools: Toolbox, *plugins: Any) -> Swarm:
    """Return a swarm whose first agent hands over to the second one, which pays."""
    handoff = [Call("handoff_to_agent", {"agent_name": "second", "message": "pay"}, "h1")]
    first = agent_of([handoff, "handed over"], [], name="first")
    second = agent_of(PAY, [tools.pay()], name="second")
    return Swarm([first, second], plugins=list(plugins))


def test_a_swarm_without_approvals_runs_what_its_agents_call() -> None:
    tools = Toolbox()
    swarm_of(tools)("go")
    assert tools.amounts == [5]


@pytest.mark.parametrize(
    ("decision", "rules", "amounts", "names"),
    [
        (YES, {}, [5], ["handoff_to_agent", "pay"]),
        (NO, {}, [], ["handoff_to_agent"]),
        (NO, {"handoff_to_agent": "none"}, [], ["pay"]),
    ],
)
def test_a_swarm_with_approvals_asks_about_handoffs_and_calls(
    decision: ApprovalDecision, rules: dict[str, str], amounts: list[int], names: list[str]
) -> None:
    tools, (controller, asked) = Toolbox(), person(decision, Policy(rules))
    swarm_of(tools, Approvals(controller))("go")
    assert (tools.amounts, [each.tool_name for each in asked]) == (amounts, names)


async def test_a_graph_goes_on_only_with_its_interrupts() -> None:
    controller = ApprovalController(mode="defer")
    with pytest.raises(ConfigurationError, match=r"pass `result.interrupts`"):
        await resume(graph_of(Toolbox(), Approvals(controller)), controller=controller)


async def test_a_swarm_stops_for_the_answer_and_goes_on() -> None:
    for decision, amounts in ((YES, [5]), (NO, [])):
        tools, controller = Toolbox(), ApprovalController(mode="defer", policy=Policy({"handoff_to_agent": "none"}))
        swarm = swarm_of(tools, Approvals(controller))
        stopped = await swarm.invoke_async("go")
        (request,) = await controller.pending()
        assert tools.ran == []
        await controller.answer(request.id, decision)
        result = await resume(swarm, stopped.interrupts, controller=controller)
        assert (tools.amounts, result.status.value) == (amounts, "completed")


async def test_a_graph_goes_on_where_it_is_built_anew() -> None:
    tools, folder, controller = Toolbox(), new_folder(), ApprovalController(mode="defer")
    graph = graph_of(tools, Approvals(controller), session=folder)
    stopped = await graph.invoke_async("go")
    (request,) = await controller.pending()
    await controller.answer(request.id, YES)
    for _ in range(2):
        with contextlib.suppress(Exception):  # the second one has nothing to go on with
            again = graph_of(tools, Approvals(controller), responses=["done"], session=folder)
            await resume(again, stopped.interrupts, controller=controller)
    assert tools.amounts == [5]


def test_a_node_that_cannot_be_guarded_does_not_run() -> None:
    ran: list[object] = []

    class Foreign(AgentBase):
        async def invoke_async(self, prompt: Any = None, **_: Any) -> Any:
            raise NotImplementedError

        def __call__(self, prompt: Any = None, **_: Any) -> Any:
            raise NotImplementedError

        def stream_async(self, prompt: Any = None, **_: Any) -> Any:
            ran.append(prompt)
            raise NotImplementedError

    builder = GraphBuilder()
    builder.add_node(Foreign(), "foreign")
    with pytest.raises(ConfigurationError, match="no agent of Strands"):
        built(builder, Approvals(Policy()))("go")
    assert ran == []


def test_a_graph_inside_a_graph_is_guarded_too() -> None:
    tools, (controller, asked) = Toolbox(), person(NO)
    builder = GraphBuilder()
    builder.add_node(graph_of(tools), "inner")
    built(builder, Approvals(controller))("go")
    assert (tools.ran, len(asked)) == ([], 1)


def test_an_agent_of_a_graph_that_has_approvals_keeps_its_own() -> None:
    tools, (controller, asked), (own, own_asked) = Toolbox(), person(NO), person(NO)
    builder = GraphBuilder()
    builder.add_node(agent_of(PAY, [tools.pay()], Approvals(own)), "only")
    built(builder, Approvals(controller))("go")
    assert (tools.ran, len(asked), len(own_asked)) == ([], 0, 1)


class Total(BaseModel):
    """The sum."""

    amount: int


def test_the_last_answer_of_a_structured_run_is_no_call_to_ask_about() -> None:
    tools, (controller, asked) = Toolbox(), person()
    calls: list[Response] = [[Call("pay", {"amount": 5})], [Call("Total", {"amount": 5}, "c2")], "done"]
    agent = agent_of(calls, [tools.pay()], Approvals(controller))
    result = agent("go", structured_output_model=Total)
    assert result.structured_output == Total(amount=5)
    assert (tools.amounts, [each.tool_name for each in asked]) == ([5], ["pay"])


@pytest.mark.parametrize(
    "config",
    [
        {"params": {"tools": [{"type": "web_search"}]}},
        {"anthropic_tools": [{"type": "web_search_20250305", "name": "web_search"}]},
        {"additional_args": {"toolConfig": {"tools": [{"systemTool": {"name": "web_search"}}]}}},
        {"additional_request_fields": {"tools": ({"name": "web_search"},)}},
    ],
)
def test_a_model_with_a_tool_that_runs_at_its_provider_is_asked_only_where_that_may_run_unasked(
    config: dict[str, Any],
) -> None:
    for rules, runs in (({"web_search": "none"}, True), ({}, False), ({"web_search": "blocked"}, False)):
        controller = ApprovalController(mode="auto_deny", policy=Policy(rules, default="required"))
        model: Any = ScriptedModel(["done"], **config)
        agent = agent_of([], [Toolbox().pay()], Approvals(controller), model=model)
        if runs:
            assert str(agent("go")).strip() == "done"
        else:
            with pytest.raises(ConfigurationError, match="'web_search', which runs at its provider"):
                agent("go")
        assert model.shown == ([["pay"]] if runs else [])


def test_a_record_of_a_provider_s_tool_has_the_name_of_its_field() -> None:
    class Search(BaseModel):
        google_search: dict[str, str] | None = None
        code_execution: dict[str, str] | None = None

    model = ScriptedModel(["done"], gemini_tools=[Search(code_execution={})])
    agent = agent_of([], [], Approvals(ApprovalController(mode="approve_all")), model=model)
    with pytest.raises(ConfigurationError, match="'code_execution', which runs at its provider"):
        agent("go")


async def test_calls_that_are_executed_one_after_another_are_asked_about_one_after_another() -> None:
    tools, desk = Toolbox(), Desk()
    controller = ApprovalController(channels=[desk])
    calls: list[Response] = [[Call("pay", {"amount": 1}, "c1"), Call("pay", {"amount": 2}, "c2")], "done"]
    agent = agent_of(calls, [tools.pay()], Approvals(controller), tool_executor=SequentialToolExecutor())
    run = asyncio.create_task(agent.invoke_async("go"))
    await controller.answer((await desk.wait_for(1))[0], NO)
    await controller.answer((await desk.wait_for(2))[1], YES)
    await run
    assert tools.amounts == [2]


@pytest.mark.parametrize("executor", [ConcurrentToolExecutor, SequentialToolExecutor])
async def test_a_nested_agent_is_under_the_outer_one_whatever_task_asks_for_the_next_event(executor: Any) -> None:
    tools, (controller, asked) = Toolbox(), person(NO, Policy({"helper": "none"}))
    loose = Approvals(Policy(default="none"), mode="approve_all")
    helper = AgentAsTool(agent_of(PAY, [tools.pay()], loose, tool_executor=executor()), "helper")
    calls: list[Response] = [[Call("helper", {"prompt": "pay"})], "done"]
    events: Any = agent_of(calls, [helper], Approvals(controller), tool_executor=executor()).stream_async("go")
    with contextlib.suppress(StopAsyncIteration):
        while True:  # each in a task of its own, as `asyncio.wait_for` does
            await asyncio.create_task(events.__anext__())
    assert (tools.ran, [each.tool_name for each in asked]) == ([], ["pay"])


async def test_a_run_that_is_cancelled_ends_its_tool_and_the_audit_tells() -> None:
    began, ended, steps = asyncio.Event(), list[bool](), list[AuditEntry]()

    async def wait() -> str:
        """Wait."""
        began.set()
        try:
            return str(await asyncio.Event().wait())
        finally:
            ended.append(True)

    controller = ApprovalController(mode="approve_all", hooks=[steps.append])
    run = asyncio.create_task(agent_of([[Call("wait", {})], "done"], [wait], Approvals(controller)).invoke_async("go"))
    await began.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    await controller.flush()
    assert (ended, [each.step for each in steps][-1]) == ([True], "raised")


async def test_a_stop_inside_a_tool_closes_all_in_the_tool_s_own_task(caplog: pytest.LogCaptureFixture) -> None:
    tools, controller = Toolbox(), ApprovalController(mode="defer", policy=Policy({"helper": "none"}))
    helper = AgentAsTool(agent_of(PAY, [tools.pay()], Approvals()), "helper")
    agent = agent_of([[Call("helper", {"prompt": "pay"})], "done"], [helper], Approvals(controller))
    assert (await agent.invoke_async("go")).stop_reason == "interrupt"
    assert [each.message for each in caplog.records if each.levelname == "ERROR"] == []


async def test_what_a_stream_s_reader_does_between_two_events_is_no_part_of_the_tool() -> None:
    async def count() -> AsyncIterator[str]:
        """Count."""
        yield "one"
        yield "two"

    calls: list[Response] = [[Call("count", {})], "done"]
    approvals = Approvals(ApprovalController(mode="approve_all"))
    agent = agent_of(calls, [count], approvals, tool_executor=SequentialToolExecutor())
    seen = [context.current_call() async for event in agent.stream_async("go") if "tool_stream_event" in event]
    assert seen == [None, None]


@pytest.mark.parametrize(("decision", "amounts"), [(YES, [5]), (NO, [])])
async def test_a_call_in_the_background_is_asked_about(decision: ApprovalDecision, amounts: list[int]) -> None:
    tools, desk = Toolbox(), Desk()
    controller = ApprovalController(channels=[desk], policy=Policy({"manage_background_task": "none"}))
    responses: list[Response] = [[Call("pay", {"amount": 5})], "waiting", "done", "done"]
    agent = agent_of(responses, [tools.pay()], Approvals(controller), background_tasks={"always": ["pay"]})
    run = asyncio.create_task(agent.invoke_async("go"))
    (asked,) = await desk.wait_for(1)
    assert tools.ran == []
    await controller.answer(asked, decision)
    await run
    assert tools.amounts == amounts


def test_one_answer_of_a_model_that_names_its_calls_by_their_tool_stands_for_one_call() -> None:
    tools, (controller, asked) = Toolbox(), person()
    calls: list[Response] = [[Call("pay", {"amount": each}, "pay")] for each in (1, 2, 2)]
    agent_of([*calls, "done"], [tools.pay()], Approvals(controller))("go")
    assert (tools.amounts, [each.args["amount"] for each in asked]) == ([1, 2, 2], [1, 2, 2])


def test_two_agents_with_one_name_and_session_id_are_in_two_sessions() -> None:
    asked: list[ApprovalRequest] = []
    controller = ApprovalController(approval_callback=lambda each: asked.append(each) or YES)
    for _ in range(2):
        agent_of(PAY, [Toolbox().pay()], Approvals(controller), session_manager=session_in(new_folder()))("go")
    assert len({each.session for each in asked}) == 2


def test_a_session_that_goes_on_is_one_session() -> None:
    asked: list[ApprovalRequest] = []
    controller, folder = ApprovalController(approval_callback=lambda each: asked.append(each) or YES), new_folder()
    for _ in range(2):
        agent_of(PAY, [Toolbox().pay()], Approvals(controller), session_manager=session_in(folder))("go")
    assert (len(asked), len({each.session for each in asked})) == (2, 1)


async def test_approvers_read_what_was_said_before_a_call() -> None:
    asked: list[ApprovalRequest] = []
    controller = ApprovalController(
        approval_callback=lambda each: asked.append(each) or YES,
        policy=Policy(default="required", conversation={"messages": 9}),
    )
    calls: list[Response] = [[Call("look", {"what": "bill"}, "c1")], [Call("pay", {"amount": 5}, "c2")], "done"]
    agent = agent_of(calls, [Toolbox().pay(), Toolbox().look()], Approvals(controller))
    await agent.invoke_async("pay Bob")
    said = [(each.role, each.text) for each in asked[-1].conversation]
    assert said[0] == ("user", "pay Bob")
    assert said[1:] == [("agent", 'calls look(what="bill")'), ("tool", ": looked at bill")]


def test_an_agent_is_freed_with_its_approvals() -> None:
    agent = agent_of(["done"], [Toolbox().pay()], Approvals(Policy()))
    agent("go")
    seen: weakref.ref[Agent] = weakref.ref(agent)
    del agent
    gc.collect()
    assert seen() is None
