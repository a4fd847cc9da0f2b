"""Interrupts: what front ends are shown, whose answers count, and tools that interrupt by themselves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Annotated, Any, TypedDict

import anyio
import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import InjectedToolCallId, StructuredTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.prebuilt import ToolNode
from langgraph.types import Command, interrupt
from tests.adapters.conformance import Call, Response
from tests.adapters.conformance.toolbox import NO, YES, Toolbox
from tests.adapters.langchain.driver import CONFIG, as_tool, model_of

from sayso import ApprovalController, ApprovalDecision, ApprovalPending, Policy
from sayso.adapters.langchain import Approvals, WebUser, resume, resume_sync
from sayso.core.model import AuditEntry
from sayso.engine import blocking
from sayso.errors import ConfigurationError
from sayso.stores.memory import MemoryStore

PAY: list[Response] = [[Call("pay", {"amount": 5})], "done"]
GO: Any = {"messages": [("user", "go")]}
ANN = WebUser("ann")


def deferring(tools: Toolbox, **settings: Any) -> tuple[Any, ApprovalController]:
    controller = ApprovalController(mode="defer")
    approvals = Approvals(controller, **settings)
    agent: Any = create_agent(
        model_of(PAY), [as_tool(tools.pay())], middleware=[approvals], checkpointer=InMemorySaver()
    )
    return agent, controller


def answers(agent: Any, value: object) -> Any:
    """Resume all interrupts of a thread with a value, as a front end does."""
    asked = agent.get_state(CONFIG).interrupts
    return agent.invoke(Command(resume={each.id: value for each in asked}), CONFIG)


def traces(controller: ApprovalController) -> int:
    """Return how many questions the store keeps answers of that did not count."""
    assert isinstance(controller.store, MemoryStore)
    return blocking.run(controller.store.parked_size, "heard/")[0]


def test_an_interrupt_has_the_fields_that_front_ends_show() -> None:
    agent, _ = deferring(Toolbox())
    (asked,) = agent.invoke(GO, CONFIG)["__interrupt__"]
    args = {"amount": 5, "to": "bob"}
    assert (asked.value["type"], asked.value["name"], asked.value["args"]) == ("tool_approval", "pay", args)
    (action,), (config,) = asked.value["action_requests"], asked.value["review_configs"]
    assert (action["name"], action["args"], config["action_name"]) == ("pay", args, "pay")
    assert asked.value["action_request"] == {"action": "pay", "args": args}
    assert {name for name, allowed in asked.value["config"].items() if allowed} >= {"allow_accept", "allow_edit"}
    assert "Pay somebody." in asked.value["description"]


@pytest.mark.parametrize(
    "answer",
    [{"type": "approve"}, {"decisions": [{"type": "approve"}]}, [{"type": "accept", "args": None}], True, "yes"],
)
def test_an_answer_in_a_front_end_counts_for_nothing_unless_the_host_says_whose_it_is(answer: object) -> None:
    tools = Toolbox()
    agent, _ = deferring(tools)
    agent.invoke(GO, CONFIG)
    assert "__interrupt__" in answers(agent, answer)
    assert tools.ran == []


@pytest.mark.parametrize(
    ("answer", "amounts"),
    [
        ({"type": "approve"}, [5]),
        ({"decisions": [{"type": "approve"}]}, [5]),
        ([{"type": "accept", "args": None}], [5]),
        ([{"type": "accept", "args": {"action": "pay", "args": {"amount": 5, "to": "bob"}}}], [5]),
        ({"type": "edit", "edited_action": {"name": "pay", "args": {"amount": 3}}}, [3]),
        ([{"type": "edit", "args": {"action": "pay", "args": {"amount": 3}}}], [3]),
        ({"type": "reject", "message": "too much"}, []),
        ([{"type": "response", "args": "too much"}], []),
        ([{"type": "ignore", "args": None}], []),
    ],
)
def test_an_answer_of_a_person_whom_the_host_names_counts(answer: object, amounts: list[int]) -> None:
    tools = Toolbox()
    agent, _ = deferring(tools, answered_by=lambda _: ANN)
    agent.invoke(GO, CONFIG)
    result = answers(agent, answer)
    (told,) = [each.text for each in result["messages"] if isinstance(each, ToolMessage)]
    assert (tools.amounts, result["messages"][-1].text) == (amounts, "done")
    assert ("too much" in told) == ("too much" in str(answer))


@pytest.mark.parametrize(
    "answer",
    [
        {"type": "edit", "edited_action": {"name": "wipe", "args": {"amount": 3}}},
        [{"type": "accept", "args": {"action": "pay", "args": {"amount": 9, "to": "bob"}}}],
        [{"type": "accept", "args": {"action": "wipe", "args": {"amount": 5, "to": "bob"}}}],
        {"type": "edit", "edited_action": {"name": "pay"}},
        {"decisions": [{"type": "approve"}, {"type": "approve"}]},
        {"decisions": []},
        {"type": "yes"},
        None,
        [],
        "approve",
    ],
)
def test_an_unclear_answer_asks_again(answer: object) -> None:
    tools = Toolbox()
    agent, controller = deferring(tools, answered_by=lambda _: ANN)
    (asked,) = agent.invoke(GO, CONFIG)["__interrupt__"]
    result = agent.invoke(Command(resume={asked.id: answer}), CONFIG)
    assert "__interrupt__" in result
    assert tools.ran == []
    assert isinstance(controller, ApprovalController)


def test_an_answer_of_somebody_unknown_never_counts_for_the_person_who_resumes_next() -> None:
    tools, signed_in = Toolbox(), list[WebUser]()
    agent, controller = deferring(tools, answered_by=lambda _: signed_in[0] if signed_in else None)
    agent.invoke(GO, CONFIG)
    assert "__interrupt__" in answers(agent, {"type": "approve"})
    signed_in.append(ANN)
    assert "__interrupt__" in answers(agent, "unclear")
    answers(agent, {"type": "reject"})
    assert tools.ran == []
    assert traces(controller) == 0  # no trace is left


def test_an_answer_elsewhere_leaves_no_trace_of_those_that_did_not_count() -> None:
    agent, controller = deferring(Toolbox())
    (asked,) = agent.invoke(GO, CONFIG)["__interrupt__"]
    answers(agent, "unclear")
    assert traces(controller) == 1

    async def refuse() -> None:
        await controller.answer(asked.value["sayso_request"], NO)

    blocking.run(refuse)
    resume_sync(agent, CONFIG, controller=controller)
    assert traces(controller) == 0


def test_an_answer_to_a_question_of_a_lost_store_counts_for_no_other_question() -> None:
    saver, tools = InMemorySaver(), Toolbox()
    for to in ("bob", "eve"):  # two releases, each with a store in memory, and one checkpointer

        def pay(amount: int, to: str = to) -> str:
            """Pay somebody."""
            tools.ran.append(("pay", {"amount": amount, "to": to}))
            return f"paid {amount}"

        approvals = Approvals(ApprovalController(mode="defer"), answered_by=lambda _: ANN)
        agent: Any = create_agent(
            model_of(PAY), [StructuredTool.from_function(pay)], middleware=[approvals], checkpointer=saver
        )
        if to == "bob":
            agent.invoke(GO, CONFIG)
    (asked,) = answers(agent, {"type": "approve"})["__interrupt__"]
    assert (asked.value["args"], tools.ran) == ({"amount": 5, "to": "eve"}, [])
    answers(agent, {"type": "approve"})
    assert tools.ran == [("pay", {"amount": 5, "to": "eve"})]


def test_what_a_breakpoint_is_passed_with_answers_no_question_that_comes_behind_it() -> None:
    tools, controller = Toolbox(), ApprovalController(mode="defer")
    agent: Any = create_agent(
        model_of(PAY),
        [as_tool(tools.pay())],
        middleware=[Approvals(controller, answered_by=lambda _: ANN)],
        checkpointer=InMemorySaver(),
        interrupt_before=["tools"],
    )
    agent.invoke(GO, CONFIG)
    assert "__interrupt__" in agent.invoke(Command(resume={"type": "approve"}), CONFIG)
    assert tools.ran == []
    answers(agent, {"type": "approve"})
    assert tools.amounts == [5]


def test_an_answer_to_one_question_is_no_answer_to_another_of_the_thread() -> None:
    tools, signed_in = Toolbox(), list[WebUser]()
    approvals = Approvals(ApprovalController(mode="defer"), answered_by=lambda _: signed_in[0] if signed_in else None)
    calls: list[Response] = [[Call("pay", {"amount": 1}, "a"), Call("pay", {"amount": 2}, "b")], "done"]
    agent: Any = create_agent(
        model_of(calls), [as_tool(tools.pay())], middleware=[approvals], checkpointer=InMemorySaver()
    )
    one, two = agent.invoke(GO, CONFIG)["__interrupt__"]
    agent.invoke(Command(resume={one.id: {"type": "approve"}}), CONFIG)
    signed_in.append(ANN)
    agent.invoke(Command(resume={two.id: {"type": "reject"}}), CONFIG)
    assert tools.ran == []


async def test_an_answer_in_a_front_end_never_reaches_another_call_of_the_same_task() -> None:
    tools, controller, second_has_asked = Toolbox(), ApprovalController(mode="defer"), asyncio.Event()
    approvals, second_has_asked_twice = Approvals(controller, answered_by=lambda _: ANN), asyncio.Event()

    async def wrap(request: Any, handler: Any) -> Any:
        if request.tool_call["args"]["amount"] == 1:
            if second_has_asked.is_set():  # the task is entered again: now the second call overtakes the first
                await second_has_asked_twice.wait()
            return await approvals.awrap_tool_call(request, handler)
        try:
            return await approvals.awrap_tool_call(request, handler)
        finally:
            (second_has_asked_twice if second_has_asked.is_set() else second_has_asked).set()

    graph: Any = StateGraph(Graph)
    graph.add_node("tools", ToolNode([as_tool(tools.pay())], awrap_tool_call=wrap))
    graph.add_edge(START, "tools")
    graph = graph.compile(checkpointer=InMemorySaver())
    calls = [{"name": "pay", "args": {"amount": amount}, "id": f"c{amount}"} for amount in (1, 2)]
    (asked,) = (await graph.ainvoke({"messages": [AIMessage("", tool_calls=calls)]}, CONFIG))["__interrupt__"]
    assert asked.value["args"]["amount"] == 1
    with anyio.fail_after(5):
        await second_has_asked.wait()
        await graph.ainvoke(Command(resume={asked.id: {"type": "approve"}}), CONFIG)
    assert tools.ran == []
    assert len(await controller.pending()) == 2


def test_synchronous_callers_resume_too() -> None:
    tools = Toolbox()
    agent, controller = deferring(tools)
    (asked,) = agent.invoke(GO, CONFIG)["__interrupt__"]
    with pytest.raises(ApprovalPending):
        resume_sync(agent, CONFIG, controller=controller)
    decide = controller.answer(asked.value["sayso_request"], YES)

    async def answer() -> None:
        await decide

    blocking.run(answer)
    assert resume_sync(agent, CONFIG, controller=controller)["messages"][-1].text == "done"
    assert tools.amounts == [5]


async def test_a_thread_that_waits_for_nothing_is_told_apart() -> None:
    agent, controller = deferring(Toolbox())
    with pytest.raises(ConfigurationError, match="not interrupted for a question"):
        await resume(agent, CONFIG, controller=controller)


@pytest.mark.parametrize("config", [{}, CONFIG])
def test_a_graph_without_a_checkpointer_cannot_stop_and_says_so(config: Any) -> None:
    tools, controller = Toolbox(), ApprovalController(mode="defer")
    agent: Any = create_agent(model_of(PAY), [as_tool(tools.pay())], middleware=[Approvals(controller)])
    with pytest.raises(ConfigurationError, match="compile it with a checkpointer"):
        agent.invoke(GO, config)
    assert tools.ran == []


async def test_a_tool_that_interrupts_by_itself_gets_its_own_value_and_runs_on_one_approval() -> None:
    said: list[object] = []

    def confirm(amount: int) -> str:
        """Pay after a question of the tool's own."""
        said.append(interrupt("really?"))
        return f"paid {amount}"

    steps: list[AuditEntry] = []
    controller = ApprovalController(mode="defer", hooks=[steps.append])
    calls: list[Response] = [[Call("confirm", {"amount": 5})], "done"]
    agent: Any = create_agent(
        model_of(calls),
        [StructuredTool.from_function(confirm)],
        middleware=[Approvals(controller)],
        checkpointer=InMemorySaver(),
    )
    (asked,) = (await agent.ainvoke(GO, CONFIG))["__interrupt__"]
    await controller.answer(asked.value["sayso_request"], YES)
    (own,) = (await resume(agent, CONFIG, controller=controller))["__interrupt__"]
    assert (own.value, said) == ("really?", [])
    result = await agent.ainvoke(Command(resume="yes, really"), CONFIG)
    assert (said, result["messages"][-1].text) == (["yes, really"], "done")
    await controller.flush()
    assert [each.step for each in steps].count("returned") == 1


