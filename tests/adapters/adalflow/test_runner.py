"""The runner that loses nothing: what the model is told, and what the audit knows."""

# AdalFlow has no types of its own.
# pyright: basic, reportArgumentType=false, reportAttributeAccessIssue=false, reportOptionalMemberAccess=false

from collections.abc import AsyncGenerator, Generator
from typing import Any

import pytest
from adalflow.components.agent.runner import Runner
from adalflow.core.func_tool import FunctionTool
from adalflow.core.types import ToolCallActivityRunItem, ToolOutput
from tests.adapters.adalflow.scripted import Till, agent_of, manager, observations, run
from tests.adapters.counting import Counting

from sayso import ApprovalController, ApprovalDecision, Policy, requires_approval
from sayso.adapters.adalflow import ApprovalOutcome, ApprovalResponse, ApprovalRunner, Approving, PermissionManager
from sayso.channels.terminal import TerminalChannel
from sayso.testing import ScriptedChannel

ONCE, CANCEL, MODIFY = ApprovalOutcome.PROCEED_ONCE, ApprovalOutcome.CANCEL, ApprovalOutcome.MODIFY
PAY = ("pay", {"amount": 5})
EVERY_WAY = pytest.mark.parametrize("way", ["call", "acall", "astream"])


def runner_of(tools: list[Any], answer: Any, *steps: Any, **settings: Any) -> tuple[ApprovalRunner, Any]:
    agent, script = agent_of(tools, *steps)
    return ApprovalRunner(agent, permission_manager=manager(lambda _: answer, **settings)), script


@EVERY_WAY
@pytest.mark.proves("H12", "R65")
def test_the_model_reads_the_note_of_a_refusal(way: str, till: Till) -> None:
    runner, script = runner_of(till.tools(), ApprovalResponse(CANCEL, "ask bob first"), PAY)
    run(runner, way)
    assert "do not retry this call unchanged. Their note: ask bob first" in script.last
    assert till.ran == []


@EVERY_WAY
def test_the_model_reads_why_a_call_is_blocked(way: str, till: Till) -> None:
    rule = {"pay": {"approval": "blocked", "block_reason": "the till is closed"}}
    runner, script = runner_of(till.tools(), ONCE, PAY)
    runner.set_permission_manager(manager(lambda _: ONCE, rule))
    run(runner, way)
    assert "Not executed: blocked by policy: the till is closed" in script.last


@EVERY_WAY
@pytest.mark.proves("R64")
def test_the_model_reads_which_arguments_it_ran_with_and_the_note(way: str, till: Till) -> None:
    answer = ApprovalResponse(MODIFY, "that is enough", kwargs={"amount": 1})
    runner, script = runner_of(till.tools(), answer, PAY)
    run(runner, way)
    (observed,) = observations(runner)
    ran = "A person changed the arguments: it ran as pay(amount=1, to='ann'). Result: paid 1 to ann"
    assert observed == f"{ran}\nNote of the person who allowed it: that is enough"
    assert ran in script.last
    assert runner.step_history[0].function.kwargs == {"amount": 5}, "what the model wanted stays"


@EVERY_WAY
def test_an_output_of_adalflow_s_own_kind_keeps_the_rest_of_it(way: str) -> None:
    def pay(amount: int) -> ToolOutput:
        return ToolOutput(output=amount, observation=f"paid {amount}", display="$")

    answer = ApprovalResponse(MODIFY, kwargs={"amount": 1})
    runner, _ = runner_of([FunctionTool(pay, require_approval=True)], answer, PAY)
    run(runner, way)
    assert observations(runner) == ["A person changed the arguments: it ran as pay(amount=1). Result: paid 1"]


@EVERY_WAY
def test_the_model_reads_that_a_tool_failed_and_the_audit_knows(way: str) -> None:
    def pay(amount: int) -> str:
        raise OSError("no change")

    runner, script = runner_of([FunctionTool(pay, require_approval=True)], ONCE, PAY)
    steps: list[str] = []
    runner.permission_manager = PermissionManager(
        lambda _: ONCE, policy=Policy(default="none"), hooks=[lambda entry: steps.append(entry.step)]
    )
    run(runner, way)
    assert "no change" in script.last
    assert steps == ["asked", "approved", "claimed", "raised"]


@EVERY_WAY
@pytest.mark.proves("H8")
def test_the_audit_knows_what_came_of_it(way: str, till: Till) -> None:
    steps: list[str] = []
    agent, _ = agent_of(till.tools(), PAY, ("look", {"what": "it"}))
    mine = PermissionManager(
        lambda _: ONCE, policy=Policy(default="none"), hooks=[lambda entry: steps.append(entry.step)]
    )
    run(ApprovalRunner(agent, permission_manager=mine), way)
    assert steps == ["asked", "approved", "claimed", "returned", "allowed", "returned"]


