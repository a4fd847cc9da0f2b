"""Deferred calls and their answers, and runs that are answered as they go, by the names of seed 000."""

import ast
import asyncio
import contextlib
import copy
import json
import os
import subprocess
import sys
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import anyio
import pytest
from pydantic import BaseModel, TypeAdapter
from pydantic_ai import Agent, ApprovalRequired, RunContext, capture_run_messages
from pydantic_ai.messages import ModelMessagesTypeAdapter, ToolCallPart
from pydantic_ai.models.test import TestModel
from pydantic_ai.tools import (
    DeferredToolRequests,
    DeferredToolResults,
    ToolApproved,
    ToolDefinition,
    ToolDenied,
)
from pydantic_ai.toolsets import AbstractToolset, ApprovalRequiredToolset, ExternalToolset, FunctionToolset
from tests.adapters.pydantic_ai.scripted import Call, Scripted, Till, Wrapped, returns
from tests.people import NO, YES

import sayso
from sayso import ApprovalController, ApprovalDecision, ApprovalMemory, ApprovalRequest, Policy
from sayso.adapters.pydantic_ai import (
    Approvals,
    ApprovalToolset,
    build_approval_requests,
    collect_approvals_async,
    collect_approvals_sync,
    run_with_approval,
    run_with_approval_async,
)
from sayso.errors import ApprovalBlocked, ConfigurationError

NOTE = ApprovalDecision(approved=False, note="ask me on Monday")
SESSION = ApprovalDecision(approved=True, remember="session")
PAY_5: Call = ("pay", {"amount": 5})
PAY_9: Call = ("pay", {"amount": 9})
LOOK: Call = ("look", {"name": "x"})
ROOT = Path(__file__).resolve().parents[3]
STOPPING: list[Any] = [str, DeferredToolRequests]


class Window:
    """The smallest complete UI: it only has `choose`."""

    def __init__(self, *answers: ApprovalDecision) -> None:
        self.asked: list[ApprovalRequest] = []
        self.modes: list[str] = []
        self._answers = list(answers) or [YES]

    def choose(self, request: ApprovalRequest, *, mode: str) -> ApprovalDecision:
        self.asked.append(request)
        self.modes.append(mode)
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]

    @property
    def saw(self) -> list[Call]:
        return [(request.tool_name, dict(request.args)) for request in self.asked]


class Shut:
    """A UI that nobody may use."""

    def choose(self, request: ApprovalRequest, *, mode: str) -> ApprovalDecision:
        raise NotImplementedError(f"nobody may be asked about {request}")


def calls(*made: tuple[str, Any], metadata: dict[str, dict[str, Any]] | None = None) -> DeferredToolRequests:
    """What a run ends with, made by hand: no agent, no model."""
    parts = [ToolCallPart(name, args, tool_call_id=f"c{at}") for at, (name, args) in enumerate(made, start=1)]
    return DeferredToolRequests(approvals=parts, metadata=metadata or {})


def ship_toolset() -> AbstractToolset[Any]:
    """A tool that somebody else has to run."""
    schema: dict[str, Any] = {"type": "object", "properties": {"box": {"type": "integer"}}}
    return ExternalToolset([ToolDefinition(name="ship", parameters_json_schema=schema)])


@contextlib.contextmanager
def loop_of_its_own() -> Generator[None]:
    """The library's `run_sync` takes the event loop of its thread, or makes one that nobody closes."""
    with asyncio.Runner() as runner:
        asyncio.set_event_loop(runner.get_loop())
        yield
        asyncio.set_event_loop(None)


@pytest.fixture
def loop() -> Generator[None]:
    with loop_of_its_own():
        yield


SHIP: Call = ("ship", {"box": 1})


# From deferred calls to questions.


@pytest.mark.proves("R6", "R20", "R1")
def test_there_is_one_request_for_each_call_in_order_with_its_own_metadata() -> None:
    metadata: dict[str, dict[str, Any]] = {"c3": {"path": "a.txt"}, "c1": {"size": 3}}
    found = build_approval_requests(calls(PAY_5, LOOK, PAY_9, metadata=metadata))
    assert [(each.tool_call_id, each.tool_name, dict(each.args), each.metadata) for each in found] == [
        ("c1", "pay", {"amount": 5}, {"size": 3}),
        ("c2", "look", {"name": "x"}, None),
        ("c3", "pay", {"amount": 9}, {"path": "a.txt"}),
    ]


@pytest.mark.proves("R6", "R20")
def test_building_requests_changes_nothing_and_can_be_repeated() -> None:
    requests = calls(PAY_5, ("look", '{"name": "x"}'), metadata={"c1": {"tags": ["a"]}})
    before = copy.deepcopy(requests)
    assert build_approval_requests(requests) == build_approval_requests(requests)
    assert requests == before


@pytest.mark.proves("R6")
def test_calls_that_somebody_else_makes_are_no_questions() -> None:
    requests = DeferredToolRequests(calls=[ToolCallPart("ship", {"box": 1}, tool_call_id="c1")])
    assert build_approval_requests(requests) == []
    assert build_approval_requests(DeferredToolRequests()) == []


@pytest.mark.proves("R1")
@pytest.mark.parametrize(
    ("given", "args"), [('{"amount": 5}', {"amount": 5}), (None, {}), ("", {}), ({"a": 1}, {"a": 1})]
)
def test_arguments_are_a_mapping_however_the_model_wrote_them(given: Any, args: dict[str, Any]) -> None:
    (request,) = build_approval_requests(calls(("pay", given)))
    assert request.args == args