class Graph(TypedDict):
    messages: Annotated[list[Any], add_messages]


def graph_of(approvals: Approvals, tool: Any) -> Any:
    """Return a graph of one node, which runs the tools."""
    node = ToolNode([tool], wrap_tool_call=approvals.wrap_tool_call, awrap_tool_call=approvals.awrap_tool_call)
    graph: Any = StateGraph(Graph)
    graph.add_node("tools", node)
    graph.add_edge(START, "tools")
    return graph.compile(checkpointer=InMemorySaver())


@pytest.mark.parametrize(("decision", "amounts"), [(YES, [5]), (NO, [])])
async def test_a_tool_node_of_a_graph_of_one_s_own_stops_and_goes_on(
    decision: ApprovalDecision, amounts: list[int]
) -> None:
    tools, controller = Toolbox(), ApprovalController(mode="defer")
    graph = graph_of(Approvals(controller), as_tool(tools.pay()))
    call = AIMessage("", tool_calls=[{"name": "pay", "args": {"amount": 5}, "id": "c1"}])
    (asked,) = (await graph.ainvoke({"messages": [call]}, CONFIG))["__interrupt__"]
    await controller.answer(asked.value["sayso_request"], decision)
    await resume(graph, CONFIG, controller=controller)
    assert tools.amounts == amounts


