"""The wrapper of one toolset: what it forwards, what it asks about, and what becomes of the answers."""

import asyncio
import copy
import datetime as dt
import warnings
from collections.abc import Callable, Mapping
from typing import Any, Self

import anyio
import pytest
from pydantic import Base64Bytes, BaseModel, Field, SecretStr, TypeAdapter, ValidationInfo, field_validator
from pydantic_ai import Agent, ApprovalRequired, ModelRetry, RunContext, Tool
from pydantic_ai.messages import ModelRequest
from pydantic_ai.models.test import TestModel
from pydantic_ai.tools import DeferredToolRequests, DeferredToolResults, ToolDefinition
from pydantic_ai.toolsets import AbstractToolset, CombinedToolset, FunctionToolset, PrefixedToolset, WrapperToolset
from pydantic_ai.toolsets.abstract import ToolsetTool
from pydantic_ai.usage import RunUsage
from tests.adapters.pydantic_ai.scripted import Call, Scripted, Till, returns
from tests.people import YES, Person, nobody

from sayso import (
    ApprovalController,
    ApprovalDecision,
    ApprovalMemory,
    ApprovalPresentation,
    ApprovalRequest,
    Policy,
    ToolCall,
    Verdict,
    requires_approval,
)
from sayso.adapters.pydantic_ai import Approvals, ApprovalToolset
from sayso.core import audit
from sayso.errors import ApprovalBlocked, ApprovalDenied, ConfigurationError

NO = ApprovalDecision(approved=False, note="ask me on Monday")
SESSION = ApprovalDecision(approved=True, remember="session")
PAY_5: Call = ("pay", {"amount": 5})
PAY_9: Call = ("pay", {"amount": 9})
LOOK: Call = ("look", {"name": "x"})
ASK_PAY: dict[str, dict[str, Any]] = {"pay": {"approval": "required"}}


class Shelf(AbstractToolset[Any]):
    """A toolset of somebody's own: functions in a dict, and not a word about approval."""

    def __init__(self, **functions: Callable[..., Any]) -> None:
        self.functions = functions
        self.events: list[str] = []

    @property
    def id(self) -> str | None:
        return "shelf"

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        validator: Any = TypeAdapter(dict[str, Any]).validator
        schema: dict[str, Any] = {"type": "object", "properties": {}}
        return {
            name: ToolsetTool(
                toolset=self,
                tool_def=ToolDefinition(name=name, parameters_json_schema=schema),
                max_retries=1,
                args_validator=validator,
            )
            for name in self.functions
        }

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> Any:
        return self.functions[name](**tool_args)

    async def __aenter__(self) -> Self:
        self.events.append("entered")
        return self

    async def __aexit__(self, *args: object) -> None:
        self.events.append("left")

    async def get_instructions(self, ctx: RunContext[Any]) -> str:
        return "Take only what you need."


def agent_of(toolset: AbstractToolset[Any], *turns: list[Call], **settings: Any) -> Agent[Any, Any]:
    return Agent(Scripted(*turns).model, toolsets=[toolset], **settings)


def till_set(till: Till) -> FunctionToolset[Any]:
    return FunctionToolset(till.tools)


def context() -> RunContext[None]:
    return RunContext(deps=None, model=TestModel(), usage=RunUsage())


# What it wraps.


def functions(till: Till) -> AbstractToolset[Any]:
    return FunctionToolset([till.pay, till.look])


def combined(till: Till) -> AbstractToolset[Any]:
    return CombinedToolset([FunctionToolset[Any]([till.pay]), FunctionToolset[Any]([till.look])])


def custom(till: Till) -> AbstractToolset[Any]:
    return Shelf(pay=till.pay, look=till.look)


@pytest.mark.proves("R33", "R41")
@pytest.mark.parametrize("make", [functions, combined, custom])
async def test_it_asks_before_each_needed_call_and_runs_the_others_unasked(
    till: Till, make: Callable[[Till], AbstractToolset[Any]]
) -> None:
    ran_before: list[list[Any]] = []

    def ask(request: ApprovalRequest) -> ApprovalDecision:
        ran_before.append([name for name, _ in till.ran])
        return YES

    toolset = ApprovalToolset(make(till), ask, tool_configs=ASK_PAY)
    result = await agent_of(toolset, [LOOK], [PAY_5], [PAY_5]).run("go")
    assert result.output == "done"
    assert ran_before == [["look"], ["look", "pay"]]
    assert till.ran == [("look", "x"), ("pay", 5), ("pay", 5)]
    assert [part.content for part in returns(result.all_messages()).values()] == ["saw x", "paid 5", "paid 5"]


@pytest.mark.proves("R33")
async def test_a_prefixed_tool_is_asked_about_by_the_name_that_the_model_uses(till: Till) -> None:
    person = Person()
    toolset = ApprovalToolset(PrefixedToolset(till_set(till), "bank"), person, tool_configs={"bank_pay": "required"})
    await agent_of(toolset, [("bank_pay", {"amount": 5}), ("bank_look", {"name": "x"})]).run("go")
    assert person.saw == [("bank_pay", {"amount": 5})]
    assert sorted(till.ran) == [("look", "x"), ("pay", 5)]


@pytest.mark.proves("R33")
async def test_a_prefix_round_the_wrapper_hides_nothing_from_it(till: Till) -> None:
    person = Person()
    toolset = PrefixedToolset(ApprovalToolset(till_set(till), person, tool_configs=ASK_PAY), "bank")
    await agent_of(toolset, [("bank_pay", {"amount": 5})]).run("go")
    assert person.saw == [PAY_5]
    assert till.ran == [("pay", 5)]


@pytest.mark.proves("R33")
async def test_it_works_with_a_model_that_calls_every_tool(till: Till) -> None:
    person = Person()
    toolset = ApprovalToolset(till_set(till), person, tool_configs={"*": "required"})
    await Agent(TestModel(), toolsets=[toolset]).run("go")
    assert {request.tool_name for request in person.asked} == {"pay", "look", "drop"}
    assert len(till.ran) == len(person.asked) == 3


@pytest.mark.proves("R33", "R3")
async def test_an_object_with_choose_is_asked_like_a_function(till: Till) -> None:
    class Window:
        def choose(self, request: ApprovalRequest, *, mode: str) -> ApprovalDecision:
            seen.append((request.tool_name, mode))
            return YES

    seen: list[tuple[str, str]] = []
    await agent_of(ApprovalToolset(till_set(till), Window(), tool_configs=ASK_PAY), [PAY_5]).run("go")
    assert seen == [("pay", "interactive")]
    assert till.ran == [("pay", 5)]


@pytest.mark.proves("R33")
async def test_the_tool_gets_what_the_library_gives_it(till: Till) -> None:
    def whoami(ctx: RunContext[str], greeting: str) -> str:
        return f"{greeting} {ctx.deps}, {ctx.tool_name}, {ctx.tool_call_approved}"

    toolset = ApprovalToolset(FunctionToolset[Any]([whoami]), Person(), tool_configs={"whoami": "required"})
    agent = agent_of(toolset, [("whoami", {"greeting": "hello"})], deps_type=str)
    result = await agent.run("go", deps="bob")
    assert returns(result.all_messages())["c1"].content == "hello bob, whoami, True"


# What it forwards.


