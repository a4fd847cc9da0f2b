"""External tools, which another program runs: decided about like any other before the call is handed out."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic_ai import Agent, CallDeferred
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import ModelMessage, ModelResponse, ToolCallPart
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel
from pydantic_ai.tools import DeferredToolRequests, ToolDefinition
from pydantic_ai.toolsets import AbstractToolset, ExternalToolset
from tests.adapters.pydantic_ai.scripted import Scripted, Till, returns
from tests.people import YES, Person

from sayso import ApprovalController, ApprovalDecision, Policy
from sayso.adapters.pydantic_ai import Approvals, park, resume
from sayso.errors import ConfigurationError

NO = ApprovalDecision(approved=False, note="not there")
SCHEMA = {"type": "object", "properties": {"x": {"type": "integer"}}}
OUTPUTS: Any = [str, DeferredToolRequests]


def clicking() -> ExternalToolset[Any]:
    return ExternalToolset([ToolDefinition(name="click", parameters_json_schema=SCHEMA)])


def agent_of(approvals: Approvals, script: Scripted | None = None, **settings: Any) -> Agent[None, Any]:
    script = script or Scripted([("click", {"x": 1})])
    given: dict[str, Any] = {"toolsets": [clicking()], "capabilities": [approvals], **settings}
    return Agent(script.model, output_type=OUTPUTS, **given)


@pytest.mark.proves("H1")
@pytest.mark.parametrize(
    ("policy", "settings", "handed_out"),
    [
        (Policy({"click": "none"}), {"mode": "auto_deny"}, True),
        (Policy({"click": "required"}), {"mode": "auto_deny"}, False),
        (Policy({"click": "required"}), {"mode": "approve_all"}, True),
        (Policy({"click": "required"}), {"approval_callback": Person(YES)}, True),
        (Policy({"click": "required"}), {"approval_callback": Person(NO)}, False),
        (
            Policy({"click": {"approval": "blocked", "when": {"args.x": 1}}}, default="none"),
            {"mode": "approve_all"},
            False,
        ),
        (
            Policy({"click": {"approval": "blocked", "when": {"args.x": 2}}}, default="none"),
            {"mode": "auto_deny"},
            True,
        ),
        (Policy({"click": {"approval": "required", "approvers": {"count": 2}}}), {"mode": "approve_all"}, False),
        (Policy({"*": "none"}, default="required"), {"mode": "auto_deny"}, True),
    ],
)
async def test_an_external_call_is_handed_out_only_as_the_policy_and_the_answer_say(
    policy: Policy, settings: dict[str, Any], handed_out: bool
) -> None:
    result = await agent_of(Approvals(policy, **settings)).run("go")
    assert isinstance(result.output, DeferredToolRequests) is handed_out
    if handed_out:
        assert [part.tool_name for part in result.output.calls] == ["click"]
    else:
        assert "Not executed" in str(returns(result.all_messages())["c1"].content)


@pytest.mark.proves("H1")
async def test_run_stream_hands_out_no_external_call_that_is_refused() -> None:
    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
        if len(messages) > 1:
            yield "done"
        else:
            yield {0: DeltaToolCall(name="click", json_args='{"x": 1}', tool_call_id="c1")}

    approvals = Approvals(Policy({"click": "required"}), mode="auto_deny")
    agent = Agent(
        FunctionModel(stream_function=stream), toolsets=[clicking()], output_type=OUTPUTS, capabilities=[approvals]
    )
    async with agent.run_stream("go") as result:
        assert await result.get_output() == "done"


@pytest.mark.proves("H1", "H2")
async def test_a_deferred_external_call_is_asked_about_first_and_then_handed_out() -> None:
    controller = ApprovalController(policy=Policy({"click": "required"}), mode="defer")
    agent = agent_of(Approvals(controller))
    stopped = await agent.run("go")
    assert [len(stopped.output.approvals), len(stopped.output.calls)] == [1, 0]
    parked = await park(stopped, controller)
    (asked,) = await controller.pending()
    await controller.answer(asked.id, YES)
    handed_out = await resume(agent, parked, controller=controller)
    assert [part.tool_name for part in handed_out.output.calls] == ["click"]
    ended = await resume(agent, parked, controller=controller, calls={"c1": "clicked"})
    assert ended.output == "done"
    assert returns(ended.all_messages())["c1"].content == "clicked"


@pytest.mark.proves("H2")
async def test_the_arguments_of_an_external_call_cannot_be_edited() -> None:
    edited = Person(ApprovalDecision(approved=True, override_args={"x": 2}))
    result = await agent_of(Approvals(Policy({"click": "required"}), approval_callback=edited)).run("go")
    assert result.output == "done"
    assert "Not executed" in str(returns(result.all_messages())["c1"].content)


async def test_nobody_is_asked_about_an_external_call_beside_a_final_output() -> None:
    class Done(BaseModel):
        text: str

    def beside(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        output = ToolCallPart(info.output_tools[0].name, {"text": "done"})
        return ModelResponse(parts=[ToolCallPart("click", {"x": 1}, tool_call_id="c1"), output])

    person = Person(YES)
    output: Any = [Done, DeferredToolRequests]
    agent = Agent(
        FunctionModel(beside),
        toolsets=[clicking()],
        output_type=output,
        capabilities=[Approvals(Policy(), approval_callback=person)],
        end_strategy="exhaustive",
    )
    result = await agent.run("go")
    assert (result.output, person.asked) == (Done(text="done"), [])
    assert "beside the final result" in str(returns(result.all_messages())["c1"].content)


class Prefixing(AbstractCapability[Any]):
    """Gives every tool another name."""

    def get_wrapper_toolset(self, toolset: AbstractToolset[Any]) -> AbstractToolset[Any]:
        return toolset.prefixed("x")


class Adding(AbstractCapability[Any]):
    """Adds an external tool outside the guard."""

    def get_wrapper_toolset(self, toolset: AbstractToolset[Any]) -> AbstractToolset[Any]:
        from pydantic_ai.toolsets import CombinedToolset  # noqa: PLC0415

        return CombinedToolset([toolset, clicking()])


@pytest.mark.proves("H1")
async def test_a_rule_about_an_external_tool_holds_under_any_name_that_another_capability_gives_it() -> None:
    approvals = Approvals(Policy({"click": "required"}, default="none"), mode="auto_deny")
    result = await agent_of(approvals, Scripted([("x_click", {"x": 1})]), capabilities=[Prefixing(), approvals]).run(
        "go"
    )
    assert result.output == "done"


@pytest.mark.proves("H1")
async def test_an_external_tool_that_the_guard_does_not_see_is_refused() -> None:
    approvals = Approvals(Policy(), mode="approve_all")
    result = await agent_of(approvals, toolsets=[], capabilities=[Adding(), approvals]).run("go")
    assert result.output == "done"
    assert "does not see this tool" in str(returns(result.all_messages())["c1"].content)


@pytest.mark.proves("H1")
async def test_an_external_call_with_the_id_of_a_call_that_ran_is_decided_about(till: Till) -> None:
    class SameIds(Scripted):
        def _call(self, turn: int, at: int, call: Any) -> Any:
            part = super()._call(turn, at, call)
            part.tool_call_id = "same"
            return part

    approvals = Approvals(Policy({"look": "none", "click": "required"}), mode="auto_deny")
    script = SameIds([("look", {"name": "x"})], [("click", {"x": 1})])
    result = await agent_of(approvals, script, tools=[till.look]).run("go")
    assert result.output == "done"


async def test_a_tool_that_leaves_the_rest_to_another_program_is_asked_about_once(till: Till) -> None:
    def pay(amount: int) -> str:
        raise CallDeferred(metadata={"amount": amount})

    person = Person(YES)
    approvals = Approvals(Policy({"pay": "required"}), approval_callback=person)
    result = await agent_of(approvals, Scripted([("pay", {"amount": 5})]), tools=[pay]).run("go")
    assert [part.tool_name for part in result.output.calls] == ["pay"]
    assert len(person.asked) == 1


async def test_only_the_result_of_a_run_can_be_parked() -> None:
    controller = ApprovalController(policy=Policy(), mode="defer")
    with pytest.raises(ConfigurationError, match=r"takes what `agent\.run` returns"):
        await park("a result", controller)  # pyright: ignore[reportArgumentType]