class Chat(TypedDict):
    notes: list[str]
    chat: Annotated[list[Any], add_messages]


def test_a_graph_may_call_its_messages_as_it_likes_and_repeat_the_ids_of_calls() -> None:
    tools, controller = Toolbox(), ApprovalController(mode="defer")
    approvals = Approvals(controller, answered_by=lambda _: ANN)
    node = ToolNode([as_tool(tools.pay())], messages_key="chat", wrap_tool_call=approvals.wrap_tool_call)
    graph: Any = StateGraph(Chat)
    graph.add_node("tools", node)
    graph.add_edge(START, "tools")
    graph = graph.compile(checkpointer=InMemorySaver())
    for amount in (1, 2):
        call = AIMessage("", tool_calls=[{"name": "pay", "args": {"amount": amount}, "id": "call-1"}])
        graph.invoke({"chat": [call], "notes": ["paid"]}, CONFIG)
        answers(graph, {"type": "approve"})
    assert tools.amounts == [1, 2]


def test_a_handoff_by_a_tool_is_decided_about_like_every_call() -> None:
    def give_up() -> Command[Any]:
        """Hand over to the end."""
        return Command(goto="__end__", update={"messages": [ToolMessage("handed over", tool_call_id="c1")]})

    ends: dict[bool, list[Any]] = {}
    for approved in (True, False):
        controller = ApprovalController(approval_callback=lambda _, yes=approved: YES if yes else NO)
        calls: list[Response] = [[Call("give_up", {})], "done"]
        agent: Any = create_agent(
            model_of(calls), [StructuredTool.from_function(give_up)], middleware=[Approvals(controller)]
        )
        ends[approved] = [each.text for each in agent.invoke(GO)["messages"]]
    assert "handed over" in ends[True]
    assert "handed over" not in ends[False]