@pytest.mark.proves("R34")
async def test_the_toolset_inside_is_entered_left_and_heard(till: Till) -> None:
    shelf = Shelf(pay=till.pay)
    agent = agent_of(ApprovalToolset(shelf, Person(), tool_configs=ASK_PAY), [PAY_5])
    result = await agent.run("go")
    assert shelf.events == ["entered", "left"]
    first = result.all_messages()[0]
    assert isinstance(first, ModelRequest)
    assert first.instructions == "Take only what you need."


@pytest.mark.proves("R34")
async def test_a_toolset_made_for_each_run_and_step_stays_behind_the_wrapper(till: Till) -> None:
    made: list[str] = []

    class Fresh(Shelf):
        async def for_run(self, ctx: RunContext[Any]) -> Shelf:
            made.append("run")
            return Fresh(pay=till.pay)

        async def for_run_step(self, ctx: RunContext[Any]) -> Shelf:
            made.append("step")
            return Shelf(pay=till.pay)

    person = Person(YES, NO)
    agent = agent_of(ApprovalToolset(Fresh(), person, tool_configs=ASK_PAY, on_denied="model"), [PAY_5], [PAY_9])
    await agent.run("go")
    assert made[:2] == ["run", "step"]
    assert person.saw == [PAY_5, PAY_9]
    assert till.ran == [("pay", 5)]


@pytest.mark.proves("R34")
async def test_a_toolset_that_stays_the_same_is_wrapped_only_once(till: Till) -> None:
    toolset = ApprovalToolset(till_set(till), nobody)
    assert await toolset.for_run(context()) is toolset
    assert await toolset.for_run_step(context()) is toolset


@pytest.mark.proves("R34")
async def test_visitors_reach_the_toolset_inside_and_what_they_make_of_it_stays_guarded(till: Till) -> None:
    inner, person = till_set(till), Person(NO)
    toolset = ApprovalToolset(inner, person, tool_configs={"my_pay": "required"})
    seen: list[AbstractToolset[Any]] = []
    toolset.apply(seen.append)
    assert seen == [inner]

    other = toolset.visit_and_replace(lambda each: PrefixedToolset(each, "my"))
    assert isinstance(other, ApprovalToolset)
    assert toolset.wrapped is inner
    with pytest.raises(PermissionError):
        await agent_of(other, [("my_pay", {"amount": 5})]).run("go")
    assert person.saw == [("my_pay", {"amount": 5})]
    assert till.ran == []


@pytest.mark.proves("R34")
def test_the_toolset_inside_is_reached_by_its_name_and_nothing_of_it_by_accident(till: Till) -> None:
    shelf = Shelf(pay=till.pay)
    toolset = ApprovalToolset(shelf, nobody)
    assert toolset.wrapped is shelf
    with pytest.raises(AttributeError, match="functions"):  # what a guard lets through, it names
        _ = getattr(toolset, "functions")  # noqa: B009 - a type checker knows that it is not there


@pytest.mark.proves("R34")
async def test_a_copy_guards_as_the_original_does(till: Till) -> None:
    person = Person(NO)
    toolset = copy.copy(ApprovalToolset(till_set(till), person, tool_configs=ASK_PAY))
    with pytest.raises(PermissionError):
        await agent_of(toolset, [PAY_5]).run("go")
    assert till.ran == []


@pytest.mark.proves("R34")
@pytest.mark.parametrize("name", ["wrapped", "gate", "anything", "__setstate__", "__deepcopy__"])
def test_a_wrapper_that_is_not_built_yet_has_no_attributes_instead_of_looking_for_ever(name: str) -> None:
    blank = ApprovalToolset.__new__(ApprovalToolset)
    with pytest.raises(AttributeError):
        getattr(blank, name)


@pytest.mark.proves("R34")
def test_the_label_names_the_toolset_inside() -> None:
    assert ApprovalToolset(Shelf(), nobody).label == "ApprovalToolset(Shelf 'shelf')"


# A denial.


@pytest.mark.proves("R33")
async def test_a_denial_ends_the_run_with_a_permission_error_that_carries_the_note(till: Till) -> None:
    toolset = ApprovalToolset(till_set(till), Person(NO), tool_configs=ASK_PAY)
    with pytest.raises(PermissionError, match="ask me on Monday") as caught:
        await agent_of(toolset, [PAY_5]).run("go")
    assert isinstance(caught.value, ApprovalDenied)
    assert (caught.value.tool, caught.value.note, caught.value.cause) == ("pay", "ask me on Monday", "refused")
    assert till.ran == []


@pytest.mark.proves("R33", "H12", "R56")
async def test_a_denial_can_be_told_to_the_model_and_the_run_goes_on(till: Till) -> None:
    toolset = ApprovalToolset(till_set(till), Person(NO), tool_configs=ASK_PAY, on_denied="model")
    result = await agent_of(toolset, [PAY_5, LOOK]).run("go")
    told = str(returns(result.all_messages())["c1"].content)
    for words in (
        "Not executed",
        "refused by a person",
        "a decision, not a failure",
        "do not retry this call unchanged",
        "ask me on Monday",
    ):
        assert words in told
    assert result.output == "done"
    assert till.ran == [("look", "x")]


@pytest.mark.proves("H5")
async def test_a_callback_that_fails_approves_nothing(till: Till) -> None:
    toolset = ApprovalToolset(till_set(till), nobody, tool_configs=ASK_PAY)
    with pytest.raises(PermissionError, match="nobody may be asked"):
        await agent_of(toolset, [PAY_5]).run("go")
    assert till.ran == []


@pytest.mark.parametrize("word", ["explode", "", None])
def test_a_word_for_denials_that_nobody_knows_is_an_error(word: Any) -> None:
    with pytest.raises(ConfigurationError, match="on_denied"):
        ApprovalToolset(Shelf(), nobody, on_denied=word)


# Marks.


@pytest.mark.proves("R33", "R44")
async def test_a_tool_that_the_library_has_marked_is_asked_about_exactly_once(till: Till) -> None:
    person = Person()
    inner = FunctionToolset[Any]([Tool(till.pay, requires_approval=True), till.look])
    result = await agent_of(ApprovalToolset(inner, person), [PAY_5, LOOK]).run("go")
    assert result.output == "done"
    assert person.saw == [PAY_5]
    assert sorted(till.ran) == [("look", "x"), ("pay", 5)]


def marked_sync(till: Till) -> Callable[..., Any]:
    @requires_approval(description="Pay from the till")
    def pay(amount: int) -> str:
        return till.pay(amount)

    return pay


def marked_async(till: Till) -> Callable[..., Any]:
    @requires_approval(description="Pay from the till")
    async def pay(amount: int) -> str:
        return till.pay(amount)

    return pay


MARKED = pytest.mark.parametrize("mark", [marked_sync, marked_async])
Mark = Callable[[Till], Callable[..., Any]]


@MARKED
@pytest.mark.proves("R44")
async def test_a_marked_function_is_asked_about_exactly_once_and_an_unmarked_one_is_not(till: Till, mark: Mark) -> None:
    person = Person()
    toolset = ApprovalToolset(FunctionToolset[Any]([mark(till), till.look]), person)
    await agent_of(toolset, [PAY_5, LOOK]).run("go")
    assert person.saw == [PAY_5]
    assert person.asked[0].description == "Pay from the till"
    assert sorted(till.ran) == [("look", "x"), ("pay", 5)]


@MARKED
@pytest.mark.proves("R44")
async def test_a_marked_function_that_is_refused_does_not_run(till: Till, mark: Mark) -> None:
    toolset = ApprovalToolset(FunctionToolset[Any]([mark(till)]), Person(NO))
    with pytest.raises(PermissionError, match="ask me on Monday"):
        await agent_of(toolset, [PAY_5]).run("go")
    assert till.ran == []