@pytest.mark.proves("R7")
@pytest.mark.parametrize(
    ("metadata", "summary"),
    [
        ({"path": "p", "reason": "r", "summary": "s"}, "s"),
        ({"path": "p", "reason": "r"}, "r"),
        ({"path": "p"}, "p"),
        ({"summary": "", "reason": None, "path": "p"}, "p"),
        ({"other": "o"}, None),
        ({}, None),
    ],
)
def test_the_summary_is_what_the_tool_says_first_of_summary_reason_and_path(
    metadata: dict[str, Any], summary: str | None
) -> None:
    (request,) = build_approval_requests(calls(PAY_5, metadata={"c1": metadata}))
    assert request.summary == summary


@pytest.mark.proves("R7")
def test_a_call_without_metadata_has_no_summary() -> None:
    (request,) = build_approval_requests(calls(PAY_5))
    assert (request.summary, request.metadata) == (None, None)


# From questions to answers.


@pytest.mark.proves("R8", "R3", "R20", "R11", "R12")
def test_every_pending_approval_is_answered_in_one_result() -> None:
    edit = ApprovalDecision(approved=True, override_args={"amount": 1, "to": ["bob", {"x": 1}]})
    nothing = ApprovalDecision(approved=True, override_args={})
    ui = Window(YES, edit, nothing, NOTE, NO)
    results = collect_approvals_sync(calls(*[PAY_5] * 5), ui=ui)
    assert results == DeferredToolResults(
        approvals={
            "c1": True,
            "c2": ToolApproved(override_args={"amount": 1, "to": ["bob", {"x": 1}]}),
            "c3": ToolApproved(override_args={}),
            "c4": ToolDenied("ask me on Monday"),
            "c5": False,
        }
    )
    assert ui.saw == [PAY_5] * 5
    assert ui.modes == ["interactive"] * 5


@pytest.mark.proves("R11")
def test_edited_arguments_are_handed_on_in_ordinary_containers() -> None:
    ui = Window(ApprovalDecision(approved=True, override_args={"a": {"b": [1]}}))
    answer = collect_approvals_sync(calls(PAY_5), ui=ui).approvals["c1"]
    assert isinstance(answer, ToolApproved)
    edited: Any = answer.override_args
    assert (type(edited), type(edited["a"]), type(edited["a"]["b"])) == (dict, dict, list)
    assert TypeAdapter(ToolApproved).dump_python(answer, mode="json")["override_args"] == {"a": {"b": [1]}}


@pytest.mark.proves("R8")
async def test_the_async_form_takes_plain_functions_sync_and_async() -> None:
    def ask(request: ApprovalRequest) -> ApprovalDecision:
        return NOTE

    async def ask_later(request: ApprovalRequest) -> ApprovalDecision:
        return YES

    assert (await collect_approvals_async(calls(PAY_5), ui=ask)).approvals == {"c1": ToolDenied("ask me on Monday")}
    assert (await collect_approvals_async(calls(PAY_5), ui=ask_later)).approvals == {"c1": True}
    assert (await collect_approvals_async(calls(), ui=ask)) == DeferredToolResults()


@pytest.mark.proves("R8")
async def test_the_sync_form_does_not_stop_a_running_event_loop() -> None:
    with pytest.raises(RuntimeError, match="await the async form"):
        collect_approvals_sync(calls(PAY_5), ui=Shut())
    results = await asyncio.to_thread(collect_approvals_sync, calls(PAY_5), ui=Window())
    assert results.approvals == {"c1": True}


@pytest.mark.proves("R9")
@pytest.mark.parametrize(
    ("mode", "answer"), [("auto_approve", True), ("approve_all", True), ("auto_deny", False), ("strict", False)]
)
@pytest.mark.parametrize("ui", [Shut(), None], ids=["a UI", "no UI"])
def test_a_mode_decides_without_the_ui(mode: str, answer: bool, ui: Any) -> None:
    assert collect_approvals_sync(calls(PAY_5, LOOK), ui=ui, mode=mode).approvals == {"c1": answer, "c2": answer}


def test_an_unknown_mode_and_a_missing_ui_are_errors() -> None:
    with pytest.raises(ConfigurationError, match="unknown mode 'yolo'"):
        collect_approvals_sync(calls(PAY_5), ui=Shut(), mode="yolo")
    with pytest.raises(ConfigurationError, match="nobody to ask"):
        collect_approvals_sync(calls(PAY_5))


@pytest.mark.proves("R10", "R4")
def test_a_remembered_decision_is_applied_without_the_ui() -> None:
    memory = ApprovalMemory()
    ui = Window(SESSION, ApprovalDecision(approved=False, note="never", remember="session"))
    collect_approvals_sync(calls(("send", {"a": 1, "b": 2}), PAY_9), ui=ui, memory=memory)
    again = collect_approvals_sync(calls(("send", {"b": 2, "a": 1}), PAY_9), ui=Shut(), memory=memory)
    assert again.approvals == {"c1": True, "c2": ToolDenied("never")}


@pytest.mark.proves("R10", "R4")
def test_a_decision_is_remembered_within_one_batch_and_only_for_the_same_arguments() -> None:
    ui = Window(SESSION)
    results = collect_approvals_sync(calls(PAY_5, PAY_5, PAY_9), ui=ui, memory=ApprovalMemory())
    assert ui.saw == [PAY_5, PAY_9]
    assert results.approvals == {"c1": True, "c2": True, "c3": True}


@pytest.mark.proves("R4", "R10")
def test_what_is_not_to_be_remembered_is_asked_about_again() -> None:
    memory, ui = ApprovalMemory(), Window()
    for _ in range(2):
        collect_approvals_sync(calls(PAY_5), ui=ui, memory=memory)
    assert ui.saw == [PAY_5, PAY_5]
    assert not memory


