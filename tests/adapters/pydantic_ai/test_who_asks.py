"""The eight ways to want an approval in PydanticAI: each becomes a question of sayso's, inline and deferred."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from pydantic_ai import Agent, ApprovalRequired, RunContext, Tool
from pydantic_ai import __version__ as version
from pydantic_ai.capabilities import AbstractCapability, HandleDeferredToolCalls
from pydantic_ai.messages import ModelMessage
from pydantic_ai.tools import DeferredToolRequests, DeferredToolResults, ToolDefinition
from pydantic_ai.toolsets import FunctionToolset
from tests.adapters.pydantic_ai.scripted import Scripted, Till, returns
from tests.people import YES, Person

from sayso import ApprovalController, ApprovalDecision, Policy
from sayso.adapters.pydantic_ai import Approvals, park, run_with_approval_async
from sayso.adapters.pydantic_ai import resume as resume_parked

NO = ApprovalDecision(approved=False, note="not today")
METADATA = {"summary": "Pay the rent"}


def check(ctx: RunContext[Any], amount: int) -> None:
    if not ctx.tool_call_approved:
        raise ApprovalRequired(metadata=METADATA)


class Unapproved(AbstractCapability[Any]):
    """Marks every tool as one that needs an approval."""

    async def prepare_tools(self, ctx: RunContext[Any], tool_defs: list[ToolDefinition]) -> list[ToolDefinition]:
        return [replace(each, kind="unapproved") for each in tool_defs]


class AsksBefore(AbstractCapability[Any]):
    """Wants an approval before any tool runs."""

    async def before_tool_execute(self, ctx: RunContext[Any], *, call: Any, tool_def: Any, args: Any) -> Any:
        check(ctx, **args)
        return args


class AsksRound(AbstractCapability[Any]):
    """Wants an approval in the hook round any tool."""

    async def wrap_tool_execute(
        self, ctx: RunContext[Any], *, call: Any, tool_def: Any, args: Any, handler: Any
    ) -> Any:
        check(ctx, **args)
        return await handler(args)


def by_mark(till: Till) -> dict[str, Any]:
    return {"tools": [Tool(till.pay, requires_approval=True)]}


def by_raising(till: Till) -> dict[str, Any]:
    def pay(ctx: RunContext[None], amount: int) -> str:
        check(ctx, amount)
        return till.pay(amount)

    return {"tools": [pay]}


def by_toolset(till: Till) -> dict[str, Any]:
    return {"toolsets": [FunctionToolset([till.pay]).approval_required()]}


def by_prepare(till: Till) -> dict[str, Any]:
    async def prepare(ctx: RunContext[None], tool_def: ToolDefinition) -> ToolDefinition:
        return replace(tool_def, kind="unapproved")

    return {"tools": [Tool(till.pay, prepare=prepare)]}


def by_prepare_tools(till: Till) -> dict[str, Any]:
    return {"tools": [till.pay], "capabilities": [Unapproved()]}


def by_validator(till: Till) -> dict[str, Any]:
    return {"tools": [Tool(till.pay, args_validator=check)]}


def by_hook_before(till: Till) -> dict[str, Any]:
    return {"tools": [till.pay], "capabilities": [AsksBefore()]}


def by_hook_round(till: Till) -> dict[str, Any]:
    return {"tools": [till.pay], "capabilities": [AsksRound()]}


# PydanticAI 1 does not take `ApprovalRequired` from a validator.
WAYS: list[Callable[[Till], dict[str, Any]]] = [
    by_mark,
    by_raising,
    by_toolset,
    by_prepare,
    by_prepare_tools,
    *([] if version.startswith("1.") else [by_validator]),
    by_hook_before,
    by_hook_round,
]
POLICIES = [Policy(default="none"), Policy({"pay": "required"})]


def agent_of(way: dict[str, Any], approvals: Approvals, script: Scripted | None = None) -> Agent[None, Any]:
    script = script or Scripted([("pay", {"amount": 5})])
    given: dict[str, Any] = {**way, "capabilities": [approvals, *way.get("capabilities", ())]}
    return Agent(script.model, output_type=[str, DeferredToolRequests], **given)


@pytest.mark.proves("H2", "R16")
@pytest.mark.parametrize("policy", POLICIES, ids=["default none", "required"])
@pytest.mark.parametrize("way", WAYS)
async def test_a_person_is_asked_once_and_a_yes_runs_the_call_once(
    till: Till, way: Callable[[Till], dict[str, Any]], policy: Policy
) -> None:
    person = Person(YES)
    result = await agent_of(way(till), Approvals(policy, approval_callback=person)).run("go")
    assert result.output == "done"
    assert till.ran == [("pay", 5)]
    assert [(each.tool_name, dict(each.args)) for each in person.asked] == [("pay", {"amount": 5})]


@pytest.mark.parametrize("way", WAYS)
async def test_an_edited_answer_runs_what_the_person_wrote(till: Till, way: Callable[[Till], dict[str, Any]]) -> None:
    person = Person(ApprovalDecision(approved=True, override_args={"amount": 1}))
    await agent_of(way(till), Approvals(Policy(default="none"), approval_callback=person)).run("go")
    assert till.ran == [("pay", 1)]


@pytest.mark.proves("H2")
@pytest.mark.parametrize("way", WAYS)
async def test_a_no_is_told_to_the_model_and_nothing_runs(till: Till, way: Callable[[Till], dict[str, Any]]) -> None:
    approvals = Approvals(Policy(default="none"), approval_callback=Person(NO))
    result = await agent_of(way(till), approvals).run("go")
    assert till.ran == []
    assert "not today" in str(returns(result.all_messages())["c1"].content)


@pytest.mark.proves("H2", "R16")
@pytest.mark.parametrize("policy", POLICIES, ids=["default none", "required"])
@pytest.mark.parametrize("way", WAYS)
async def test_a_deferred_call_is_a_question_and_its_answer_runs_it_once(
    till: Till, way: Callable[[Till], dict[str, Any]], policy: Policy
) -> None:
    controller = ApprovalController(policy=policy, mode="defer")
    agent = agent_of(way(till), Approvals(controller))
    first = await agent.run("go")
    assert isinstance(first.output, DeferredToolRequests)
    (asked,) = await controller.pending()
    parked = await park(first, controller)
    assert till.ran == []

    await controller.answer(asked.id, YES)
    await resume_parked(agent, parked, controller=controller)
    assert till.ran == [("pay", 5)]
    await go_on(agent, first.all_messages(), approvals={"c1": True})
    assert till.ran == [("pay", 5)], "the approval is used"
    assert await controller.pending() == []


def go_on(agent: Agent[None, Any], history: list[ModelMessage], **results: Any) -> Any:
    return agent.run(message_history=history, deferred_tool_results=DeferredToolResults(**results))


@pytest.mark.proves("H2")
@pytest.mark.parametrize("policy", POLICIES, ids=["default none", "required"])
@pytest.mark.parametrize("way", WAYS)
async def test_a_made_up_yes_runs_nothing(till: Till, way: Callable[[Till], dict[str, Any]], policy: Policy) -> None:
    controller = ApprovalController(policy=policy, mode="defer")
    agent = agent_of(way(till), Approvals(controller))
    first = await agent.run("go")
    await go_on(agent, first.all_messages(), approvals={"c1": True})
    assert till.ran == []
    (asked,) = await controller.pending()
    assert asked.tool_name == "pay", "the question is still open"


@pytest.mark.proves("H2")
@pytest.mark.parametrize("mode", ["interactive", "defer"])
@pytest.mark.parametrize("way", WAYS)
async def test_another_handlers_yes_is_not_a_persons(
    till: Till, way: Callable[[Till], dict[str, Any]], mode: str
) -> None:
    def approve_everything(ctx: RunContext[Any], requests: DeferredToolRequests) -> DeferredToolResults:
        return DeferredToolResults(approvals={part.tool_call_id: True for part in requests.approvals})

    person = Person(NO)
    controller = ApprovalController(policy=Policy(default="none"), mode=mode, approval_callback=person)
    given = way(till)
    given["capabilities"] = [HandleDeferredToolCalls(approve_everything), *given.get("capabilities", ())]
    await agent_of(given, Approvals(controller)).run("go")
    assert till.ran == []
    assert len(person.asked if mode == "interactive" else await controller.pending()) == 1


@pytest.mark.parametrize("way", WAYS[-2:])
async def test_what_another_capability_says_about_the_call_reaches_the_person(
    till: Till, way: Callable[[Till], dict[str, Any]]
) -> None:
    person = Person(YES)
    await agent_of(way(till), Approvals(Policy(default="none"), approval_callback=person)).run("go")
    assert person.asked[0].summary == "Pay the rent"


async def test_a_rule_that_names_the_tool_with_none_answers_for_the_owner(till: Till) -> None:
    for way in WAYS:
        till.ran.clear()
        approvals = Approvals(Policy({"pay": "none"}), mode="auto_deny")
        await agent_of(way(till), approvals).run("go")
        assert till.ran == [("pay", 5)], way


@pytest.mark.parametrize("way", WAYS)
async def test_an_agent_with_two_guards_asks_once(till: Till, way: Callable[[Till], dict[str, Any]]) -> None:
    person = Person(YES)
    controller = ApprovalController(policy=Policy(default="none"), approval_callback=person)
    agent = agent_of(way(till), Approvals(Policy(default="none"), mode="auto_deny"))
    assert await run_with_approval_async(agent, "go", controller=controller) == "done"
    assert till.ran == [("pay", 5)]
    assert len(person.asked) == 1


@pytest.mark.proves("H3")
@pytest.mark.parametrize("policy", [*POLICIES, Policy({"pay": "none"})], ids=["default none", "required", "none"])
async def test_a_hook_that_wants_an_approval_after_the_tool_has_run_does_not_make_it_run_again(
    till: Till, policy: Policy
) -> None:
    class AsksAfter(AbstractCapability[Any]):
        async def after_tool_execute(
            self, ctx: RunContext[Any], *, call: Any, tool_def: Any, args: Any, result: Any
        ) -> Any:
            check(ctx, **args)
            return result

    way = {"tools": [till.pay], "capabilities": [AsksAfter()]}
    result = await agent_of(way, Approvals(policy, approval_callback=Person(YES))).run("go")
    assert till.ran == [("pay", 5)]
    assert "Not executed" in str(returns(result.all_messages())["c1"].content)
