"""Agents of many kinds: transfers, agents as tools, tasks, sequences, workflows; and runs that end early."""

from __future__ import annotations

import asyncio
from typing import Any

import anyio
import pytest
from google.adk.agents import ParallelAgent, RunConfig, SequentialAgent
from google.adk.agents.live_request_queue import LiveRequestQueue
from google.adk.agents.run_config import ToolThreadPoolConfig
from google.adk.apps import App
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.runners import Runner
from google.adk.tools import AgentTool, FunctionTool, ToolContext, request_input
from google.adk.workflow import START, Workflow
from google.genai import types
from tests.adapters.conformance import Call, Response
from tests.adapters.conformance.toolbox import NO, YES, Desk, Toolbox
from tests.adapters.google_adk.driver import (
    APP,
    GO,
    STREAMING,
    ScriptedModel,
    agent_of,
    content,
    new_folder,
    runner_of,
)
from tests.adapters.google_adk.people import PAY, WHO, answer, go, person, resumed, runner_for, running, told
from tests.adapters.google_adk.test_order import Changes

from sayso import ApprovalController, Policy
from sayso.adapters.google_adk import Approvals
from sayso.core.model import AuditEntry
from sayso.errors import ConfigurationError

TRANSFER: list[Response] = [[Call("transfer_to_agent", {"agent_name": "clerk"}, "t1")]]


async def test_a_transfer_is_a_call_and_what_the_other_agent_calls_is_asked_about() -> None:
    for decision, ran in ((NO, [[], ["transfer_to_agent"]]), (YES, [[5], ["transfer_to_agent", "pay"]])):
        tools, (controller, asked) = Toolbox(), person(decision)
        clerk = agent_of(ScriptedModel(PAY), [tools.pay()], name="clerk")
        boss = agent_of(ScriptedModel([*TRANSFER, "then not"]), [clerk], name="boss")
        await go(runner_for(boss, new_folder(), Approvals(controller)))
        assert [tools.amounts, [each.tool_name for each in asked]] == ran


async def test_a_transferred_run_stops_and_goes_on() -> None:
    tools, controller, folder = Toolbox(), ApprovalController(mode="defer"), new_folder()

    def runner(boss: list[Response], clerk: list[Response]) -> Runner:
        inner = agent_of(ScriptedModel(clerk), [tools.pay()], name="clerk")
        return runner_for(agent_of(ScriptedModel(boss), [inner], name="boss"), folder, Approvals(controller))

    await go(runner(TRANSFER, []))
    await answer(controller, YES)
    await resumed(runner([], PAY[:1]), controller)
    await answer(controller, YES)
    assert await resumed(runner([], PAY[1:]), controller) == "done"
    assert tools.amounts == [5]


NESTED: list[Response] = [[Call("helper", {"request": "pay"}, "o1")], "outer done"]


async def test_an_agent_tool_has_the_plugins_of_the_app_and_waits_in_place_where_the_controller_defers() -> None:
    tools, desk = Toolbox(), Desk()
    controller = ApprovalController(mode="defer", channels=[desk], policy=Policy({"helper": "none"}))
    helper = AgentTool(agent_of(ScriptedModel(PAY), [tools.pay()], name="helper"))
    runner = running(new_folder(), NESTED, [helper], Approvals(controller), name="boss")
    run = asyncio.create_task(go(runner))
    (asked,) = await desk.wait_for(1)
    assert asked.agent_path == ("boss", "helper")
    await controller.answer(asked, YES)
    assert (await run, tools.amounts) == ("outer done", [5])


TASK: list[Response] = [[Call("clerk", {"request": "pay"}, "o1")], "outer done"]


def with_task(tools: Toolbox) -> Any:
    """Return an agent that delegates a task to another one, which ADK does without calling a tool."""
    finish = [Call("finish_task", {"result": "paid"}, "f1")]
    clerk = agent_of(ScriptedModel([*PAY[:1], finish, "done"]), [tools.pay()], name="clerk", mode="task")
    return agent_of(ScriptedModel(TASK), [clerk], name="boss")


async def test_a_task_is_delegated_where_the_policy_allows_it_unasked_and_its_calls_are_asked_about() -> None:
    for decision, amounts in ((NO, []), (YES, [5])):
        tools = Toolbox()
        controller, asked = person(decision, Policy({"clerk": "none", "finish_task": "none"}))
        await go(runner_for(with_task(tools), new_folder(), Approvals(controller)))
        assert (tools.amounts, [each.tool_name for each in asked]) == (amounts, ["pay"])


@pytest.mark.parametrize("rule", ["required", "blocked"])
async def test_a_task_that_would_have_to_be_asked_about_is_hidden_and_ends_the_run_if_the_model_delegates_it(
    rule: str,
) -> None:
    tools, (controller, asked) = Toolbox(), person(policy=Policy({"clerk": rule}, default="none"))
    boss = with_task(tools)
    with pytest.raises(RuntimeError, match="clerk: none"):
        await go(runner_for(boss, new_folder(), Approvals(controller)))
    assert (tools.ran, asked, boss.model.shown) == ([], [], [[]])