@pytest.mark.proves("R9", "R10")
def test_of_a_mode_and_a_remembered_decision_the_stricter_wins() -> None:
    memory = ApprovalMemory()
    collect_approvals_sync(
        calls(PAY_5, PAY_9),
        ui=Window(SESSION, ApprovalDecision(approved=False, remember="session")),
        memory=memory,
    )
    denied = collect_approvals_sync(calls(PAY_5, PAY_9), mode="auto_deny", memory=memory)
    assert denied.approvals == {"c1": False, "c2": False}
    approved = collect_approvals_sync(calls(PAY_5, PAY_9), mode="auto_approve", memory=memory)
    assert approved.approvals == {"c1": True, "c2": False}


@pytest.mark.proves("H4", "R8")
@pytest.mark.parametrize("args", ['{"amount": ', "[1]", "5 pounds"])
@pytest.mark.parametrize("mode", ["interactive", "auto_approve"])
def test_arguments_that_are_no_json_object_are_never_approved_nor_remembered(args: str, mode: str) -> None:
    memory = ApprovalMemory()
    results = collect_approvals_sync(calls(("pay", args), PAY_5), ui=Window(SESSION), mode=mode, memory=memory)
    assert isinstance(results.approvals["c1"], ToolDenied)
    assert results.approvals["c2"] is True
    assert all(each.scope.kind == "call" for each in memory.list())
    assert len(memory.list()) == (1 if mode == "interactive" else 0)


@pytest.mark.proves("H5")
@pytest.mark.parametrize("answer", [True, None, "yes", {"approved": True}], ids=repr)
def test_an_answer_that_is_no_decision_approves_nothing(answer: Any) -> None:
    results = collect_approvals_sync(calls(PAY_5), ui=lambda request: answer)
    assert isinstance(results.approvals["c1"], ToolDenied)


@pytest.mark.proves("H5")
def test_a_ui_that_fails_approves_nothing_and_the_others_are_still_asked() -> None:
    def ask(request: ApprovalRequest) -> ApprovalDecision:
        if request.tool_name == "pay":
            raise OSError("the screen is gone")
        return YES

    results = collect_approvals_sync(calls(PAY_5, LOOK), ui=ask)
    assert isinstance(results.approvals["c1"], ToolDenied)
    assert results.approvals["c2"] is True


@pytest.mark.proves("R14")
@pytest.mark.parametrize(
    "metadata",
    [
        {"summary": "Pay 5", "path": "till", "nested": {"list": [1, 2.5, None, {"x": True}]}},
        {"presentation": {"colour": "red"}},
        {"presentation": "a picture", "description": 5},
        {"presentation": {"language": "python", "content": "1 + 1"}},
    ],
    ids=["nested", "a presentation of its own", "other words", "a presentation of ours"],
)
def test_what_a_tool_says_reaches_the_ui_unchanged(metadata: dict[str, Any]) -> None:
    ui = Window()
    assert collect_approvals_sync(calls(PAY_5, metadata={"c1": metadata}), ui=ui).approvals == {"c1": True}
    assert ui.asked[0].metadata == metadata


# The library's own approval, end to end.


def resumed(agent: Agent[Any, Any], stopped: Any, results: DeferredToolResults) -> Any:
    return agent.run_sync(message_history=stopped.all_messages(), deferred_tool_results=results)


@pytest.mark.proves("R13", "R8", "R12", "R16")
@pytest.mark.usefixtures("loop")
def test_a_predicate_on_the_arguments_works_end_to_end(till: Till) -> None:
    inner = FunctionToolset[Any](till.tools)
    toolset = ApprovalRequiredToolset(inner, lambda ctx, tool, args: tool.name == "pay" and args["amount"] > 3)
    agent = Agent(
        Scripted([("pay", {"amount": 1}), PAY_5, PAY_9, LOOK]).model, toolsets=[toolset], output_type=STOPPING
    )
    stopped = agent.run_sync("go")
    assert isinstance(stopped.output, DeferredToolRequests)
    assert [dict(each.args) for each in build_approval_requests(stopped.output)] == [{"amount": 5}, {"amount": 9}]
    assert sorted(till.ran) == [("look", "x"), ("pay", 1)]

    result = resumed(agent, stopped, collect_approvals_sync(stopped.output, ui=Window(YES, NOTE)))
    assert result.output == "done"
    assert sorted(till.ran) == [("look", "x"), ("pay", 1), ("pay", 5)]
    told = returns(result.all_messages())
    assert (told["c2"].content, told["c3"].content) == ("paid 5", "ask me on Monday")


@pytest.mark.proves("R14", "R11")
@pytest.mark.usefixtures("loop")
def test_a_tool_that_asks_by_itself_runs_with_the_edited_arguments(till: Till) -> None:
    def pay(ctx: RunContext[Any], amount: int = 1) -> str:
        if not ctx.tool_call_approved:
            raise ApprovalRequired(metadata={"reason": f"{amount} is a lot", "lines": [1, 2]})
        return till.pay(amount)

    agent = Agent(Scripted([PAY_5, PAY_9]).model, tools=[pay], output_type=STOPPING)
    stopped = agent.run_sync("go")
    assert isinstance(stopped.output, DeferredToolRequests)
    ui = Window(
        ApprovalDecision(approved=True, override_args={}), ApprovalDecision(approved=True, override_args={"amount": 2})
    )
    resumed(agent, stopped, collect_approvals_sync(stopped.output, ui=ui))
    assert [(each.summary, each.metadata) for each in ui.asked] == [
        ("5 is a lot", {"reason": "5 is a lot", "lines": [1, 2]}),
        ("9 is a lot", {"reason": "9 is a lot", "lines": [1, 2]}),
    ]
    assert sorted(till.ran) == [("pay", 1), ("pay", 2)]


