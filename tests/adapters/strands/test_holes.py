"""What Strands lets through by itself, and what becomes of it behind `Approvals`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from strands import Agent
from strands.hooks import AfterToolCallEvent, BeforeToolCallEvent
from strands.vended_interventions.hitl import HumanInTheLoop
from tests.adapters.conformance import Call, Response
from tests.adapters.conformance.toolbox import NO, YES, Toolbox
from tests.adapters.strands.driver import AgentAsTool, agent_of, new_folder, session_in, yes_to_all
from tests.adapters.strands.people import PAY, answer, guarded, person, told

from sayso import ApprovalController, Policy
from sayso.adapters.strands import Approvals, resume
from sayso.adapters.strands.stages import InvokeModelStage, add_middleware
from sayso.errors import ConfigurationError

FAIL: list[Response] = [[Call("fail", {"amount": 1})], "done"]


class Asks:
    """A hook that asks before some tools, as Strands' page about interrupts shows it."""

    def __init__(self, *tools: str) -> None:
        self._tools = tools

    def __call__(self, event: BeforeToolCallEvent) -> None:
        if event.tool_use["name"] in self._tools and event.interrupt("approval") != "y":
            event.cancel_tool = "refused"


def asking(tools: Toolbox, folder: Path, responses: Sequence[Response] = PAY, *names: str) -> Agent:
    """Return an agent without sayso that asks by such a hook, or lets the other tools run."""
    agent = agent_of(responses, [tools.pay()], session_manager=session_in(folder))
    agent.add_hook(Asks(*names), BeforeToolCallEvent)
    return agent


def change(folder: Path, before: str, after: str) -> None:
    """Change the files of a session."""
    for file in folder.rglob("*.json"):
        file.write_text(file.read_text().replace(before, after))


def copy_of(folder: Path) -> Path:
    """Return a copy of a session's folder."""
    other = new_folder()
    for file in folder.rglob("*.json"):
        target = other / file.relative_to(folder)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(file.read_bytes())
    return other


def test_strands_own_question_answered_in_a_copy_runs_twice() -> None:
    tools, folder = Toolbox(), new_folder()
    asking(tools, folder, PAY, "pay")("go")
    for each in (copy_of(folder), folder):
        agent = asking(tools, each, PAY[1:], "pay")
        agent(yes_to_all(agent))
    assert tools.amounts == [5, 5]


async def test_the_question_behind_approvals_answered_in_a_copy_runs_once() -> None:
    tools, folder, controller = Toolbox(), new_folder(), ApprovalController(mode="defer")
    await guarded(tools, folder, controller).invoke_async("go")
    copy = copy_of(folder)
    await answer(controller, YES)
    for each in (copy, folder):
        await resume(guarded(tools, each, controller, PAY[1:]), controller=controller)
    assert tools.amounts == [5]


def test_strands_runs_other_arguments_than_were_approved() -> None:
    tools, folder = Toolbox(), new_folder()
    asking(tools, folder, PAY, "pay")("go")
    change(folder, '"amount": 5', '"amount": 9000')
    agent = asking(tools, folder, PAY[1:], "pay")
    agent(yes_to_all(agent))
    assert tools.amounts == [9000]


async def test_other_arguments_than_were_approved_do_not_run_behind_approvals() -> None:
    tools, folder, controller = Toolbox(), new_folder(), ApprovalController(mode="defer")
    await guarded(tools, folder, controller).invoke_async("go")
    await answer(controller, YES)
    change(folder, '"amount": 5', '"amount": 9000')
    await resume(guarded(tools, folder, controller, PAY[1:]), controller=controller)
    assert tools.amounts == []


def test_strands_own_question_that_was_refused_runs_when_its_rule_is_gone() -> None:
    tools, folder = Toolbox(), new_folder()
    asking(tools, folder, PAY, "pay")("go")
    agent = asking(tools, folder, PAY[1:])
    agent(yes_to_all(agent, "no"))
    assert tools.amounts == [5]


async def test_a_refusal_stands_behind_approvals_though_its_rule_is_gone() -> None:
    tools, folder, controller = Toolbox(), new_folder(), ApprovalController(mode="defer")
    await guarded(tools, folder, controller).invoke_async("go")
    await answer(controller, NO)
    loose = ApprovalController(mode="defer", policy=Policy(default="none"), store=controller.store)
    await resume(guarded(tools, folder, loose, PAY[1:]), controller=loose)
    assert tools.amounts == []


def test_a_trusted_tool_of_strands_own_handler_is_trusted_in_the_files_of_the_session() -> None:
    tools, folder = Toolbox(), new_folder()

    def agent(responses: Sequence[Response]) -> Agent:
        asks = HumanInTheLoop(enable_trust=True)
        return agent_of(responses, [tools.pay()], session_manager=session_in(folder), interventions=[asks])

    agent(["hello"])("go")
    change(folder, '"state": {}', '"state": {"hitl:trusted_tools": ["pay"]}')
    agent(PAY)("go")
    assert tools.amounts == [5]


SAME: list[Response] = [[Call("pay", {"amount": 1}, "same"), Call("pay", {"amount": 9000}, "same")], "done"]