@pytest.mark.filterwarnings("ignore::DeprecationWarning:google.adk")
@pytest.mark.filterwarnings("ignore:.*Agent is deprecated:DeprecationWarning")
@pytest.mark.parametrize("kind", [SequentialAgent, ParallelAgent])
async def test_agents_in_a_row_and_side_by_side_stop_and_go_on(kind: Any) -> None:
    tools, controller, folder = Toolbox(), ApprovalController(mode="defer"), new_folder()

    def runner(one: list[Response], two: list[Response]) -> Runner:
        agents = [
            agent_of(ScriptedModel(script), [tools.pay()], name=name) for name, script in (("one", one), ("two", two))
        ]
        return runner_for(kind(name="all", sub_agents=agents), folder, Approvals(controller))

    def calls(amount: int, call_id: str) -> list[Response]:
        return [[Call("pay", {"amount": amount}, call_id)], "done"]

    await go(runner(calls(1, "c1"), calls(2, "c2")))
    for _ in range(3):
        if not await controller.pending():
            break
        await answer(controller, YES)
        await resumed(runner(["done"], ["done"]), controller)
    assert set(tools.amounts) <= {1, 2}
    assert len(tools.amounts) == len(set(tools.amounts))
    assert tools.amounts


async def test_a_tool_that_is_a_node_of_a_workflow_is_asked_about_in_place() -> None:
    tools, (controller, asked) = Toolbox(), person()
    workflow = Workflow(name="flow", edges=[(START, FunctionTool(tools.pay()))])
    app = App(name=APP, root_agent=workflow, plugins=[Approvals(controller)])
    async for _ in runner_of(app, new_folder()).run_async(**WHO, new_message=content('{"amount": 5}', "user")):
        pass
    assert ([dict(each.args) for each in asked], tools.amounts) == ([{"amount": 5, "to": "bob"}], [5])


async def test_a_refused_node_of_a_workflow_does_not_run() -> None:
    tools, (controller, asked) = Toolbox(), person(NO)
    workflow = Workflow(name="flow", edges=[(START, FunctionTool(tools.pay()))])
    app = App(name=APP, root_agent=workflow, plugins=[Approvals(controller)])
    async for _ in runner_of(app, new_folder()).run_async(**WHO, new_message=content('{"amount": 5}', "user")):
        pass
    assert (tools.ran, len(asked)) == ([], 1)


@pytest.mark.parametrize("where", ["before", "after"])
async def test_a_plugin_that_could_change_the_arguments_of_a_node_comes_before_approvals(where: str) -> None:
    tools, (controller, asked) = Toolbox(), person()
    plugins: list[BasePlugin] = [Approvals(controller)]
    plugins.insert(where == "after", Changes("changes"))
    workflow = Workflow(name="flow", edges=[(START, FunctionTool(tools.pay()))])
    runner = runner_of(App(name=APP, root_agent=workflow, plugins=plugins), new_folder())
    events = runner.run_async(**WHO, new_message=content('{"amount": 5}', "user"))
    if where == "before":
        [each async for each in events]
        assert ([each.args["amount"] for each in asked], tools.amounts) == ([9000], [9000])
        return
    with pytest.raises(RuntimeError, match="put `Approvals` last") as raised:
        [each async for each in events]
    assert isinstance(raised.value.__cause__, ConfigurationError)
    assert (tools.ran, asked) == ([], [])


@pytest.mark.filterwarnings("ignore:SequentialAgent is deprecated:DeprecationWarning")
@pytest.mark.parametrize("name", ["helper", "pay"])
async def test_an_agent_that_a_tool_runs_without_plugins_is_stopped_where_one_can_see_it(name: str) -> None:
    tools, (controller, asked) = Toolbox(), person(policy=Policy({name: "none"}))
    clerk = agent_of(ScriptedModel([*PAY, *PAY]), [tools.pay()], name="clerk")
    allowing = Approvals(Policy(default="none"))
    await go(runner_for(SequentialAgent(name="row", sub_agents=[clerk]), new_folder(), allowing))

    async def helper(amount: int) -> str:
        """Run another agent."""
        return await go(runner_for(clerk, new_folder()))

    helper.__name__ = name  # also that of the tool inside it
    script: list[Response] = [[Call(name, {"amount": 5}, "o1")], "done"]
    with pytest.raises(Exception, match=r"without having passed|a second time"):
        await go(running(new_folder(), script, [helper], Approvals(controller)))
    assert (tools.amounts, asked) == ([5], [])


async def test_a_live_session_is_refused() -> None:
    tools, (controller, asked) = Toolbox(), person()
    runner = running(new_folder(), PAY, [tools.pay()], Approvals(controller))
    queue = LiveRequestQueue()
    queue.close()
    with pytest.raises(RuntimeError, match="live session"):
        async for _ in runner.run_live(**WHO, live_request_queue=queue):
            pass
    assert (tools.ran, asked) == ([], [])