@pytest.mark.proves("R8")
@pytest.mark.usefixtures("loop")
def test_calls_that_somebody_else_makes_are_left_alone(till: Till) -> None:
    agent = Agent(Scripted([PAY_5, SHIP]).model, toolsets=[ship_toolset()], output_type=STOPPING)
    agent.tool_plain(requires_approval=True)(till.pay)
    stopped = agent.run_sync("go")
    assert isinstance(stopped.output, DeferredToolRequests)
    results = collect_approvals_sync(stopped.output, ui=Window())
    assert (results.approvals, results.calls) == ({"c1": True}, {})
    results.calls["c2"] = "shipped"
    result = resumed(agent, stopped, results)
    assert {key: part.content for key, part in returns(result.all_messages()).items()} == {
        "c1": "paid 5",
        "c2": "shipped",
    }


@pytest.mark.proves("R10")
@pytest.mark.usefixtures("loop")
def test_a_memory_is_shared_by_runs(till: Till) -> None:
    memory, ui = ApprovalMemory(), Window(SESSION)
    for _ in range(2):
        agent = Agent(Scripted([PAY_5]).model, output_type=STOPPING)
        agent.tool_plain(requires_approval=True)(till.pay)
        stopped = agent.run_sync("go")
        assert isinstance(stopped.output, DeferredToolRequests)
        resumed(agent, stopped, collect_approvals_sync(stopped.output, ui=ui, memory=memory))
    assert ui.saw == [PAY_5]
    assert till.ran == [("pay", 5), ("pay", 5)]


@pytest.mark.proves("R18")
@pytest.mark.usefixtures("loop")
def test_the_blocking_wrapper_and_the_deferred_flow_work_side_by_side(till: Till) -> None:
    blocking, deferred = Window(), Window()
    toolset = ApprovalToolset(FunctionToolset[Any]([till.drop]), blocking, tool_configs={"drop": "required"})
    agent = Agent(Scripted([("drop", {"table": "t"}), PAY_5]).model, toolsets=[toolset], output_type=STOPPING)
    agent.tool_plain(requires_approval=True)(till.pay)
    stopped = agent.run_sync("go")
    assert till.ran == [("drop", "t")]
    assert isinstance(stopped.output, DeferredToolRequests)
    resumed(agent, stopped, collect_approvals_sync(stopped.output, ui=deferred))
    assert (blocking.saw, deferred.saw) == ([("drop", {"table": "t"})], [PAY_5])
    assert till.ran == [("drop", "t"), ("pay", 5)]


@pytest.mark.proves("R19")
def test_every_type_of_an_approval_is_defined_once() -> None:
    names = ["ApprovalRequest", "ApprovalDecision", "ApprovalMemory", "ApprovalPresentation", "ApprovalUI"]
    found = [
        node.name
        for file in Path(sayso.__file__).parent.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef) and node.name in names
    ]
    assert sorted(found) == sorted(names)


# With the controller of the agent's own `Approvals`.


def deferring(till: Till, controller: ApprovalController, *turns: list[Call]) -> Agent[None, Any]:
    return Agent(Scripted(*turns).model, tools=till.tools, output_type=STOPPING, capabilities=[Approvals(controller)])


@pytest.fixture
def controller() -> ApprovalController:
    policy = Policy({"pay": {"approval": "required", "description": "Pay {args.amount}"}}, default="none")
    return ApprovalController(policy=policy, mode="defer")


async def stopped_run(agent: Agent[None, Any]) -> tuple[list[Any], DeferredToolRequests]:
    result = await agent.run("go")
    assert isinstance(result.output, DeferredToolRequests)
    return result.all_messages(), result.output


@pytest.mark.proves("R8", "R16", "H3")
async def test_the_questions_of_a_controller_are_answered_and_the_resumed_run_executes_once(
    till: Till, controller: ApprovalController
) -> None:
    agent = deferring(till, controller, [PAY_5, PAY_9, LOOK])
    history, requests = await stopped_run(agent)
    assert till.ran == [("look", "x")]
    ui = Window(YES, NOTE)
    results = await collect_approvals_async(requests, ui=ui, controller=controller)
    assert await controller.pending() == []
    assert ui.saw == [PAY_5, PAY_9]
    assert [each.description for each in ui.asked] == ["Pay 5", "Pay 9"]

    for _ in range(2):
        result = await agent.run(message_history=copy.deepcopy(history), deferred_tool_results=copy.deepcopy(results))
        assert "ask me on Monday" in str(returns(result.all_messages())["c2"].content)
    assert till.ran == [("look", "x"), ("pay", 5)]


@pytest.mark.proves("R8")
@pytest.mark.usefixtures("loop")
def test_the_sync_form_answers_the_questions_of_a_controller(till: Till, controller: ApprovalController) -> None:
    agent = deferring(till, controller, [PAY_5])
    stopped = agent.run_sync("go")
    assert isinstance(stopped.output, DeferredToolRequests)
    resumed(agent, stopped, collect_approvals_sync(stopped.output, ui=Window(), controller=controller))
    assert till.ran == [("pay", 5)]


@pytest.mark.proves("R6", "R14")
async def test_the_questions_of_a_controller_can_be_built_without_saysos_own_marks(
    till: Till, controller: ApprovalController
) -> None:
    def pay(ctx: RunContext[None], amount: int) -> str:
        if not ctx.tool_call_approved:
            raise ApprovalRequired(metadata={"summary": f"Pay {amount}"})
        return till.pay(amount)

    agent = Agent(
        Scripted([PAY_5]).model,
        tools=[pay],
        output_type=STOPPING,
        capabilities=[Approvals(Policy(default="none"))],
    )
    _, requests = await stopped_run(agent)
    (request,) = build_approval_requests(requests)
    assert (request.summary, request.metadata) == ("Pay 5", {"summary": "Pay 5"})
    _, requests = await stopped_run(deferring(till, controller, [PAY_5]))
    (request,) = build_approval_requests(requests)
    assert request.metadata is None


