"""What LangChain lets through by itself, and what becomes of it behind `Approvals`."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from deepagents import create_deep_agent
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware, ToolRetryMiddleware
from langchain_core.caches import InMemoryCache
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import Command, interrupt
from tests.adapters.conformance import Call, Response
from tests.adapters.conformance.toolbox import Toolbox
from tests.adapters.langchain.driver import CONFIG, as_tool, model_of

from sayso import ApprovalController, ApprovalDecision, ApprovalPending, Policy
from sayso.adapters.langchain import Approvals, WebUser, guarded_subagents, resume
from sayso.core.model import ApprovalRequest
from sayso.errors import ApprovalBlocked, ConfigurationError

PAY: list[Response] = [[Call("pay", {"amount": 5})], "done"]
TASK: list[Response] = [
    [Call("task", {"description": "pay", "subagent_type": "general-purpose"}, "t1")],
    [Call("pay", {"amount": 5}, "i1")],
    "inner done",
    "done",
]
GO: Any = {"messages": [("user", "go")]}


def person(*, approved: bool, policy: Policy | None = None) -> tuple[ApprovalController, list[ApprovalRequest]]:
    asked: list[ApprovalRequest] = []

    def answer(request: ApprovalRequest) -> ApprovalDecision:
        asked.append(request)
        return ApprovalDecision(approved=approved, who="ann")

    return ApprovalController(approval_callback=answer, policy=policy), asked


def agent_of(responses: list[Response], tools: Toolbox, *middleware: Any, saver: Any = None) -> Any:
    return create_agent(model_of(responses), [as_tool(tools.pay())], middleware=middleware, checkpointer=saver)


def test_langchain_s_own_question_answered_in_a_copy_runs_twice(tmp_path: Path) -> None:
    tools, asks = Toolbox(), HumanInTheLoopMiddleware(interrupt_on={"pay": True})
    with SqliteSaver.from_conn_string(str(tmp_path / "a.db")) as saver:
        agent_of(PAY, tools, asks, saver=saver).invoke(GO, CONFIG)
    (tmp_path / "b.db").write_bytes((tmp_path / "a.db").read_bytes())
    for name in ("a.db", "b.db"):
        with SqliteSaver.from_conn_string(str(tmp_path / name)) as saver:
            yes: Any = Command(resume={"decisions": [{"type": "approve"}]})
            agent_of(PAY[1:], tools, asks, saver=saver).invoke(yes, CONFIG)
    assert tools.amounts == [5, 5]


def test_langchain_s_own_question_that_was_refused_runs_when_its_rule_is_gone() -> None:
    tools, saver = Toolbox(), InMemorySaver()
    agent_of(PAY, tools, HumanInTheLoopMiddleware(interrupt_on={"pay": True}), saver=saver).invoke(GO, CONFIG)
    no: Any = Command(resume={"decisions": [{"type": "reject"}]})
    loose = HumanInTheLoopMiddleware(interrupt_on={"pay": False})
    agent_of(PAY[1:], tools, loose, saver=saver).invoke(no, CONFIG)
    assert tools.amounts == [5]


def test_a_misspelt_name_lets_a_tool_run_in_langchain_and_asks_here() -> None:
    tools = Toolbox()
    agent_of(PAY, tools, HumanInTheLoopMiddleware(interrupt_on={"pya": True}), saver=InMemorySaver()).invoke(GO, CONFIG)
    assert tools.amounts == [5]
    tools, (controller, asked) = Toolbox(), person(approved=False, policy=Policy({"pya": "required"}))
    agent_of(PAY, tools, Approvals(controller)).invoke(GO)
    assert (tools.ran, len(asked)) == ([], 1)


def test_a_retry_inside_needs_an_approval_of_its_own() -> None:
    retry = ToolRetryMiddleware(max_retries=2, initial_delay=0.0, jitter=False)
    failing: list[Response] = [[Call("fail", {"amount": 1})], "done"]

    def agent(*middleware: Any) -> tuple[Any, Toolbox]:
        tools = Toolbox()
        return create_agent(model_of(failing), [as_tool(tools.fail())], middleware=middleware), tools

    bare, tools = agent(retry)
    bare.invoke(GO)
    assert tools.names == ["fail"] * 3
    controller, asked = person(approved=True)
    guarded, tools = agent(Approvals(controller), retry)
    guarded.invoke(GO)
    assert (tools.names, len(asked)) == (["fail"], 1)


def test_a_retry_outside_is_refused_as_replayed() -> None:
    tools, (controller, asked) = Toolbox(), person(approved=True)
    retry = ToolRetryMiddleware(max_retries=2, initial_delay=0.0, jitter=False)
    failing: list[Response] = [[Call("fail", {"amount": 1})], "done"]
    agent: Any = create_agent(model_of(failing), [as_tool(tools.fail())], middleware=[retry, Approvals(controller)])
    agent.invoke(GO)
    assert (tools.names, len(asked)) == (["fail"], 1)


def test_the_subagent_that_deepagents_adds_runs_what_its_parent_has_to_ask_about() -> None:
    tools = Toolbox()
    agent: Any = create_deep_agent(
        model_of(TASK), [as_tool(tools.pay())], interrupt_on={}, checkpointer=InMemorySaver()
    )
    agent.invoke(GO, CONFIG)
    assert tools.amounts == [5]


def test_the_subagent_that_deepagents_adds_is_stopped_under_a_guarded_parent() -> None:
    tools, (controller, asked) = Toolbox(), person(approved=True, policy=Policy({"task": "none"}))
    agent: Any = create_deep_agent(model_of(TASK), [as_tool(tools.pay())], middleware=[Approvals(controller)])
    with pytest.raises(ApprovalBlocked, match="without having passed `Approvals`"):
        agent.invoke(GO)
    assert (tools.ran, asked) == ([], [])


@pytest.mark.parametrize("approved", [True, False])
def test_guarded_subagents_ask_the_controller_of_their_parent(*, approved: bool) -> None:
    tools, (controller, asked) = Toolbox(), person(approved=approved, policy=Policy({"task": "none"}))
    agent: Any = create_deep_agent(
        model_of(TASK), [as_tool(tools.pay())], middleware=[Approvals(controller)], subagents=guarded_subagents()
    )
    assert agent.invoke(GO)["messages"][-1].text == "done"
    assert (tools.amounts, [each.tool_name for each in asked]) == ([5] if approved else [], ["pay"])


@pytest.mark.parametrize("user", [None, WebUser("ann")])
def test_the_questions_of_a_subagent_are_answered_in_a_front_end_if_the_host_says_by_whom(user: WebUser | None) -> None:
    tools, controller = Toolbox(), ApprovalController(mode="defer", policy=Policy({"task": "none"}))
    agent: Any = create_deep_agent(
        model_of(TASK),
        [as_tool(tools.pay())],
        middleware=[Approvals(controller)],
        subagents=guarded_subagents(answered_by=lambda _: user),
        checkpointer=InMemorySaver(),
    )
    (asked,) = agent.invoke(GO, CONFIG)["__interrupt__"]
    agent.invoke(Command(resume={asked.id: {"type": "approve"}}), CONFIG)
    assert tools.amounts == ([5] if user else [])


def test_a_compiled_subagent_is_refused_in_one_sentence() -> None:
    with pytest.raises(ConfigurationError, match="'mine' is compiled"):
        guarded_subagents([{"name": "mine", "runnable": object()}])


def test_a_tool_that_calls_another_tool_by_hand_does_not_run_what_asks() -> None:
    tools, (controller, asked) = Toolbox(), person(approved=True, policy=Policy({"shortcut": "none", "look": "none"}))
    pay, look = as_tool(tools.pay()), as_tool(tools.look())

    def shortcut() -> str:
        """Take a short cut."""
        look.invoke({"what": "x"})
        return pay.invoke({"amount": 5})

    calls: list[Response] = [[Call("shortcut", {})], "done"]
    agent: Any = create_agent(
        model_of(calls), [StructuredTool.from_function(shortcut)], middleware=[Approvals(controller)]
    )
    with pytest.raises(ApprovalBlocked):
        agent.invoke(GO)
    assert (tools.names, asked) == (["look"], [])


async def test_a_response_from_a_model_s_cache_asks_in_each_thread_though_the_host_names_one_session() -> None:
    tools, controller = Toolbox(), ApprovalController(mode="defer", session="shop")
    model = model_of(PAY)
    model.cache = InMemoryCache()
    agent: Any = create_agent(
        model, [as_tool(tools.pay())], middleware=[Approvals(controller)], checkpointer=InMemorySaver()
    )
    threads: list[Any] = [{"configurable": {"thread_id": name}} for name in "ab"]
    stopped = [await agent.ainvoke(GO, thread) for thread in threads]
    assert len({each["messages"][-1].id for each in stopped}) == 1
    (mine,), (other,) = (each["__interrupt__"] for each in stopped)
    await controller.answer(mine.value["sayso_request"], ApprovalDecision(approved=True, who="ann"))
    with pytest.raises(ApprovalPending):
        await resume(agent, threads[1], controller=controller)
    assert (tools.ran, mine.value["sayso_request"] != other.value["sayso_request"]) == ([], True)


async def test_a_no_of_another_process_stands_where_the_model_has_made_the_call_in_this_one(tmp_path: Path) -> None:
    tools, saver, store = Toolbox(), InMemorySaver(), tmp_path / "a.db"

    def agent(controller: ApprovalController, responses: list[Response], **settings: Any) -> Any:
        return create_agent(
            model_of(responses),
            [as_tool(tools.pay())],
            middleware=[Approvals(controller)],
            checkpointer=saver,
            **settings,
        )

    async with (
        ApprovalController(mode="defer", store=store, policy=Policy({"pay": "none"})) as loose,
        ApprovalController(mode="defer", store=store) as strict,
    ):
        here, there = agent(loose, PAY, interrupt_before=["tools"]), agent(strict, ["done"])
        await here.ainvoke(GO, CONFIG)
        before_the_tools = (await here.aget_state(CONFIG)).config
        (asked,) = (await there.ainvoke(None, CONFIG))["__interrupt__"]
        await strict.answer(asked.value["sayso_request"], ApprovalDecision(approved=False, who="ann"))
        await resume(there, CONFIG, controller=strict)
        await here.ainvoke(None, before_the_tools)
    assert tools.ran == []


async def test_a_second_resume_that_comes_late_says_no_yes_to_the_tool_s_own_question() -> None:
    said: list[object] = []

    def confirm() -> str:
        """Ask a question of the tool's own."""
        said.append(interrupt("really?"))
        return "done"

    calls: list[Response] = [[Call("confirm", {})], "done"]
    controller = ApprovalController(mode="defer")
    agent: Any = create_agent(
        model_of(calls),
        [StructuredTool.from_function(confirm)],
        middleware=[Approvals(controller)],
        checkpointer=InMemorySaver(),
    )

    class Late:
        """The agent as another worker sees it, which has read the state before this one has gone on."""

        def __init__(self, state: Any) -> None:
            self._state = state

        async def aget_state(self, _: Any) -> Any:
            return self._state

        async def ainvoke(self, *args: Any) -> Any:
            return await agent.ainvoke(*args)

    (asked,) = (await agent.ainvoke(GO, CONFIG))["__interrupt__"]
    await controller.answer(asked.value["sayso_request"], ApprovalDecision(approved=True, who="ann"))
    late = Late(await agent.aget_state(CONFIG))
    await resume(agent, CONFIG, controller=controller)
    await resume(late, CONFIG, controller=controller)
    assert not any(said)


def test_a_tool_that_starts_on_a_thread_without_the_context_of_its_guarded_call_is_stopped() -> None:
    tools, (controller, asked) = Toolbox(), person(approved=True, policy=Policy({"helper": "none"}))
    stopped: list[BaseException] = []
    inner: Any = create_agent(model_of(PAY), [as_tool(tools.pay())])

    def work(callbacks: Any) -> None:
        try:
            inner.invoke(GO, {"callbacks": callbacks})
        except ApprovalBlocked as error:
            stopped.append(error)

    def helper(callbacks: Any = None) -> str:
        """Ask an agent that nobody guards, on another thread."""
        thread = threading.Thread(target=work, args=(callbacks,))
        thread.start()
        thread.join()
        return "done"

    calls: list[Response] = [[Call("helper", {})], "done"]
    agent: Any = create_agent(
        model_of(calls), [StructuredTool.from_function(helper)], middleware=[Approvals(controller)]
    )
    agent.invoke(GO)
    assert (tools.ran, asked, ["copy_context" in str(each) for each in stopped]) == ([], [], [True])