@MARKED
@pytest.mark.proves("R43", "R40")
async def test_configuration_lets_a_marked_function_run_unasked(till: Till, mark: Mark) -> None:
    toolset = ApprovalToolset(FunctionToolset[Any]([mark(till)]), nobody, tool_configs={"pay": {"approval": "none"}})
    await agent_of(toolset, [PAY_5]).run("go")
    assert till.ran == [("pay", 5)]


@MARKED
@pytest.mark.proves("R44")
async def test_a_marked_function_is_asked_about_once_with_edited_arguments(till: Till, mark: Mark) -> None:
    person = Person(ApprovalDecision(approved=True, override_args={"amount": 3}))
    await agent_of(ApprovalToolset(FunctionToolset[Any]([mark(till)]), person), [PAY_5]).run("go")
    assert person.saw == [PAY_5]
    assert till.ran == [("pay", 3)]


@MARKED
@pytest.mark.proves("R44")
async def test_a_marked_function_behind_a_prefix_is_asked_about_by_its_new_name(till: Till, mark: Mark) -> None:
    person = Person()
    toolset = ApprovalToolset(FunctionToolset[Any]([mark(till)]).prefixed("bank"), person)
    await agent_of(toolset, [("bank_pay", {"amount": 5})]).run("go")
    assert person.saw == [("bank_pay", {"amount": 5})]
    assert till.ran == [("pay", 5)]


@MARKED
@pytest.mark.proves("R43", "R44")
async def test_configuration_lets_a_marked_function_behind_a_prefix_run_unasked(till: Till, mark: Mark) -> None:
    inner = FunctionToolset[Any]([mark(till)]).prefixed("bank")
    toolset = ApprovalToolset(inner, nobody, tool_configs={"bank_pay": "none"})
    await agent_of(toolset, [("bank_pay", {"amount": 5})]).run("go")
    assert till.ran == [("pay", 5)]


@pytest.mark.proves("R14")
async def test_a_tool_that_asks_by_itself_is_asked_about_once_with_what_it_says(till: Till) -> None:
    person = Person()

    def pay(ctx: RunContext[Any], amount: int) -> str:
        if not ctx.tool_call_approved:
            raise ApprovalRequired(metadata={"summary": f"Pay {amount}", "tags": ["money"]})
        return till.pay(amount)

    await agent_of(ApprovalToolset(FunctionToolset[Any]([pay]), person), [PAY_5]).run("go")
    (request,) = person.asked
    assert (request.summary, request.metadata) == ("Pay 5", {"summary": "Pay 5", "tags": ["money"]})
    assert till.ran == [("pay", 5)]


# What the toolset itself says.


@pytest.mark.proves("R29", "H12")
async def test_what_a_mode_decides_is_told_and_recorded_as_the_modes_and_not_as_a_persons(till: Till) -> None:
    def guarded(mode: str) -> tuple[Agent[Any, Any], ApprovalController]:
        inner = ApprovalController(mode=mode)
        outer = ApprovalController(approval_callback=inner.approval_callback, policy=Policy(ASK_PAY))
        return agent_of(ApprovalToolset(till_set(till), controller=outer, on_denied="model"), [PAY_5]), outer

    agent, strict = guarded("strict")
    told = returns((await agent.run("go")).all_messages())["c1"].model_response_str()
    assert "refused by the mode auto_deny" in told
    assert "a person" not in told
    entries = [entry async for entry in audit.entries(strict.store)]
    assert ("withdrawn", "unattended") in [(entry["step"], entry.get("cause")) for entry in entries]
    assert "denied" not in [entry["step"] for entry in entries]
    agent, lenient = guarded("approve_all")
    await agent.run("go")
    assert till.ran == [("pay", 5)]
    (approved,) = [entry async for entry in audit.entries(lenient.store) if entry["step"] == "approved"]
    assert approved["who"] == "the mode approve_all"


class Opinionated(Shelf):
    """A toolset of seed 003, which says about its own calls what it was told to say."""

    def __init__(self, says: Any, **functions: Callable[..., Any]) -> None:
        super().__init__(**functions)
        self.says = says
        self.heard: list[Call] = []

    def needs_approval(self, tool_name: str, tool_args: dict[str, Any]) -> Any:
        self.heard.append((tool_name, tool_args))
        return self.says


class SlowlyOpinionated(Opinionated):
    async def needs_approval(self, tool_name: str, tool_args: dict[str, Any]) -> Any:
        return super().needs_approval(tool_name, tool_args)


OPINIONATED = pytest.mark.parametrize("kind", [Opinionated, SlowlyOpinionated])


@OPINIONATED
@pytest.mark.proves("R42")
async def test_a_toolset_that_needs_no_approval_runs_unasked(till: Till, kind: type[Opinionated]) -> None:
    inner = kind(says=False, pay=till.pay)
    await agent_of(ApprovalToolset(inner, nobody), [PAY_5]).run("go")
    assert inner.heard == [PAY_5]
    assert till.ran == [("pay", 5)]


@OPINIONATED
@pytest.mark.proves("R42")
@pytest.mark.parametrize(
    ("says", "shown"), [(True, "Run pay"), ({"description": "Pay 5 to bob"}, "Pay 5 to bob")], ids=["true", "dict"]
)
async def test_a_toolset_that_needs_approval_asks_in_its_own_words(
    till: Till, kind: type[Opinionated], says: Any, shown: str
) -> None:
    person = Person()
    await agent_of(ApprovalToolset(kind(says=says, pay=till.pay), person), [PAY_5]).run("go")
    assert [request.description for request in person.asked] == [shown]
    assert till.ran == [("pay", 5)]


@pytest.mark.proves("R42")
@pytest.mark.parametrize(
    "shown",
    [
        ApprovalPresentation(type="diff", content="-a\n+b", metadata={"path": "a.txt"}),
        {"type": "diff", "content": "-a\n+b", "metadata": {"path": "a.txt"}},
    ],
    ids=["record", "dict"],
)
async def test_a_toolset_that_shows_something_by_its_type_is_asked_about(till: Till, shown: Any) -> None:
    person = Person()
    says = {"description": "Pay 5", "presentation": shown}
    await agent_of(ApprovalToolset(Opinionated(says=says, pay=till.pay), person), [PAY_5]).run("go")
    (request,) = person.asked
    assert request.presentation is not None
    assert (request.presentation.type, request.presentation.diff) == ("diff", "-a\n+b")
    assert request.presentation.metadata == {"path": "a.txt"}
    assert till.ran == [("pay", 5)]


@OPINIONATED
@pytest.mark.proves("H5", "R42")
@pytest.mark.parametrize("says", [None, "no", 0, {"descripton": "a slip of the pen"}])
async def test_a_toolset_that_says_what_nobody_understands_runs_nothing(
    till: Till, kind: type[Opinionated], says: Any
) -> None:
    with pytest.raises(ApprovalBlocked):
        await agent_of(ApprovalToolset(kind(says=says, pay=till.pay), nobody), [PAY_5]).run("go")
    assert till.ran == []


@OPINIONATED
@pytest.mark.proves("R43", "R40")
async def test_configuration_overrides_a_toolset_that_needs_approval(till: Till, kind: type[Opinionated]) -> None:
    toolset = ApprovalToolset(kind(says=True, pay=till.pay), nobody, tool_configs={"pay": {"approval": "none"}})
    await agent_of(toolset, [PAY_5]).run("go")
    assert till.ran == [("pay", 5)]


