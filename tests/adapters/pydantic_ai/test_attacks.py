"""Ways in which an attacker once got a call past the adapter: each ran something that nobody had agreed to."""

from collections.abc import Iterable
from dataclasses import dataclass as stdlib_dataclass
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator, BaseModel, ConfigDict, Discriminator, Tag
from pydantic.dataclasses import dataclass
from pydantic_ai import Agent, CallDeferred
from pydantic_ai.tools import DeferredToolRequests, DeferredToolResults, ToolDenied
from tests.adapters.pydantic_ai.scripted import Call, Scripted, Till
from tests.people import YES

from sayso import ApprovalController, ApprovalDecision, ApprovalRequest, Policy, ToolCall, Verdict, requires_approval
from sayso.adapters.pydantic_ai import (
    Approvals,
    collect_approvals_async,
    delegate,
    park,
    resume,
    run_with_approval_async,
)
from sayso.errors import ApprovalDenied, ConfigurationError

PAY: Call = ("pay", {"amount": 5})
OUTPUTS: Any = [str, DeferredToolRequests]


def yes(_: ApprovalRequest) -> ApprovalDecision:
    return YES


@pytest.mark.proves("H2", "H3")
async def test_a_run_that_had_the_capability_for_itself_is_resumed_behind_the_edge(till: Till) -> None:
    controller = ApprovalController(policy=Policy({"pay": "required"}, default="none"), mode="defer")
    agent: Agent[None, Any] = Agent(Scripted([PAY]).model, tools=[till.pay], output_type=OUTPUTS)
    stopped = await agent.run("go", capabilities=[Approvals(controller)])
    ids = [await park(stopped, controller) for _ in range(2)]
    (request,) = await controller.pending()
    await controller.answer(request.id, ApprovalDecision(approved=False, note="no"))
    for parked in ids:
        await resume(agent, parked, controller=controller)
    assert till.ran == []


@pytest.mark.proves("H1")
@pytest.mark.parametrize("word", ["blocked", "required"])
async def test_the_policy_of_an_agent_in_the_middle_binds_those_below_it(till: Till, word: str) -> None:
    inner = Agent(Scripted([PAY]).model, name="inner", tools=[till.pay])
    middle = Agent(Scripted([("ask_inner", {})]).model, capabilities=[Approvals(Policy({"pay": word}, default="none"))])

    @middle.tool_plain
    async def ask_inner() -> str:
        return await delegate(inner, "go")

    outer = Agent(
        Scripted([("ask_middle", {})]).model, capabilities=[Approvals(Policy(default="none"), mode="auto_deny")]
    )

    @outer.tool_plain
    async def ask_middle() -> str:
        return await delegate(middle, "go")

    await outer.run("go")
    assert till.ran == []


def moved(path: str) -> str:
    return path.replace("@", "/etc")


@pytest.mark.proves("H4", "H13")
async def test_edited_arguments_are_judged_as_the_tool_would_get_them(till: Till) -> None:
    def rule(args: dict[str, Any]) -> Verdict:
        blocked = args.get("amount") == 13 or "/etc" in args.get("path", "")
        return Verdict(approval="blocked" if blocked else "required", reason="so")

    def open_file(path: Annotated[str, AfterValidator(moved)]) -> str:
        return till.look(path)

    edits = {"pay": {"amount": "13"}, "open_file": {"path": "@/passwd"}}

    def edit(request: ApprovalRequest) -> ApprovalDecision:
        return ApprovalDecision(approved=True, override_args=edits[request.tool_name])

    policy = Policy({name: {"needs_approval": rule} for name in edits}, default="none")
    script = Scripted([PAY, ("open_file", {"path": "x"})])
    approvals = Approvals(policy, approval_callback=edit)
    await Agent(script.model, tools=[till.pay, open_file], capabilities=[approvals]).run("go")
    assert till.ran == []


@pytest.mark.proves("R31", "H1")
async def test_what_a_marked_function_says_itself_is_heard(till: Till) -> None:
    def never(call: ToolCall) -> Verdict:
        return Verdict(approval="blocked", reason=f"never {call.tool}")

    @requires_approval(needs_approval=never)
    def pay(amount: int) -> str:
        return till.pay(amount)

    agent = Agent(
        Scripted([PAY]).model, tools=[pay], capabilities=[Approvals(Policy(default="none"), approval_callback=yes)]
    )
    await agent.run("go")
    assert till.ran == []


def banked(till: Till, controller: ApprovalController) -> Agent[None, Any]:
    """An agent whose tool lets another one pay, from the account that it names."""
    cashier = Agent(Scripted([PAY]).model, name="cashier", tools=[till.pay])
    manager: Agent[None, Any] = Agent(
        Scripted([("settle", {"account": "ann"})]).model, capabilities=[Approvals(controller)], output_type=OUTPUTS
    )

    @manager.tool_plain
    async def settle(account: str) -> str:
        till.look(account)
        return await delegate(cashier, f"pay from {account}")

    return manager