@pytest.mark.proves("R11", "R64")
async def test_edited_arguments_are_what_the_resumed_run_executes(till: Till, controller: ApprovalController) -> None:
    agent = deferring(till, controller, [PAY_5])
    history, requests = await stopped_run(agent)
    ui = Window(ApprovalDecision(approved=True, override_args={"amount": 2}))
    results = await collect_approvals_async(requests, ui=ui, controller=controller)
    await agent.run(message_history=history, deferred_tool_results=results)
    assert till.ran == [("pay", 2)]


@pytest.mark.proves("R64", "H1")
async def test_an_edit_into_what_is_blocked_is_an_error_and_the_question_stays_open(till: Till) -> None:
    policy = Policy.from_dict(
        {
            "default": "none",
            "tools": {
                "pay": {"approval": "required"},
                "p*": {"approval": "blocked", "when": {"args.amount": {"gt": 100}}},
            },
        }
    )
    controller = ApprovalController(policy=policy, mode="defer")
    _, requests = await stopped_run(deferring(till, controller, [PAY_5]))
    ui = Window(ApprovalDecision(approved=True, override_args={"amount": 9000}))
    with pytest.raises(ApprovalBlocked):
        await collect_approvals_async(requests, ui=ui, controller=controller)
    assert len(await controller.pending()) == 1
    assert till.ran == []


@pytest.mark.proves("R9")
@pytest.mark.parametrize(("mode", "ran"), [("auto_approve", [("pay", 5)]), ("auto_deny", [])])
async def test_a_mode_answers_the_questions_of_a_controller_without_the_ui(
    till: Till, controller: ApprovalController, mode: str, ran: list[Any]
) -> None:
    agent = deferring(till, controller, [PAY_5])
    history, requests = await stopped_run(agent)
    results = await collect_approvals_async(requests, ui=Shut(), mode=mode, controller=controller)
    await agent.run(message_history=history, deferred_tool_results=results)
    assert till.ran == ran


@pytest.mark.proves("R10")
async def test_the_controller_remembers_what_the_ui_wants_remembered(
    till: Till, controller: ApprovalController
) -> None:
    agent = deferring(till, controller, [PAY_5], [PAY_5])
    history, requests = await stopped_run(agent)
    results = await collect_approvals_async(requests, ui=Window(SESSION), controller=controller)
    result = await agent.run(message_history=history, deferred_tool_results=results)
    assert result.output == "done"
    assert till.ran == [("pay", 5), ("pay", 5)]


@pytest.mark.proves("R10", "H9")
async def test_the_ui_is_offered_what_the_rule_lets_it_remember(till: Till) -> None:
    policy = Policy({"pay": {"approval": "required", "scope": "tool"}}, default="none")
    controller = ApprovalController(policy=policy, mode="defer")
    agent = deferring(till, controller, [PAY_5], [PAY_9])
    history, requests = await stopped_run(agent)
    (open_request,) = await controller.pending()
    ui = Window(ApprovalDecision(approved=True, remember="session", scope="tool"))
    results = await collect_approvals_async(requests, ui=ui, controller=controller)
    assert ui.asked[0].scopes == open_request.scopes
    result = await agent.run(message_history=history, deferred_tool_results=results)
    assert result.output == "done"
    assert till.ran == [("pay", 5), ("pay", 9)]


async def test_what_was_answered_elsewhere_is_not_asked_about_again(till: Till, controller: ApprovalController) -> None:
    agent = deferring(till, controller, [PAY_5])
    history, requests = await stopped_run(agent)
    (request,) = await controller.pending()
    await controller.answer(request.id, YES, who="eve")
    results = await collect_approvals_async(requests, ui=Shut(), controller=controller)
    await agent.run(message_history=history, deferred_tool_results=results)
    assert till.ran == [("pay", 5)]


async def test_a_controller_has_its_own_memory(controller: ApprovalController) -> None:
    with pytest.raises(ConfigurationError, match="its own memory"):
        await collect_approvals_async(calls(PAY_5), ui=Shut(), memory=ApprovalMemory(), controller=controller)


# Runs that are answered as they go.

Run = Callable[..., Any]


def run_awaited(agent: Agent[Any, Any], prompt: str, **settings: Any) -> Any:
    return asyncio.run(run_with_approval_async(agent, prompt, **settings))


def run_plainly(agent: Agent[Any, Any], prompt: str, **settings: Any) -> Any:
    with loop_of_its_own():
        return run_with_approval(agent, prompt, **settings)


RUNS = pytest.mark.parametrize("run", [run_awaited, run_plainly], ids=["async", "sync"])


def marked(till: Till, scripted: Scripted, **settings: Any) -> Agent[Any, Any]:
    agent = Agent(scripted.model, tools=[till.look], **settings)
    agent.tool_plain(requires_approval=True)(till.pay)
    return agent


@RUNS
@pytest.mark.proves("R15")
def test_a_run_goes_through_any_number_of_rounds_and_sends_the_prompt_once(till: Till, run: Run) -> None:
    scripted, ui = Scripted([PAY_5], [PAY_9, LOOK], [PAY_5], [PAY_9]), Window()
    assert run(marked(till, scripted), "go", ui=ui) == "done"
    assert ui.saw == [PAY_5, PAY_9, PAY_5, PAY_9]
    assert scripted.prompts == [1] * 5
    assert sorted(till.ran) == sorted([("pay", 5), ("pay", 9), ("look", "x"), ("pay", 5), ("pay", 9)])