@OPINIONATED
@pytest.mark.proves("R43", "R40")
async def test_configuration_overrides_a_toolset_that_needs_none(till: Till, kind: type[Opinionated]) -> None:
    person = Person(NO)
    toolset = ApprovalToolset(kind(says=False, pay=till.pay), person, tool_configs=ASK_PAY)
    with pytest.raises(PermissionError):
        await agent_of(toolset, [PAY_5]).run("go")
    assert person.saw == [PAY_5]
    assert till.ran == []


class WithContext(Shelf):
    """A toolset whose rule takes the context of the call."""

    def __init__(self, **functions: Callable[..., Any]) -> None:
        super().__init__(**functions)
        self.heard: list[tuple[Any, ...]] = []
        self.configured: list[Any] = []

    def needs_approval(self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any]) -> bool:
        self.heard.append((name, tool_args.get("amount"), ctx.deps, ctx.tool_call_id))
        return ctx.deps != "trusted"


class WithConfig(WithContext):
    """A toolset whose rule also takes what the owner has configured."""

    async def needs_approval(  # pyright: ignore[reportIncompatibleMethodOverride] - the later form of the same method
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], config: Mapping[str, Mapping[str, Any]]
    ) -> bool:
        self.configured.append(config)
        return not config.get(name, {}).get("pre_approved") and super().needs_approval(name, tool_args, ctx)


class WithDefaults(WithContext):
    def needs_approval(self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any] | None = None) -> bool:
        assert ctx is not None
        return super().needs_approval(name, tool_args, ctx)


@pytest.mark.proves("R42")
@pytest.mark.parametrize("kind", [WithContext, WithDefaults, WithConfig])
@pytest.mark.parametrize("as_capability", [False, True], ids=["ApprovalToolset", "Approvals"])
async def test_a_rule_of_a_toolset_gets_the_context_of_the_very_call(
    till: Till, kind: type[WithContext], *, as_capability: bool
) -> None:
    person, inner = Person(), kind(pay=till.pay)
    turns: list[list[Call]] = [[PAY_5, PAY_9]]
    if as_capability:
        policy = Policy(default="none")
        agent = agent_of(inner, *turns, capabilities=[Approvals(policy, approval_callback=person, mode="interactive")])
    else:
        agent = agent_of(ApprovalToolset(inner, person), *turns)
    await agent.run("go", deps="trusted")
    assert person.asked == []
    await agent.run("go", deps="anybody")
    assert sorted(till.ran) == [("pay", 5), ("pay", 5), ("pay", 9), ("pay", 9)]
    assert [request.args["amount"] for request in person.asked] == [5, 9]
    expected = [(5, "trusted", "c1"), (9, "trusted", "c2"), (5, "anybody", "c3"), (9, "anybody", "c4")]
    assert set(inner.heard) == {("pay", *each) for each in expected}


@pytest.mark.proves("R42", "R43")
async def test_a_rule_of_a_toolset_gets_what_is_configured_and_configuration_still_decides(till: Till) -> None:
    configured: dict[str, Any] = {"look": {"pre_approved": True}, "drop": "blocked"}
    inner = WithConfig(pay=till.pay, look=till.look)
    person = Person(NO)
    with pytest.raises(ApprovalDenied):
        await agent_of(ApprovalToolset(inner, person, tool_configs=configured), [LOOK], [PAY_5]).run("go")
    assert till.ran == [("look", "x")]
    assert inner.configured[0] == {"look": {"pre_approved": True}, "drop": {"approval": "blocked"}}
    shared = ApprovalController(approval_callback=person, policy=Policy(configured))
    await agent_of(ApprovalToolset(inner, controller=shared), [LOOK]).run("go")
    assert inner.configured[-1] == inner.configured[0]


@pytest.mark.proves("H5")
async def test_a_rule_of_a_toolset_that_takes_something_else_is_named_with_the_known_forms(till: Till) -> None:
    class Odd(Shelf):
        def needs_approval(self, name: str, tool_args: dict[str, Any], config: dict[str, Any]) -> bool:
            return False

    with pytest.raises(ConfigurationError, match=r"\(name, args, ctx\) or \(name, args, ctx, config\)"):
        await agent_of(ApprovalToolset(Odd(pay=till.pay), nobody), [PAY_5]).run("go")
    assert till.ran == []


def behind_prefix(inner: AbstractToolset[Any]) -> AbstractToolset[Any]:
    return inner.prefixed("my")


def behind_filter(inner: AbstractToolset[Any]) -> AbstractToolset[Any]:
    return inner.filtered(lambda ctx, tool: True)


def behind_combination(inner: AbstractToolset[Any]) -> AbstractToolset[Any]:
    return CombinedToolset([inner, FunctionToolset[Any]()])


def behind_combined_prefix(inner: AbstractToolset[Any]) -> AbstractToolset[Any]:
    return CombinedToolset([inner.prefixed("my"), FunctionToolset[Any]()])


def behind_rename(inner: AbstractToolset[Any]) -> AbstractToolset[Any]:
    return inner.renamed({"my_pay": "pay"})


@pytest.mark.proves("R42")
@pytest.mark.parametrize(
    ("wrap", "name"),
    [
        (behind_filter, "pay"),
        (behind_combination, "pay"),
        (behind_prefix, "my_pay"),
        (behind_combined_prefix, "my_pay"),
        (behind_rename, "my_pay"),
    ],
)
async def test_what_a_toolset_says_is_heard_through_the_librarys_wrappers(
    till: Till, wrap: Callable[[AbstractToolset[Any]], AbstractToolset[Any]], name: str
) -> None:
    person = Person(NO)
    inner = wrap(Opinionated(says={"description": "Pay from the till"}, pay=till.pay))
    with pytest.raises(PermissionError):
        await agent_of(ApprovalToolset(inner, person), [(name, {"amount": 5})]).run("go")
    assert [request.description for request in person.asked] == ["Pay from the till"]
    assert till.ran == []


@pytest.mark.proves("R42")
async def test_what_a_wrapper_of_somebodys_own_says_about_the_tools_inside_is_heard(till: Till) -> None:
    class Sandbox(WrapperToolset[Any]):
        def needs_approval(self, tool_name: str, tool_args: dict[str, Any]) -> bool:
            return tool_name == "pay"

    person = Person(NO)
    with pytest.raises(PermissionError):
        await agent_of(ApprovalToolset(Sandbox(till_set(till)), person), [PAY_5]).run("go")
    assert person.saw == [PAY_5]
    assert till.ran == []


class Checked(Shelf):
    """A toolset of seed 001: reading runs, writing asks, a pattern may be granted, the vault is closed."""

    def check_approval(self, tool_name: str, args: Mapping[str, Any], memory: ApprovalMemory) -> ApprovalRequest | None:
        path = str(args["path"])
        if path.startswith("vault"):
            raise PermissionError("the vault is closed")
        if tool_name == "read" or memory.lookup("write", {"folder": path.partition("/")[0]}):
            return None
        return ApprovalRequest(tool_name=tool_name, description=f"Write to {path}", payload={"path": path})