def from_account(messages: list[Any], account: str) -> list[Any]:
    for message in messages:
        for part in message.parts:
            if part.part_kind == "tool-call":
                part.args = {"account": account}
    return messages


@pytest.mark.proves("H2", "H4")
async def test_what_an_inner_agent_was_allowed_is_not_for_another_call_of_the_outer_one(till: Till) -> None:
    controller = ApprovalController(policy=Policy({"pay": "required"}, default="none"), mode="defer")
    agent = banked(till, controller)
    stopped = await agent.run("go")
    (request,) = await controller.pending()
    await controller.answer(request.id, YES)
    results = stopped.output.build_results(approve_all=True)
    history = stopped.all_messages()
    await agent.run(message_history=from_account(history, "mallory"), deferred_tool_results=results)
    assert ("pay", 5) not in till.ran
    await agent.run(message_history=from_account(history, "ann"), deferred_tool_results=results)
    assert till.ran[-2:] == [("look", "ann"), ("pay", 5)], "the true one still goes on"


async def test_a_tool_that_calls_two_agents_is_told_that_it_cannot() -> None:
    inner = Agent(Scripted().model, name="inner")
    outer = Agent(
        Scripted([("ask", {})]).model, capabilities=[Approvals(Policy(default="none"), approval_callback=yes)]
    )

    @outer.tool_plain
    async def ask() -> str:
        return await delegate(inner, "one") + await delegate(inner, "two")

    with pytest.raises(ConfigurationError, match="calls `delegate` once"):
        await outer.run("go")


@pytest.mark.proves("H1", "H9")
@pytest.mark.parametrize("terms", [{"approvers": {"count": 2}}, {"remember": False}])
async def test_the_stricter_terms_of_a_nested_agent_hold(till: Till, terms: dict[str, Any]) -> None:
    asked: list[str] = []

    def always(request: ApprovalRequest) -> ApprovalDecision:
        asked.append(request.id)
        return ApprovalDecision(approved=True, remember="always")

    stricter = Policy({"pay": {"approval": "required", **terms}}, default="none")
    inner = Agent(Scripted([PAY], [PAY]).model, tools=[till.pay], capabilities=[Approvals(stricter)])
    approvals = Approvals(Policy({"pay": "required"}, default="none"), approval_callback=always)
    outer = Agent(Scripted([("ask", {})]).model, capabilities=[approvals])

    @outer.tool_plain
    async def ask() -> str:
        return await delegate(inner, "go")

    await outer.run("go")
    assert (len(asked), len(till.ran)) == ((0, 0) if "approvers" in terms else (2, 2))


class Draft(BaseModel):
    id: int


class Account(BaseModel):
    id: int


def kind(value: Any) -> str:
    return "account" if isinstance(value, Account) or "account" in value else "draft"


Either = Annotated[Annotated[Draft, Tag("draft")] | Annotated[Account, Tag("account")], Discriminator(kind)]


@dataclass(config=ConfigDict(extra="allow"))
class Loose:
    id: int


@pytest.mark.proves("H4", "H9")
async def test_a_remembered_yes_is_for_what_the_tool_gets_and_not_for_what_only_looks_alike() -> None:
    got: list[Any] = []

    def remove(what: Either) -> str:
        got.append(what)
        return "removed"

    def loosen(what: Loose) -> str:
        got.append(what)
        return "done"

    answers = iter([ApprovalDecision(approved=True, remember="always")] * 2 + [ApprovalDecision(approved=False)] * 2)
    first: list[Call] = [("remove", {"what": {"id": 1}}), ("loosen", {"what": {"id": 1}})]
    second: list[Call] = [("remove", {"what": {"id": 1, "account": 1}}), ("loosen", {"what": {"id": 1, "force": True}})]

    def ask(_: ApprovalRequest) -> ApprovalDecision:
        return next(answers)

    approvals = Approvals(Policy({"*": "required"}, default="none"), approval_callback=ask)
    await Agent(Scripted(first, second).model, tools=[remove, loosen], capabilities=[approvals]).run("go")
    assert len(got) == 2


async def test_arguments_that_can_be_looked_at_only_once_reach_the_tool() -> None:
    got: list[list[int]] = []

    def total(amounts: Iterable[int]) -> int:
        got.append(list(amounts))
        return sum(got[-1])

    for word in ("none", "required"):
        approvals = Approvals(Policy({"total": word}, default="none"), approval_callback=yes)
        await Agent(Scripted([("total", {"amounts": [1, 2]})]).model, tools=[total], capabilities=[approvals]).run("go")
    assert got == [[1, 2], [1, 2]]