@pytest.mark.usefixtures("loop")
def test_the_sync_run_is_called_from_plain_code(till: Till) -> None:
    ui = Window()
    assert run_with_approval(marked(till, Scripted([PAY_5])), "go", ui=ui) == "done"
    assert (ui.saw, ui.modes) == ([PAY_5], ["interactive"])
    assert till.ran == [("pay", 5)]


@RUNS
def test_an_agent_that_brings_approvals_runs_behind_one_guard_and_asks_the_given_one(till: Till, run: Run) -> None:
    toolset, ui = Wrapped([till.pay]), Window()
    lax = Approvals(Policy({"pay": "none"}, default="none"), mode="approve_all")
    controller = ApprovalController(policy=Policy({"pay": "required"}, default="none"), approval_callback=ui)
    agent = Agent(Scripted([PAY_5]).model, toolsets=[toolset], capabilities=[lax])
    assert run(agent, "go", controller=controller) == "done"
    assert (ui.saw, toolset.guards, till.ran) == ([PAY_5], 1, [("pay", 5)])


@RUNS
@pytest.mark.proves("H1")
def test_an_agent_that_brings_approvals_keeps_its_stricter_policy(till: Till, run: Run) -> None:
    toolset = Wrapped([till.pay])
    agent = Agent(
        Scripted([PAY_5]).model,
        toolsets=[toolset],
        capabilities=[Approvals(Policy({"pay": "blocked"}, default="none"))],
    )
    assert run(agent, "go", mode="auto_approve") == "done"
    assert (toolset.guards, till.ran) == (0, [])


@RUNS
@pytest.mark.proves("R12", "R56", "H12")
def test_a_refusal_is_told_to_the_model_and_the_run_goes_on(till: Till, run: Run) -> None:
    with capture_run_messages() as messages:
        assert run(marked(till, Scripted([PAY_5, PAY_9, LOOK])), "go", ui=Window(NOTE, YES)) == "done"
    assert len(till.ran) == 2
    told = str(returns(messages)["c1"].content)
    assert "ask me on Monday" in told
    assert "do not retry this call unchanged" in told


@RUNS
@pytest.mark.proves("R9", "R15")
@pytest.mark.parametrize(("mode", "ran"), [("auto_approve", [("pay", 5)]), ("auto_deny", [])])
def test_a_run_in_a_mode_asks_nobody(till: Till, run: Run, mode: str, ran: list[Any]) -> None:
    assert run(marked(till, Scripted([PAY_5])), "go", ui=Shut(), mode=mode) == "done"
    assert till.ran == ran


@RUNS
@pytest.mark.proves("R10", "R15")
def test_runs_that_share_a_memory_ask_once(till: Till, run: Run) -> None:
    memory, ui = ApprovalMemory(), Window(SESSION)
    for _ in range(2):
        run(marked(till, Scripted([PAY_5], [PAY_5])), "go", ui=ui, memory=memory)
    assert ui.saw == [PAY_5]
    assert till.ran == [("pay", 5)] * 4


@pytest.mark.proves("R10")
async def test_a_memory_is_shared_between_collecting_running_and_the_wrapper(till: Till) -> None:
    memory, ui = ApprovalMemory(), Window(SESSION)
    await collect_approvals_async(calls(PAY_5), ui=ui, memory=memory)
    await run_with_approval_async(marked(till, Scripted([PAY_5])), "go", ui=Shut(), memory=memory)
    toolset = ApprovalToolset(FunctionToolset[Any]([till.pay]), Shut(), memory, tool_configs={"pay": "required"})
    await Agent(Scripted([PAY_5]).model, toolsets=[toolset]).run("go")
    assert till.ran == [("pay", 5), ("pay", 5)]


@pytest.mark.proves("R16")
async def test_all_approvals_of_a_response_are_open_before_any_call_executes(till: Till) -> None:
    everybody = asyncio.Barrier(2)
    ran_before: list[int] = []

    async def ask(request: ApprovalRequest) -> ApprovalDecision:
        with anyio.fail_after(5):
            await everybody.wait()
        ran_before.append(len(till.ran))
        await everybody.wait()
        return YES

    await run_with_approval_async(marked(till, Scripted([PAY_5, PAY_9])), "go", ui=ask)
    assert ran_before == [0, 0]
    assert sorted(till.ran) == [("pay", 5), ("pay", 9)]


class Receipt(BaseModel):
    total: int


@RUNS
@pytest.mark.proves("R15")
def test_the_agents_own_output_type_is_kept(till: Till, run: Run) -> None:
    agent = Agent(TestModel(custom_output_args={"total": 5}), output_type=Receipt)
    agent.tool_plain(requires_approval=True)(till.pay)
    ui = Window()
    assert run(agent, "go", ui=ui) == Receipt(total=5)
    assert len(ui.asked) == len(till.ran) == 1


@RUNS
@pytest.mark.proves("R15")
def test_an_output_type_of_the_run_and_several_of_the_agent_are_kept(till: Till, run: Run) -> None:
    agent = Agent(TestModel(custom_output_args={"total": 5}))
    assert run(agent, "go", ui=Shut(), output_type=Receipt) == Receipt(total=5)
    several: Agent[None, Any] = Agent(TestModel(custom_output_args={"total": 5}), output_type=[Receipt, bool])
    assert run(several, "go", ui=Shut()) == Receipt(total=5)


@RUNS
@pytest.mark.proves("R15")
def test_an_agent_that_validates_its_output_still_does(till: Till, run: Run) -> None:
    agent = marked(till, Scripted([PAY_5]))

    @agent.output_validator
    def shout(output: str) -> str:
        return output.upper()

    assert run(agent, "go", ui=Window()) == "DONE"
    assert till.ran == [("pay", 5)]