class Files:
    """A disk of which one only hears."""

    def __init__(self) -> None:
        self.done: list[str] = []

    def read(self, path: str) -> str:
        self.done.append(f"read {path}")
        return "text"

    def write(self, path: str, text: str) -> None:
        self.done.append(f"write {path}: {text}")

    @property
    def toolset(self) -> Checked:
        return Checked(read=self.read, write=self.write)


def write(path: str, text: str = "hi") -> Call:
    return "write", {"path": path, "text": text}


@pytest.mark.proves("R32", "R33")
async def test_check_approval_lets_run_or_asks() -> None:
    files, person = Files(), Person()
    await agent_of(ApprovalToolset(files.toolset, person), [("read", {"path": "a/b"})], [write("a/b")]).run("go")
    assert [(request.tool_name, request.description) for request in person.asked] == [("write", "Write to a/b")]
    assert files.done == ["read a/b", "write a/b: hi"]


@pytest.mark.proves("R32", "R28")
async def test_check_approval_blocks_by_raising_a_permission_error_in_every_mode() -> None:
    files = Files()
    for mode in ("approve_all", "strict", "interactive"):
        controller = ApprovalController(mode=mode, approval_callback=nobody)
        with pytest.raises(ApprovalBlocked, match="the vault is closed"):
            await agent_of(ApprovalToolset(files.toolset, controller=controller), [write("vault/x")]).run("go")
    assert files.done == []


@pytest.mark.proves("R32", "R24")
async def test_check_approval_finds_pattern_grants_in_the_memory() -> None:
    files, memory = Files(), ApprovalMemory()
    memory.store("write", {"folder": "notes"}, SESSION)
    agent = agent_of(ApprovalToolset(files.toolset, Person(NO), memory), [write("notes/1")], [write("other/1")])
    with pytest.raises(PermissionError):
        await agent.run("go")
    assert files.done == ["write notes/1: hi"]


@pytest.mark.proves("R24", "R10")
async def test_what_is_remembered_goes_by_the_payload_of_the_request() -> None:
    files, person = Files(), Person(SESSION)
    turns = [[write("a", "one")], [write("a", "two")], [write("b", "one")]]
    await agent_of(ApprovalToolset(files.toolset, person), *turns).run("go")
    assert person.saw == [write("a", "one"), write("b", "one")]
    assert files.done == ["write a: one", "write a: two", "write b: one"]


# Configuration.


@pytest.mark.proves("R48", "R40", "R41")
async def test_tool_configs_required(till: Till) -> None:
    person = Person()
    await agent_of(ApprovalToolset(Shelf(pay=till.pay), person, tool_configs=ASK_PAY), [PAY_5], [PAY_5]).run("go")
    assert person.saw == [PAY_5, PAY_5]


@pytest.mark.proves("R48", "R40", "R41")
async def test_tool_configs_none(till: Till) -> None:
    toolset = ApprovalToolset(Shelf(pay=till.pay), nobody, tool_configs={"pay": {"approval": "none"}})
    await agent_of(toolset, [PAY_5]).run("go")
    assert till.ran == [("pay", 5)]


@pytest.mark.proves("R48", "R44")
@pytest.mark.parametrize("configs", [{}, {"pay": {}, "look": {}}, None], ids=["empty", "silent", "missing"])
async def test_tool_configs_missing_uses_decorator(till: Till, configs: Any) -> None:
    person = Person()
    inner = FunctionToolset[Any]([marked_sync(till), till.look])
    await agent_of(ApprovalToolset(inner, person, tool_configs=configs), [PAY_5, LOOK]).run("go")
    assert person.saw == [PAY_5]
    assert sorted(till.ran) == [("look", "x"), ("pay", 5)]


@pytest.mark.proves("R48", "R43")
async def test_tool_configs_overrides_inner_needs_approval(till: Till) -> None:
    toolset = ApprovalToolset(Opinionated(says=True, pay=till.pay), nobody, tool_configs={"pay": {"approval": "none"}})
    await agent_of(toolset, [PAY_5]).run("go")
    assert till.ran == [("pay", 5)]


@pytest.mark.proves("R48", "R45")
async def test_pre_approved_deprecation_warning(till: Till) -> None:
    with pytest.warns(DeprecationWarning, match="pre_approved is deprecated"):
        toolset = ApprovalToolset(Opinionated(says=True, pay=till.pay), nobody, pre_approved=["pay"])
    await agent_of(toolset, [PAY_5]).run("go")
    assert till.ran == [("pay", 5)]


@pytest.mark.proves("R45")
def test_the_warning_about_pre_approved_points_at_the_line_that_passes_it() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ApprovalToolset(Shelf(), nobody, pre_approved=["pay"])
    assert [each.filename for each in caught] == [__file__]


@pytest.mark.proves("R45")
async def test_pre_approved_changes_nothing_of_what_the_caller_passed(till: Till) -> None:
    configs: dict[str, dict[str, Any]] = {"pay": {"approval": "required"}, "look": {}}
    names = ["pay", "look"]
    person = Person()
    with pytest.warns(DeprecationWarning, match="pre_approved"):
        toolset = ApprovalToolset(
            Opinionated(says=True, pay=till.pay, look=till.look), person, pre_approved=names, tool_configs=configs
        )
    assert configs == {"pay": {"approval": "required"}, "look": {}}
    assert names == ["pay", "look"]
    await agent_of(toolset, [PAY_5, LOOK]).run("go")
    assert person.saw == [PAY_5], "an explicit word stands"


@pytest.mark.proves("R40")
async def test_what_happens_to_the_callers_dict_later_changes_nothing(till: Till) -> None:
    configs = copy.deepcopy(ASK_PAY)
    person = Person()
    toolset = ApprovalToolset(till_set(till), person, tool_configs=configs)
    configs["pay"]["approval"] = "none"
    await agent_of(toolset, [PAY_5]).run("go")
    assert person.saw == [PAY_5]


@pytest.mark.proves("R47")
async def test_once_per_session_asks_once_and_then_remembers(till: Till) -> None:
    memory, person = ApprovalMemory(), Person()
    for _ in range(2):
        toolset = ApprovalToolset(
            till_set(till), person, memory, tool_configs={"pay": {"approval": "once_per_session"}}
        )
        await agent_of(toolset, [PAY_5], [PAY_5]).run("go")
    assert person.saw == [PAY_5]
    assert till.ran == [("pay", 5)] * 4


@pytest.mark.proves("R47")
async def test_once_per_session_for_the_whole_tool_asks_once_for_all_arguments(till: Till) -> None:
    person = Person()
    configs = {"pay": {"approval": "once_per_session", "scope": "tool"}}
    await agent_of(ApprovalToolset(till_set(till), person, tool_configs=configs), [PAY_5], [PAY_9]).run("go")
    assert person.saw == [PAY_5]
    assert till.ran == [("pay", 5), ("pay", 9)]


@pytest.mark.proves("R47", "H14")
async def test_a_denied_tool_is_neither_offered_nor_run(till: Till) -> None:
    inner = till_set(till)
    toolset = ApprovalToolset(inner, nobody, tool_configs={"pay": {"approval": "deny"}})
    scripted = Scripted()
    await Agent(scripted.model, toolsets=[toolset]).run("go")
    assert scripted.offered == [["look", "drop"]]

    tools = await inner.get_tools(context())
    with pytest.raises(PermissionError):
        await toolset.call_tool("pay", {"amount": 5}, context(), tools["pay"])
    assert till.ran == []