def test_two_calls_with_one_id_run_on_one_answer_in_strands() -> None:
    tools, folder = Toolbox(), new_folder()
    agent = asking(tools, folder, SAME, "pay")
    assert len(yes_to_all(agent)) == 0
    agent("go")
    assert len(yes_to_all(agent)) == 1
    agent(yes_to_all(agent))
    assert sorted(tools.amounts) == [1, 9000]


async def test_two_calls_with_one_id_do_not_share_an_answer_behind_approvals() -> None:
    tools, folder, controller = Toolbox(), new_folder(), ApprovalController(mode="defer")
    agent = guarded(tools, folder, controller, SAME)
    await agent.invoke_async("go")
    (request,) = await controller.pending()
    await answer(controller, YES)
    await resume(agent, controller=controller)
    assert tools.amounts in ([], [request.args["amount"]])


def again(times: int) -> Any:
    """Return a hook that lets a call be repeated."""
    left = [times]

    def retry(event: Any) -> None:
        event.retry = left[0] > 0
        left[0] -= 1

    return retry


def test_a_retry_runs_again_on_one_answer_in_strands() -> None:
    tools, folder = Toolbox(), new_folder()
    agent = asking(tools, folder, PAY, "pay")
    agent.add_hook(again(2), AfterToolCallEvent)
    agent("go")
    agent(yes_to_all(agent))
    assert tools.amounts == [5, 5, 5]


@pytest.mark.parametrize("mode", ["inline", "defer"])
async def test_a_retry_needs_an_approval_of_its_own(mode: str) -> None:
    tools, (inline, asked) = Toolbox(), person()
    controller = inline if mode == "inline" else ApprovalController(mode="defer")
    agent = guarded(tools, new_folder(), controller)
    agent.add_hook(again(2), AfterToolCallEvent)
    await agent.invoke_async("go")
    if mode == "defer":
        await answer(controller, YES)
        await resume(agent, controller=controller)
    assert (tools.amounts, len(asked)) == ([5], 1 if mode == "inline" else 0)
    assert "Not executed again" in told(agent)


def test_a_retry_of_a_call_that_nobody_was_asked_about_runs_again() -> None:
    tools, controller = Toolbox(), ApprovalController(mode="auto_deny", policy=Policy(default="none"))
    agent = agent_of(FAIL, [tools.fail()], Approvals(controller))
    agent.add_hook(again(1), AfterToolCallEvent)
    agent("go")
    assert tools.names == ["fail", "fail"]


def test_a_hidden_tool_that_is_called_runs_in_strands() -> None:
    def hide(stage: Any) -> Any:
        stage.tool_specs.clear()
        return stage

    tools = Toolbox()
    agent = agent_of(PAY, [tools.pay()])
    add_middleware(agent, InvokeModelStage.Input, hide)
    agent("go")
    assert tools.amounts == [5]


NESTED: list[Response] = [[Call("helper", {"prompt": "pay"}, "o1")], "done"]


def test_an_agent_in_a_tool_that_nobody_guards_runs_in_strands_and_is_refused_here() -> None:
    tools = Toolbox()
    agent_of(NESTED, [AgentAsTool(agent_of(PAY, [tools.pay()]), "helper")])("go")
    assert tools.amounts == [5]
    tools, (controller, asked) = Toolbox(), person(policy=Policy(default="none"))
    agent = agent_of(NESTED, [AgentAsTool(agent_of(PAY, [tools.pay()]), "helper")], Approvals(controller))
    with pytest.raises(ConfigurationError, match="'helper' is an agent without `Approvals`"):
        agent("go")
    assert (tools.ran, asked) == ([], [])


def test_an_agent_that_a_hook_chooses_is_refused_unless_it_is_guarded() -> None:
    tools, (controller, asked) = Toolbox(), person(policy=Policy(default="none"))
    helper = AgentAsTool(agent_of(PAY, [tools.pay()]), "helper")
    agent = agent_of([[Call("look", {"what": "x"})], "done"], [tools.look()], Approvals(controller))

    def choose(event: BeforeToolCallEvent) -> None:
        event.selected_tool = helper

    agent.add_hook(choose, BeforeToolCallEvent)
    agent("go")
    assert (tools.ran, asked) == ([], [])
    assert "an agent without `Approvals`" in told(agent)


def test_wrong_settings_get_one_sentence() -> None:
    agent = agent_of(PAY, [Toolbox().pay()], Approvals(Policy()))
    wrong: list[tuple[Callable[[], object], str]] = [
        (lambda: Approvals(on_denied="ignore"), "on_denied is 'ignore'"),  # type: ignore[arg-type]
        (lambda: Approvals(answered_by="ann"), "answered_by is 'ann'"),  # type: ignore[arg-type]
        (lambda: Approvals("sayso.yaml"), "policy"),  # type: ignore[arg-type]
        (lambda: Approvals(Policy()).guard(agent), "has `Approvals` already"),
        (lambda: Approvals(Policy()).guard("agent"), "no agent of Strands"),  # type: ignore[arg-type]
    ]
    for build, sentence in wrong:
        with pytest.raises(ConfigurationError, match=sentence):
            build()