@EVERY_WAY
@pytest.mark.parametrize(("approval", "times"), [("none", 1), ("blocked", 1), ("required", 2)])
def test_a_call_is_judged_once_and_once_more_when_it_is_answered(
    way: str, approval: str, times: int, till: Till
) -> None:
    policy = Counting({"pay": approval})
    agent, _ = agent_of(till.tools(require_approval=False), PAY)
    run(ApprovalRunner(agent, permission_manager=PermissionManager(lambda _: ONCE, policy=policy)), way)
    assert policy.asked == times
    assert len(till.ran) == (approval != "blocked")


def pieces(*, later: bool) -> FunctionTool:
    def count(until: int) -> Generator[Any]:
        for number in range(until):
            yield ToolCallActivityRunItem(data=number)
        yield "a"
        yield f"counted to {until}"

    async def count_async(until: int) -> AsyncGenerator[Any]:
        for item in count(until):
            yield item

    count_async.__name__ = "count"
    return FunctionTool(count_async if later else count, require_approval=True)


@EVERY_WAY
@pytest.mark.parametrize("later", [False, True])
def test_a_tool_that_yields_runs_to_its_end_as_in_the_library(later: bool, way: str) -> None:
    step = ("count", {"until": 2})
    bare = Runner(agent_of([pieces(later=later)], step)[0])
    events = [name for name, _ in run(bare, way)]
    steps: list[str] = []
    mine = PermissionManager(
        lambda _: ONCE, policy=Policy(default="none"), hooks=[lambda entry: steps.append(entry.step)]
    )
    guarded = ApprovalRunner(agent_of([pieces(later=later)], step)[0], permission_manager=mine)
    told = [name for name, _ in run(guarded, way)]
    assert observations(guarded) == observations(bare)
    assert observations(bare) == ["counted to 2" if way == "astream" else ["a", "counted to 2"]]
    assert [name for name in told if name != "agent.tool_permission_request"] == events
    assert steps[-1] == "returned"


def test_a_mark_of_sayso_asks_once_with_what_it_says(till: Till) -> None:
    @requires_approval(description="Give money away", name="give")
    def pay(amount: int) -> str:
        till.ran.append(("pay", amount))
        return "ok"

    channel = ScriptedChannel()
    channel.approve("pay", note=None)
    agent, _ = agent_of([FunctionTool(pay)], PAY)
    controller = ApprovalController(channels=[channel], policy=Policy(default="none"))
    with controller.activated():
        run(ApprovalRunner(agent, permission_manager=PermissionManager(controller=controller)), "call")
    assert till.ran == [("pay", 5)]
    assert [request.description for request in channel.asked] == ["Give money away"]


def test_an_agent_inside_a_tool_asks_whom_the_outer_one_asks_and_can_only_tighten(till: Till) -> None:
    inner, _ = agent_of(till.tools(), PAY, ("look", {"what": "it"}))
    own = PermissionManager(lambda _: ONCE, policy=Policy({"pay": "none", "look": "blocked"}, default="none"))

    def hand_on() -> str:
        run(ApprovalRunner(inner, permission_manager=own), "call")
        return "handed on"

    channel = ScriptedChannel(ApprovalDecision(approved=True))
    outer, _ = agent_of([FunctionTool(hand_on)], ("hand_on", {}))
    controller = ApprovalController(channels=[channel], policy=Policy({"pay": "required"}, default="none"))
    run(ApprovalRunner(outer, permission_manager=PermissionManager(controller=controller)), "call")
    assert [(request.tool, request.agent_path) for request in channel.asked] == [("pay", ("clerk", "clerk"))]
    assert till.ran == [("pay", 5, "ann")]


@EVERY_WAY
def test_a_tool_that_takes_another_s_name_while_it_is_decided_about_does_not_run(way: str, till: Till) -> None:
    agent, script = agent_of(till.tools(), PAY)

    def ask(_: object) -> ApprovalOutcome:
        agent.tool_manager.context["pay"] = FunctionTool(lambda amount: till.ran.append(("other", amount)))
        return ONCE

    run(ApprovalRunner(agent, permission_manager=manager(ask)), way)
    assert till.ran == []
    assert "another tool has taken its name" in script.last


def test_the_mix_in_goes_before_a_runner_of_one_s_own(till: Till) -> None:
    class Mine(Approving, Runner):
        pass

    agent, script = agent_of(till.tools(), PAY)
    run(Mine(agent, permission_manager=manager(lambda _: ApprovalResponse(CANCEL, "no money"))), "call")
    assert "no money" in script.last


@EVERY_WAY
def test_the_model_reads_that_nobody_could_be_asked_and_no_person_is_named(
    way: str, till: Till, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tests have no terminal."""
    monkeypatch.delenv("CI", raising=False)
    agent, script = agent_of(till.tools(), PAY)
    runner = ApprovalRunner(agent, permission_manager=PermissionManager(channels=[TerminalChannel()]))
    events = run(runner, way)
    assert "Not executed: nobody can be asked: there is no terminal. Nobody has decided" in script.last
    assert "refused" not in script.last
    outputs = [item.data.output for name, item in events if name == "agent.tool_call_complete"]
    found = [(each.status, each.metadata["sayso"]["cause"]) for each in outputs]
    assert found == ([("cancelled", "unattended")] if way == "astream" else [])