@pytest.mark.parametrize(
    "configs", [{"pay": {"approval": "sometimes"}}, {"pay": {"aproval": "none"}}, {"pay": True}], ids=str
)
def test_a_word_or_key_that_nobody_knows_is_an_error_at_once(configs: Any) -> None:
    with pytest.raises(ConfigurationError):
        ApprovalToolset(Shelf(), nobody, tool_configs=configs)


def test_two_callbacks_are_an_error() -> None:
    with pytest.raises(ConfigurationError, match="two names for one thing"):
        ApprovalToolset(Shelf(), approval_callback=Person(), prompt_fn=Person())


@pytest.mark.proves("R54")
def test_nobody_to_ask_is_an_error() -> None:
    with pytest.raises(ConfigurationError, match="nobody to ask"):
        ApprovalToolset(Shelf())


@pytest.mark.parametrize(
    "further",
    [{"approval_callback": nobody}, {"memory": ApprovalMemory()}, {"tool_configs": {}}],
    ids=lambda each: next(iter(each)),
)
def test_a_controller_comes_alone(further: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="pass it alone"):
        ApprovalToolset(Shelf(), controller=ApprovalController(mode="approve_all"), **further)


# Controllers, as seed 001 uses them.


@pytest.mark.proves("R29", "R33")
async def test_the_callback_and_the_memory_of_a_controller_ask_through_it(till: Till) -> None:
    person = Person(SESSION)
    controller = ApprovalController(mode="interactive", approval_callback=person)
    with pytest.deprecated_call(match="use approval_callback"):
        toolset = ApprovalToolset(
            till_set(till), prompt_fn=controller.approval_callback, memory=controller.memory, tool_configs=ASK_PAY
        )
    await agent_of(toolset, [PAY_5], [PAY_5]).run("go")
    assert person.saw == [PAY_5]
    assert till.ran == [("pay", 5), ("pay", 5)]
    assert controller.is_session_approved(person.asked[0])


@pytest.mark.proves("R29", "R33")
@pytest.mark.parametrize(("mode", "ran"), [("approve_all", [("pay", 5)]), ("strict", [])])
async def test_the_callback_of_a_controller_honours_its_mode(till: Till, mode: str, ran: list[Any]) -> None:
    controller = ApprovalController(mode=mode)
    toolset = ApprovalToolset(
        till_set(till),
        approval_callback=controller.approval_callback,
        memory=controller.memory,
        tool_configs=ASK_PAY,
        on_denied="model",
    )
    await agent_of(toolset, [PAY_5]).run("go")
    assert till.ran == ran


@pytest.mark.proves("R28")
@pytest.mark.parametrize(("mode", "ran"), [("approve_all", [("pay", 5)]), ("strict", [])])
async def test_a_controller_decides_by_its_mode(till: Till, mode: str, ran: list[Any]) -> None:
    controller = ApprovalController(mode=mode, policy=Policy({"pay": "required"}, default="none"))
    toolset = ApprovalToolset(till_set(till), controller=controller, on_denied="model")
    await agent_of(toolset, [PAY_5]).run("go")
    assert till.ran == ran


@pytest.mark.proves("R17", "H3")
async def test_a_controller_that_defers_ends_the_run_and_the_resumed_run_executes_once(till: Till) -> None:
    controller = ApprovalController(mode="defer", policy=Policy({"pay": "required"}, default="none"))
    toolset = ApprovalToolset(till_set(till), controller=controller, on_denied="model")
    agent = agent_of(toolset, [PAY_5], output_type=[str, DeferredToolRequests])
    stopped = await agent.run("go")
    assert isinstance(stopped.output, DeferredToolRequests)
    (request,) = await controller.pending()
    await controller.answer(request.id, YES)
    for _ in range(2):
        await agent.run(
            message_history=copy.deepcopy(stopped.all_messages()),
            deferred_tool_results=DeferredToolResults(approvals={"c1": True}),
        )
    assert till.ran == [("pay", 5)]


@pytest.mark.proves("R33")
async def test_a_wrapped_toolset_of_an_agent_with_approvals_runs_what_was_approved(till: Till) -> None:
    person = Person()
    toolset = ApprovalToolset(till_set(till), nobody, tool_configs=ASK_PAY)
    approvals = Approvals(Policy({"pay": "required"}, default="none"), approval_callback=person)
    await agent_of(toolset, [PAY_5], capabilities=[approvals]).run("go")
    assert person.saw == [PAY_5]
    assert till.ran == [("pay", 5)]


@pytest.mark.proves("R33", "H1")
async def test_a_wrapped_toolset_of_an_agent_with_approvals_can_ask_for_what_the_agent_lets_run(till: Till) -> None:
    person = Person(NO)
    toolset = ApprovalToolset(till_set(till), nobody, tool_configs=ASK_PAY, on_denied="model")
    approvals = Approvals(Policy(default="none"), approval_callback=person)
    await agent_of(toolset, [PAY_5], capabilities=[approvals]).run("go")
    assert person.saw == [PAY_5], "the outermost controller asks"
    assert till.ran == []


@pytest.mark.proves("R33", "H1")
async def test_a_wrapped_toolset_of_an_agent_with_approvals_keeps_its_blocks(till: Till) -> None:
    def large(call: ToolCall) -> Verdict:
        return Verdict(approval="blocked" if call.args["amount"] > 6 else "none", reason="by its amount")

    toolset = ApprovalToolset(
        till_set(till), nobody, tool_configs={"pay": {"needs_approval": large}}, on_denied="model"
    )
    approvals = Approvals(Policy({"pay": "required"}, default="none"), approval_callback=Person())
    await agent_of(toolset, [PAY_5], [PAY_9], capabilities=[approvals]).run("go")
    assert till.ran == [("pay", 5)]


# Memory.


@pytest.mark.proves("R10", "R33", "R55")
async def test_a_remembered_answer_is_not_asked_for_again_across_runs_that_share_the_memory(till: Till) -> None:
    memory, person = ApprovalMemory(), Person(SESSION)
    for _ in range(2):
        toolset = ApprovalToolset(till_set(till), person, memory, tool_configs=ASK_PAY)
        await agent_of(toolset, [PAY_5], [PAY_5]).run("go")
    assert person.saw == [PAY_5]
    assert till.ran == [("pay", 5)] * 4


@pytest.mark.proves("R10", "R4")
async def test_other_arguments_are_asked_about_again(till: Till) -> None:
    person = Person(SESSION)
    await agent_of(ApprovalToolset(till_set(till), person, tool_configs=ASK_PAY), [PAY_5], [PAY_9], [PAY_5]).run("go")
    assert person.saw == [PAY_5, PAY_9]
    assert till.ran == [("pay", 5), ("pay", 9), ("pay", 5)]


@pytest.mark.proves("R10", "R26")
async def test_another_memory_and_a_cleared_one_know_nothing(till: Till) -> None:
    memory, person = ApprovalMemory(), Person(SESSION)
    for each in (memory, ApprovalMemory()):
        await agent_of(ApprovalToolset(till_set(till), person, each, tool_configs=ASK_PAY), [PAY_5]).run("go")
    memory.clear()
    await agent_of(ApprovalToolset(till_set(till), person, memory, tool_configs=ASK_PAY), [PAY_5]).run("go")
    assert person.saw == [PAY_5] * 3


@pytest.mark.proves("R10")
async def test_a_remembered_no_stands_with_its_note(till: Till) -> None:
    memory = ApprovalMemory()
    person = Person(ApprovalDecision(approved=False, note="never", remember="session"))
    for _ in range(2):
        with pytest.raises(PermissionError, match="never"):
            await agent_of(ApprovalToolset(till_set(till), person, memory, tool_configs=ASK_PAY), [PAY_5]).run("go")
    assert person.saw == [PAY_5]
    assert till.ran == []