@RUNS
@pytest.mark.proves("R15")
def test_a_run_that_needs_somebody_elses_call_returns_it_untouched(till: Till, run: Run) -> None:
    ui = Window()
    output = run(marked(till, Scripted([PAY_5, SHIP]), toolsets=[ship_toolset()]), "go", ui=ui)
    assert isinstance(output, DeferredToolRequests)
    assert [(part.tool_name, part.args_as_dict()) for part in output.calls] == [SHIP]
    assert output.approvals == []
    assert ui.saw == [PAY_5]
    assert till.ran == [("pay", 5)]


@RUNS
@pytest.mark.proves("R14", "R11")
def test_a_tool_of_the_run_that_asks_by_itself_is_asked_about_once(till: Till, run: Run) -> None:
    def pay(ctx: RunContext[Any], amount: int) -> str:
        if not ctx.tool_call_approved:
            raise ApprovalRequired(metadata={"summary": f"Pay {amount}", "tags": ["money"]})
        return till.pay(amount)

    ui = Window(ApprovalDecision(approved=True, override_args={"amount": 2}))
    run(Agent(Scripted([PAY_5]).model, tools=[pay]), "go", ui=ui)
    (request,) = ui.asked
    assert (request.summary, request.metadata) == ("Pay 5", {"summary": "Pay 5", "tags": ["money"]})
    assert till.ran == [("pay", 2)]


@RUNS
@pytest.mark.proves("R13", "R15")
def test_a_predicate_of_the_library_is_asked_about_as_the_run_goes(till: Till, run: Run) -> None:
    toolset = FunctionToolset[Any](till.tools).approval_required(
        lambda ctx, tool, args: tool.name == "pay" and args["amount"] > 6
    )
    ui = Window()
    run(Agent(Scripted([PAY_5, PAY_9]).model, toolsets=[toolset]), "go", ui=ui)
    assert ui.saw == [PAY_9]
    assert sorted(till.ran) == [("pay", 5), ("pay", 9)]


@RUNS
@pytest.mark.proves("R15")
def test_the_other_settings_of_a_run_are_passed_on(till: Till, run: Run) -> None:
    def whoami(ctx: RunContext[str]) -> str:
        seen.append(ctx.deps)
        return ctx.deps

    seen: list[str] = []
    scripted = Scripted([("whoami", {})])
    before = asyncio.run(Agent(Scripted().model).run("earlier"))
    agent = Agent(scripted.model, tools=[whoami], deps_type=str)
    run(agent, "go", ui=Shut(), deps="bob", message_history=before.all_messages())
    assert seen == ["bob"]
    assert scripted.prompts == [2, 2]


@RUNS
@pytest.mark.proves("R15")
def test_an_agent_that_defers_by_itself_can_be_answered_as_it_goes(till: Till, run: Run) -> None:
    agent = Agent(
        Scripted([PAY_5]).model, tools=till.tools, capabilities=[Approvals(Policy({"pay": "required"}, default="none"))]
    )
    ui = Window()
    assert run(agent, "go", ui=ui) == "done"
    assert ui.saw == [PAY_5]
    assert till.ran == [("pay", 5)]


@RUNS
@pytest.mark.proves("R15")
def test_a_run_with_the_controller_that_the_agent_has_already_asks_once(till: Till, run: Run) -> None:
    ui = Window()
    controller = ApprovalController(approval_callback=ui, policy=Policy({"pay": "required"}, default="none"))
    agent = Agent(Scripted([PAY_5]).model, tools=till.tools, capabilities=[Approvals(controller)])
    assert run(agent, "go", controller=controller) == "done"
    assert ui.saw == [PAY_5]
    assert till.ran == [("pay", 5)]


@RUNS
@pytest.mark.proves("R15")
def test_in_a_run_with_only_a_person_to_ask_tools_that_ask_for_nothing_run(till: Till, run: Run) -> None:
    ui = Window()
    assert run(Agent(Scripted([LOOK]).model, tools=till.tools), "go", ui=ui) == "done"
    assert till.ran == [("look", "x")]
    strict = Agent(Scripted([LOOK]).model, tools=till.tools, capabilities=[Approvals(Policy({"pay": "none"}))])
    run(strict, "go", ui=ui, mode="auto_deny")
    assert till.ran == [("look", "x")], "what the agent's own policy asks about is asked about"


@RUNS
@pytest.mark.proves("R15")
def test_a_run_takes_a_controller_with_its_own_policy(till: Till, run: Run) -> None:
    ui = Window()
    controller = ApprovalController(approval_callback=ui, policy=Policy({"look": "required"}, default="none"))
    run(Agent(Scripted([PAY_5, LOOK]).model, tools=till.tools), "go", controller=controller)
    assert ui.saw == [LOOK]
    assert sorted(till.ran) == [("look", "x"), ("pay", 5)]


@RUNS
@pytest.mark.parametrize("further", [{"ui": Shut()}, {"memory": ApprovalMemory()}], ids=["ui", "memory"])
def test_a_controller_of_a_run_comes_alone(run: Run, further: dict[str, Any]) -> None:
    agent = Agent(Scripted().model)
    with pytest.raises(ConfigurationError, match="pass it alone"):
        run(agent, "go", controller=ApprovalController(mode="approve_all"), **further)


@RUNS
@pytest.mark.proves("R54")
def test_a_run_with_nobody_to_ask_is_an_error(run: Run) -> None:
    with pytest.raises(ConfigurationError, match="nobody to ask"):
        run(Agent(Scripted().model), "go")


# Stopping in one process and going on in another.