def by_command(amount: int, tool_call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
    """Pay, and write into the state."""
    return Command(update={"messages": [ToolMessage(f"paid {amount}", tool_call_id=tool_call_id)]})


def in_blocks(amount: int) -> list[dict[str, str]]:
    """Pay, and answer in blocks of content, as tools of MCP servers do."""
    return [{"type": "text", "text": f"paid {amount}"}]


def with_both(amount: int, tool_call_id: Annotated[str, InjectedToolCallId]) -> list[Any]:
    """Pay, and write into the state beside the message."""
    return [ToolMessage(f"paid {amount}", tool_call_id=tool_call_id), Command(update={})]


@pytest.mark.parametrize("tool", [by_command, in_blocks, with_both])
def test_the_model_is_told_of_an_edit_in_every_form_of_result(tool: Callable[..., Any]) -> None:
    less = ApprovalDecision(approved=True, override_args={"amount": 3}, note="less", who="ann")
    calls: list[Response] = [[Call(tool.__name__, {"amount": 5})], "done"]
    agent: Any = create_agent(
        model_of(calls),
        [StructuredTool.from_function(tool)],
        middleware=[Approvals(ApprovalController(approval_callback=lambda _: less))],
    )
    (told,) = [each.text for each in agent.invoke(GO)["messages"] if isinstance(each, ToolMessage)]
    assert ["it ran as" in told, "paid 3" in told, "less" in told] == [True] * 3


@pytest.mark.parametrize(
    ("rules", "shown"),
    [
        ({}, ["pay"]),
        ({"web_search": "required"}, ["pay"]),
        ({"web_search": "none"}, ["pay", "web_search"]),
        ({"*": "none", "web_search": "blocked"}, ["pay"]),
    ],
)
def test_a_tool_that_runs_at_the_provider_is_shown_only_where_it_may_run_unasked(
    rules: dict[str, str], shown: list[str]
) -> None:
    model: Any = model_of(["done"])
    controller = ApprovalController(mode="auto_deny", policy=Policy(rules, default="required"))
    agent: Any = create_agent(
        model, [as_tool(Toolbox().pay()), {"type": "web_search"}], middleware=[Approvals(controller)]
    )
    agent.invoke(GO)
    assert model.shown == [shown]


def test_a_tool_that_does_not_exist_is_no_error_of_the_run() -> None:
    controller = ApprovalController(mode="approve_all")
    calls: list[Response] = [[Call("nothing", {})], "done"]
    agent: Any = create_agent(model_of(calls), [as_tool(Toolbox().pay())], middleware=[Approvals(controller)])
    told = [each.text for each in agent.invoke(GO)["messages"] if isinstance(each, ToolMessage)]
    assert ["there is no tool 'nothing'" in each for each in told] == [True]


def test_wrong_settings_get_one_sentence() -> None:
    wrong: list[tuple[Callable[[], object], str]] = [
        (lambda: Approvals(on_denied="ignore"), "on_denied is 'ignore'"),  # type: ignore[arg-type]
        (lambda: Approvals(answered_by="ann"), "answered_by is 'ann'"),  # type: ignore[arg-type]
        (lambda: Approvals("sayso.yaml"), "policy"),  # type: ignore[arg-type]
    ]
    for build, sentence in wrong:
        with pytest.raises(ConfigurationError, match=sentence):
            build()