@pytest.mark.proves("H2")
async def test_a_model_that_uses_its_call_ids_again_in_another_run_is_asked_about_again(till: Till) -> None:
    person = Person(YES, NO)
    toolset = ApprovalToolset(till_set(till), person, tool_configs=ASK_PAY)
    agent = Agent(Scripted([PAY_5], reuse_ids=True).model, toolsets=[toolset])
    await agent.run("go")
    with pytest.raises(PermissionError, match="ask me on Monday"):
        await agent.run("go")
    assert person.saw == [PAY_5, PAY_5]
    assert till.ran == [("pay", 5)]


@pytest.mark.proves("R33")
async def test_calls_made_without_an_agent_are_each_asked_about(till: Till) -> None:
    person = Person()
    toolset = ApprovalToolset(till_set(till), person, tool_configs=ASK_PAY)
    tools = await toolset.get_tools(context())
    for amount in (5, 9, 9):
        await toolset.call_tool("pay", {"amount": amount}, context(), tools["pay"])
    assert person.saw == [PAY_5, PAY_9, PAY_9]
    assert till.ran == [("pay", 5), ("pay", 9), ("pay", 9)]


# Edited arguments.


@pytest.mark.proves("R64")
async def test_edited_arguments_run_in_place_of_the_models_own(till: Till) -> None:
    person = Person(ApprovalDecision(approved=True, override_args={"amount": "3"}))
    result = await agent_of(ApprovalToolset(till_set(till), person, tool_configs=ASK_PAY), [PAY_5]).run("go")
    assert till.ran == [("pay", 3)], "validated: a number, as the tool wants it"
    assert (
        returns(result.all_messages())["c1"].content
        == "A person changed the arguments: it ran as pay(amount=3). Result: paid 3"
    )


@pytest.mark.proves("R11")
async def test_an_edit_to_no_arguments_at_all_is_an_edit() -> None:
    ran: list[int] = []

    def pay(amount: int = 1) -> str:
        ran.append(amount)
        return "paid"

    person = Person(ApprovalDecision(approved=True, override_args={}))
    await agent_of(ApprovalToolset(FunctionToolset[Any]([pay]), person, tool_configs=ASK_PAY), [PAY_5]).run("go")
    assert ran == [1]


@pytest.mark.proves("R64", "H5")
@pytest.mark.parametrize("edited", [{"amount": "much"}, {}, {"amount": 3, "to": "eve"}], ids=str)
async def test_an_edit_that_does_not_fit_the_tool_runs_nothing(till: Till, edited: dict[str, Any]) -> None:
    person = Person(ApprovalDecision(approved=True, override_args=edited))
    toolset = ApprovalToolset(till_set(till), person, tool_configs=ASK_PAY)
    with pytest.raises(PermissionError, match="do not fit the tool"):
        await agent_of(toolset, [PAY_5]).run("go")
    assert till.ran == []


@pytest.mark.proves("R64", "H1")
async def test_an_edit_into_what_is_blocked_runs_nothing(till: Till) -> None:
    person = Person(ApprovalDecision(approved=True, override_args={"amount": 9000}))

    def judge(call: ToolCall) -> Verdict:
        return Verdict(approval="blocked" if call.args["amount"] > 100 else "required", reason="by its amount")

    toolset = ApprovalToolset(till_set(till), person, tool_configs={"pay": {"needs_approval": judge}})
    with pytest.raises(PermissionError):
        await agent_of(toolset, [PAY_5]).run("go")
    assert till.ran == []


@pytest.mark.proves("R64")
async def test_an_edit_that_the_tools_own_validator_refuses_runs_nothing(till: Till) -> None:
    def small(ctx: RunContext[Any], amount: int) -> None:
        if amount > 100:
            raise ModelRetry("that is too much")

    inner = FunctionToolset[Any]([Tool(till.pay, args_validator=small)])
    person = Person(ApprovalDecision(approved=True, override_args={"amount": 9000}))
    with pytest.raises(PermissionError):
        await agent_of(ApprovalToolset(inner, person, tool_configs=ASK_PAY), [PAY_5]).run("go")
    assert till.ran == []


class Budgeted(BaseModel):
    amount: int

    @field_validator("amount")
    @classmethod
    def within_budget(cls, amount: int, info: ValidationInfo) -> int:
        context: Any = info.context
        if amount > context["budget"]:
            raise ValueError("over budget")
        return amount


@pytest.mark.proves("R64")
@pytest.mark.parametrize(("edited", "ran"), [(3, [3]), (9000, [])])
async def test_an_edit_is_validated_in_the_context_of_the_run(edited: int, ran: list[int]) -> None:
    done: list[int] = []

    def pay(order: Budgeted, note: str) -> str:
        done.append(order.amount)
        return "paid"

    answer = ApprovalDecision(approved=True, override_args={"order": {"amount": edited}, "note": ""})
    toolset = ApprovalToolset(FunctionToolset[Any]([pay]), Person(answer), tool_configs=ASK_PAY, on_denied="model")
    call: Call = ("pay", {"order": {"amount": 5}, "note": ""})
    await agent_of(toolset, [call], validation_context={"budget": 100}).run("go")
    assert done == ran


# Several calls at once.


@pytest.mark.proves("R16", "H7")
async def test_all_calls_of_one_response_are_asked_about_before_any_is_answered(till: Till) -> None:
    everybody = asyncio.Barrier(3)
    ran_before: list[int] = []

    async def ask(request: ApprovalRequest) -> ApprovalDecision:
        with anyio.fail_after(5):
            await everybody.wait()
        ran_before.append(len(till.ran))
        await everybody.wait()
        return YES

    toolset = ApprovalToolset(till_set(till), ask, tool_configs={"*": "required"})
    await agent_of(toolset, [PAY_5, PAY_9, LOOK]).run("go")
    assert ran_before == [0, 0, 0]
    assert sorted(till.ran) == [("look", "x"), ("pay", 5), ("pay", 9)]


@pytest.mark.proves("R56")
async def test_one_refusal_of_several_stops_only_its_own_call(till: Till) -> None:
    def ask(request: ApprovalRequest) -> ApprovalDecision:
        return NO if request.args == {"amount": 9} else YES

    toolset = ApprovalToolset(till_set(till), ask, tool_configs=ASK_PAY, on_denied="model")
    await agent_of(toolset, [PAY_9, PAY_5, LOOK]).run("go")
    assert sorted(till.ran) == [("look", "x"), ("pay", 5)]


@pytest.mark.proves("H7")
async def test_a_run_that_is_cancelled_leaves_no_question_behind(till: Till) -> None:
    asked = asyncio.Event()

    async def ask(request: ApprovalRequest) -> ApprovalDecision:
        asked.set()
        await asyncio.Event().wait()
        raise NotImplementedError

    controller = ApprovalController(approval_callback=ask, policy=Policy({"pay": "required"}, default="none"))
    run = asyncio.ensure_future(agent_of(ApprovalToolset(till_set(till), controller=controller), [PAY_5]).run("go"))
    with anyio.fail_after(5):
        await asked.wait()
    assert len(await controller.pending()) == 1
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert await controller.pending() == []
    assert till.ran == []


# Arguments that are more than plain data.


class Item(BaseModel):
    name: str
    price: float