def clerk(folder: Path, call: Call) -> tuple[Agent[None, Any], ApprovalController]:
    """The same agent in every process: what it did is a line in a file."""
    controller = ApprovalController(
        mode="defer", policy=Policy({"*": "required"}, default="none"), store=folder / "sayso.db", session="s1"
    )

    def pay(amount: int) -> str:
        with (folder / "effects").open("a", encoding="utf-8") as file:
            file.write(f"paid {amount}\n")
        return "paid"

    def label(tags: set[str]) -> str:
        with (folder / "effects").open("a", encoding="utf-8") as file:
            file.write(f"labelled {sorted(tags)}\n")
        return "labelled"

    agent = Agent(
        Scripted([call]).model, tools=[pay, label], output_type=STOPPING, capabilities=[Approvals(controller)]
    )
    return agent, controller


def stop(where: str, call: str) -> None:
    """Run until a person is needed, write down the history and the requests, and end."""
    folder = Path(where)
    name, args = json.loads(call)
    agent, controller = clerk(folder, (name, args))
    result = agent.run_sync("go")
    assert isinstance(result.output, DeferredToolRequests)
    (folder / "history.json").write_bytes(result.all_messages_json())
    (folder / "requests.json").write_bytes(TypeAdapter(DeferredToolRequests).dump_json(result.output))
    controller.close()


def go_on(where: str, answer: str) -> None:
    """Read what was written down, answer it unless that was done before, and finish the run."""
    folder = Path(where)
    agent, controller = clerk(folder, PAY_5)
    history = ModelMessagesTypeAdapter.validate_json((folder / "history.json").read_bytes())
    requests = TypeAdapter(DeferredToolRequests).validate_json((folder / "requests.json").read_bytes())
    ui = Window(ApprovalDecision(approved=answer == "yes", note="ask me on Monday"))
    results = collect_approvals_sync(requests, ui=ui, controller=controller)
    result = agent.run_sync(message_history=history, deferred_tool_results=results)
    told = [str(part.content) for part in returns(result.all_messages()).values()]
    print(json.dumps({"asked": len(ui.asked), "output": result.output, "told": told}))
    controller.close()


def in_process(function: Callable[..., None], folder: Path, word: str, *, seed: int) -> Any:
    """Call one of the functions above in a process of its own, with its own order of sets."""
    code = f"import sys; from {clerk.__module__} import {function.__name__} as act; act(*sys.argv[1:])"
    done = subprocess.run(
        [sys.executable, "-c", code, str(folder), word],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": str(seed)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout) if done.stdout else None


def effects(folder: Path) -> list[str]:
    file = folder / "effects"
    return file.read_text(encoding="utf-8").splitlines() if file.exists() else []


@pytest.mark.proves("R17", "H16", "H3")
def test_a_stopped_run_goes_on_once_in_another_process(tmp_path: Path) -> None:
    in_process(stop, tmp_path, json.dumps(PAY_5), seed=1)
    assert effects(tmp_path) == []
    first = in_process(go_on, tmp_path, "yes", seed=2)
    assert effects(tmp_path) == ["paid 5"]
    assert (first["asked"], first["output"]) == (1, "done")

    again = in_process(go_on, tmp_path, "yes", seed=3)
    assert effects(tmp_path) == ["paid 5"]
    assert again["asked"] == 0
    assert "already used" in again["told"][0]


@pytest.mark.proves("R17", "H2")
def test_arguments_without_an_order_are_the_same_in_another_process(tmp_path: Path) -> None:
    call: Call = ("label", {"tags": ["red", "green", "blue", "black"]})
    in_process(stop, tmp_path, json.dumps(call), seed=1)
    result = in_process(go_on, tmp_path, "yes", seed=2)
    assert effects(tmp_path) == ["labelled ['black', 'blue', 'green', 'red']"], result["told"]


@pytest.mark.proves("R17", "R12")
def test_a_run_that_is_refused_in_another_process_does_nothing(tmp_path: Path) -> None:
    in_process(stop, tmp_path, json.dumps(PAY_5), seed=1)
    result = in_process(go_on, tmp_path, "no", seed=2)
    assert effects(tmp_path) == []
    assert "ask me on Monday" in result["told"][0]
    assert result["output"] == "done"


@pytest.mark.proves("R17")
async def test_between_stop_and_resume_the_state_is_json(till: Till, controller: ApprovalController) -> None:
    agent = deferring(till, controller, [PAY_5, LOOK])
    before = asyncio.all_tasks()
    history, requests = await stopped_run(agent)
    assert asyncio.all_tasks() == before, "nothing waits"
    written = ModelMessagesTypeAdapter.dump_json(history)
    asked = TypeAdapter(DeferredToolRequests).dump_json(requests)
    results = await collect_approvals_async(
        TypeAdapter(DeferredToolRequests).validate_json(asked), ui=Window(), controller=controller
    )
    result = await agent.run(
        message_history=ModelMessagesTypeAdapter.validate_json(written), deferred_tool_results=results
    )
    assert result.output == "done"
    assert till.ran == [("look", "x"), ("pay", 5)]


@pytest.mark.proves("H1")
@pytest.mark.parametrize("rules", [{"pay": "blocked"}, {"pay": "required"}, {}])
@pytest.mark.parametrize("capabilities", [[], [Approvals()]])
async def test_a_run_without_a_controller_of_its_own_stays_under_the_policy_of_the_active_one(
    till: Till, rules: dict[str, str], capabilities: list[Any]
) -> None:
    asked: list[str] = []

    def no(request: ApprovalRequest) -> ApprovalDecision:
        asked.append(request.tool_name)
        return NO

    agent = Agent(Scripted([("pay", {"amount": 5})]).model, tools=[till.pay], capabilities=capabilities)
    with ApprovalController(mode="auto_deny", policy=Policy(rules)).activated():
        await run_with_approval_async(agent, "go", ui=no)
    assert till.ran == []
    assert asked == ([] if rules.get("pay") == "blocked" else ["pay"])