async def test_functions_on_threads_are_gated_as_well() -> None:
    tools, (controller, asked) = Toolbox(), person()
    config = RunConfig(tool_thread_pool_config=ToolThreadPoolConfig(max_workers=2))
    await go(running(new_folder(), PAY, [tools.pay()], Approvals(controller)), run_config=config)
    assert (tools.amounts, len(asked)) == ([5], 1)


async def test_a_reader_that_leaves_early_withdraws_what_waits() -> None:
    tools, desk = Toolbox(), Desk()
    controller = ApprovalController(channels=[desk])
    runner = running(new_folder(), PAY, [tools.pay()], Approvals(controller))
    events = runner.run_async(**WHO, new_message=GO, run_config=STREAMING)
    with anyio.fail_after(20):
        await anext(events)
        waiting = asyncio.create_task(anext(events))  # type: ignore[arg-type]
        (asked,) = await desk.wait_for(1)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await events.aclose()
        row = await controller.wait(asked.id, timeout=10)
    assert (row.status, tools.ran) == ("withdrawn", [])


async def test_a_call_that_is_cancelled_while_it_runs_is_audited_as_failed() -> None:
    began, steps = asyncio.Event(), list[AuditEntry]()
    controller = ApprovalController(approval_callback=lambda _: YES, hooks=[steps.append])

    async def pay(amount: int) -> str:
        """Pay somebody."""
        began.set()
        await asyncio.Event().wait()
        return "paid"

    run = asyncio.create_task(go(running(new_folder(), PAY, [pay], Approvals(controller))))
    with anyio.fail_after(20):
        await began.wait()
        run.cancel()
        await asyncio.gather(run, return_exceptions=True)
    await controller.flush()
    assert [each.step for each in steps][-1] == "raised"


async def test_a_refusal_that_ends_the_run_cancels_what_runs_beside_it() -> None:
    began, ended = asyncio.Event(), list[str]()
    desk = Desk()
    controller = ApprovalController(channels=[desk], policy=Policy({"look": "none"}))
    tools = Toolbox()

    async def look() -> str:
        """Look for a long time."""
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cancelled")
        return ""

    script: list[Response] = [[Call("look", {}, "c1"), Call("pay", {"amount": 5}, "c2")], "done"]
    runner = running(new_folder(), script, [look, tools.pay()], Approvals(controller, on_denied="raise"))
    run = asyncio.create_task(go(runner))
    with anyio.fail_after(20):
        (asked,) = await desk.wait_for(1)
        await began.wait()
        await controller.answer(asked, NO)
        with pytest.raises(Exception, match="too much"):
            await run
    assert (ended, tools.ran) == (["cancelled"], [])


@pytest.mark.parametrize("gives_up", [False, True])
async def test_a_tool_that_runs_an_agent_in_its_session_goes_on_with_it_unless_it_has_given_up(
    *, gives_up: bool
) -> None:
    tools, folder, controller = Toolbox(), new_folder(), ApprovalController(mode="defer")

    def runner(outer: list[Response], inner: list[Response]) -> Runner:
        clerk = agent_of(ScriptedModel(inner), [tools.pay()], name="clerk", mode="single_turn")

        async def helper(tool_context: ToolContext) -> str:
            """Let the clerk pay."""
            try:
                return f"the clerk is {await tool_context.run_node(clerk, 'pay')}"
            except BaseException:
                if gives_up:
                    return "the clerk waits for somebody"
                raise

        return running(folder, outer, [helper], Approvals(controller))

    await go(runner([[Call("helper", {}, "o1")]], []))
    await answer(controller, YES)
    stopped = runner(["done"], PAY[:1])
    await resumed(stopped, controller)
    assert tools.ran == []
    store: Any = controller.store
    assert await store.parked_size("waiting/") == ((0, 0) if gives_up else (1, 1))
    if not gives_up:
        await answer(controller, YES)
        assert await resumed(runner(["done"], ["done"]), controller) == "done"
        assert tools.amounts == [5]
    assert ("the clerk is done" in await told(stopped)) is not gives_up


async def test_an_agent_that_stops_for_a_question_of_adk_s_own_goes_on_and_nobody_is_asked_again() -> None:
    folder, (controller, asked) = new_folder(), person(policy=Policy({"helper": "required"}, default="none"))

    def runner(outer: list[Response], inner: list[Response]) -> Runner:
        helper = agent_of(ScriptedModel(inner), [request_input], name="helper", mode="single_turn")
        return running(folder, outer, [helper], Approvals(controller), name="boss")

    await go(runner(NESTED[:1], [[Call("adk_request_input", {"message": "Which account?"}, "i1")]]))
    said = types.FunctionResponse(id="i1", name="adk_request_input", response={"result": "savings"})
    going_on = runner(NESTED[1:], ["from the savings"])
    message = types.Content(role="user", parts=[types.Part(function_response=said)])
    assert await go(going_on, message) == "outer done"
    assert "from the savings" in await told(going_on)
    assert len(asked) == 1