class Order(BaseModel):
    items: list[Item]
    due: dt.date


class Counter:
    """A tool with rich arguments, and what it got."""

    def __init__(self) -> None:
        self.got: list[Any] = []

    def order(self, order: Order, extra: list[Item], when: dt.datetime, raw: bytes) -> str:
        self.got.append((order, extra, when, raw))
        return "ordered"


RICH: dict[str, Any] = {
    "order": {"items": [{"name": "tea", "price": 2.5}], "due": "2026-01-31"},
    "extra": [{"name": "cup", "price": 1.0}],
    "when": "2026-01-30T12:00:00Z",
    "raw": b"abc",
}
TEA = Item(name="tea", price=2.5)
CUP = Item(name="cup", price=1.0)
NOON = dt.datetime(2026, 1, 30, 12, tzinfo=dt.UTC)


@pytest.mark.proves("R1", "R5", "R33")
async def test_rich_arguments_are_shown_as_plain_data_and_reach_the_tool_as_what_they_are() -> None:
    counter, person = Counter(), Person()
    toolset = ApprovalToolset(FunctionToolset[Any]([counter.order]), person, tool_configs={"order": "required"})
    await agent_of(toolset, [("order", RICH)]).run("go")
    assert person.saw == [("order", RICH)]
    assert counter.got == [(Order(items=[TEA], due=dt.date(2026, 1, 31)), [CUP], NOON, b"abc")]


@pytest.mark.proves("R64", "R33")
async def test_rich_arguments_that_were_edited_reach_the_tool_as_what_they_are() -> None:
    counter = Counter()
    edited: dict[str, Any] = {**RICH, "order": {"items": [], "due": "2026-02-28"}, "extra": []}
    person = Person(ApprovalDecision(approved=True, override_args=edited))
    toolset = ApprovalToolset(FunctionToolset[Any]([counter.order]), person, tool_configs={"order": "required"})
    await agent_of(toolset, [("order", RICH)]).run("go")
    assert counter.got == [(Order(items=[], due=dt.date(2026, 2, 28)), [], NOON, b"abc")]


@pytest.mark.proves("R10", "R5")
async def test_rich_arguments_are_remembered_by_their_values() -> None:
    counter, person = Counter(), Person(SESSION)
    other: dict[str, Any] = {**RICH, "extra": []}
    toolset = ApprovalToolset(FunctionToolset[Any]([counter.order]), person, tool_configs={"order": "required"})
    await agent_of(toolset, [("order", RICH)], [("order", RICH)], [("order", other)]).run("go")
    assert person.saw == [("order", RICH), ("order", other)]
    assert len(counter.got) == 3


@pytest.mark.proves("R44", "R33")
@pytest.mark.parametrize(
    ("kind", "given", "real"),
    [
        (dt.date, "2026-01-31", dt.date(2026, 1, 31)),
        (Item, {"name": "tea", "price": 2.5}, TEA),
        (list[Item], [{"name": "cup", "price": 1.0}], [CUP]),
        (int, "5", 5),
    ],
    ids=["date", "model", "models", "number in a text"],
)
async def test_a_marked_function_with_rich_arguments_is_asked_about_once(kind: Any, given: Any, real: Any) -> None:
    got: list[Any] = []

    def keep(value: Any, note: str = "none") -> str:
        got.append(value)
        return "kept"

    keep.__annotations__["value"] = kind
    person = Person()
    toolset = ApprovalToolset(FunctionToolset[Any]([requires_approval(keep)]), person)
    await agent_of(toolset, [("keep", {"value": given})]).run("go")
    assert len(person.asked) == 1
    assert got == [real]


@pytest.mark.proves("R44", "R64")
async def test_a_marked_function_is_asked_about_once_when_an_edit_has_to_be_read_as_its_type(till: Till) -> None:
    person = Person(ApprovalDecision(approved=True, override_args={"amount": "3"}))
    await agent_of(ApprovalToolset(FunctionToolset[Any]([marked_sync(till)]), person), [PAY_5]).run("go")
    assert person.saw == [PAY_5]
    assert till.ran == [("pay", 3)]


@pytest.mark.proves("R33")
@pytest.mark.parametrize("word", ["none", "required"])
async def test_bytes_that_are_no_text_do_not_stop_a_call(word: str) -> None:
    got: list[Any] = []

    def upload(data: Base64Bytes, day: dt.date) -> str:
        got.append((data, day))
        return "kept"

    toolset = ApprovalToolset(FunctionToolset[Any]([upload]), Person(), tool_configs={"upload": word})
    await agent_of(toolset, [("upload", {"data": "/w==", "day": "2026-01-31"})]).run("go")
    assert got == [(b"\xff", dt.date(2026, 1, 31))]


class Secretive(BaseModel):
    to: str
    amount: int = Field(exclude=True)


@pytest.mark.proves("H2", "H4")
async def test_what_a_model_leaves_out_when_it_is_written_down_is_still_asked_about() -> None:
    got: list[Any] = []

    def send(order: Secretive) -> str:
        got.append(order)
        return "sent"

    person = Person(SESSION, NO)
    inner = FunctionToolset[Any]([send])
    toolset = ApprovalToolset(inner, person, tool_configs={"send": "required"}, on_denied="model")
    turns: list[list[Call]] = [[("send", {"order": {"to": "bob", "amount": amount}})] for amount in (1, 9000)]
    await agent_of(toolset, *turns).run("go")
    assert [dict(request.args["order"]) for request in person.asked] == [
        {"to": "bob", "amount": 1},
        {"to": "bob", "amount": 9000},
    ]
    assert got == [Secretive(to="bob", amount=1)]


@pytest.mark.proves("H2", "H4")
async def test_a_yes_to_one_secret_is_no_yes_to_another() -> None:
    got: list[str] = []

    def login(password: SecretStr) -> str:
        got.append(password.get_secret_value())
        return "in"

    person = Person(SESSION, NO)
    toolset = ApprovalToolset(
        FunctionToolset[Any]([login]), person, tool_configs={"login": "required"}, on_denied="model"
    )
    await agent_of(toolset, [("login", {"password": "one"})], [("login", {"password": "two"})]).run("go")
    assert got == ["one"]
    assert len(person.asked) == 2


@pytest.mark.proves("R33")
async def test_arguments_that_nobody_could_be_shown_do_not_run() -> None:
    class Thing:
        pass

    def use(thing: Any, other: Any) -> str:
        raise NotImplementedError

    inner = FunctionToolset[Any]([use])
    toolset = ApprovalToolset(inner, nobody, tool_configs={"use": "required"})
    tools = await toolset.get_tools(context())
    with pytest.raises(PermissionError, match="cannot be shown"):
        await toolset.call_tool("use", {"thing": Thing(), "other": 1}, context(), tools["use"])


async def test_a_toolset_of_which_nothing_would_ask_says_so_once(till: Till, caplog: pytest.LogCaptureFixture) -> None:
    unruled = ApprovalToolset(FunctionToolset([till.pay]), Person(YES))
    ruled = ApprovalToolset(FunctionToolset([till.pay]), Person(YES), tool_configs={"pay": "required"})
    for toolset in (unruled, unruled, ruled):
        await Agent(Scripted([("pay", {"amount": 5})]).model, toolsets=[toolset]).run("go")
    (record,) = caplog.records
    assert record.getMessage().startswith(
        "this ApprovalToolset asks about nothing by itself: it has no tool_configs, and"
    )