@pytest.mark.proves("H2")
@pytest.mark.parametrize("approved_before", [False, True])
async def test_a_no_that_the_caller_gives_holds_also_after_a_yes_that_has_not_run(
    till: Till, tmp_path: Path, approved_before: bool
) -> None:
    controller = ApprovalController(
        policy=Policy({"pay": "required"}, default="none"), mode="defer", store=tmp_path / "state.db"
    )
    agent: Agent[None, Any] = Agent(
        Scripted([PAY]).model, tools=[till.pay], capabilities=[Approvals(controller)], output_type=OUTPUTS
    )
    stopped = await agent.run("go")
    (part,) = stopped.output.approvals
    if approved_before:
        await controller.answer((await controller.pending())[0].id, YES)
    results = stopped.output.build_results(approvals={part.tool_call_id: ToolDenied("no")})
    await agent.run(message_history=stopped.all_messages(), deferred_tool_results=results)
    assert await controller.pending() == []
    again = stopped.output.build_results(approve_all=True)
    await agent.run(message_history=stopped.all_messages(), deferred_tool_results=again)
    assert till.ran == []
    await controller.aclose()


@pytest.mark.proves("H2")
async def test_a_result_is_not_made_up_for_a_call_that_waits_for_an_agent_inside_it(till: Till) -> None:
    controller = ApprovalController(policy=Policy({"pay": "required"}, default="none"), mode="defer")
    agent = banked(till, controller)
    stopped = await agent.run("go")
    (part,) = stopped.output.approvals
    results = DeferredToolResults(calls={part.tool_call_id: "settled, honestly"})
    with pytest.raises(ApprovalDenied, match="a result is given for the call"):
        await agent.run(message_history=stopped.all_messages(), deferred_tool_results=results)
    assert len(await controller.pending()) == 1


@pytest.mark.proves("R17")
async def test_a_call_that_began_by_a_remembered_yes_goes_on(till: Till) -> None:
    controller = ApprovalController(
        policy=Policy({"pay": "required", "settle": {"approval": "once_per_session", "scope": "tool"}}, default="none"),
        mode="defer",
    )
    agent = banked(till, controller)
    for _ in range(2):
        result = await agent.run("go")
        while isinstance(result.output, DeferredToolRequests):
            parked = await park(result, controller)
            for request in await controller.pending():
                await controller.answer(request.id, YES)
            result = await resume(agent, parked, controller=controller)
    assert till.ran.count(("pay", 5)) == 2


@pytest.mark.proves("H1")
async def test_a_tool_that_runs_an_agent_with_an_asker_of_its_own_stays_under_the_policy_above(till: Till) -> None:
    inner = Agent(Scripted([PAY]).model, tools=[till.pay])
    outer = Agent(
        Scripted([("ask", {})]).model,
        capabilities=[Approvals(Policy({"pay": "blocked"}, default="none"), mode="auto_deny")],
    )

    @outer.tool_plain
    async def ask() -> str:
        return str(await run_with_approval_async(inner, "go", ui=yes))

    await outer.run("go")
    assert till.ran == []


@pytest.mark.proves("H2")
@pytest.mark.parametrize("settings", [{"approval_callback": yes}, {"mode": "approve_all"}])
async def test_a_tool_that_leaves_the_rest_to_somebody_else_is_not_told_refused(settings: dict[str, Any]) -> None:
    begun: list[int] = []

    def order(amount: int) -> str:
        begun.append(amount)
        raise CallDeferred

    approvals = Approvals(Policy({"order": "required"}, default="none"), **settings)
    agent: Agent[None, Any] = Agent(
        Scripted([("order", {"amount": 5})]).model, tools=[order], capabilities=[approvals], output_type=OUTPUTS
    )
    result = await agent.run("go")
    assert isinstance(result.output, DeferredToolRequests)
    assert ([part.tool_name for part in result.output.calls], begun) == (["order"], [5])


@stdlib_dataclass(slots=True)
class Slotted:
    id: int


async def test_arguments_without_a_dictionary_of_their_own_are_shown_too() -> None:
    asked: list[Any] = []

    def take(what: Slotted) -> str:
        return str(what.id)

    def ask(request: ApprovalRequest) -> ApprovalDecision:
        asked.append(request.args["what"])
        return YES

    approvals = Approvals(Policy({"take": "required"}, default="none"), approval_callback=ask)
    await Agent(Scripted([("take", {"what": {"id": 1}})]).model, tools=[take], capabilities=[approvals]).run("go")
    assert asked == [{"id": 1}]


async def test_the_questions_of_an_agent_inside_a_tool_are_collected_too(till: Till) -> None:
    controller = ApprovalController(policy=Policy({"pay": "required"}, default="none"), mode="defer")
    agent = banked(till, controller)
    stopped = await agent.run("go")
    results = await collect_approvals_async(stopped.output, ui=yes, controller=controller)
    result = await agent.run(message_history=stopped.all_messages(), deferred_tool_results=results)
    assert (result.output, till.ran[-1]) == ("done", ("pay", 5))
