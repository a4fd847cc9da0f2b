"""Arguments by position and by name: shown, judged and edited by their names, and passed on as they were."""

# AdalFlow has no types of its own.
# pyright: basic, reportArgumentType=false, reportAttributeAccessIssue=false, reportOptionalMemberAccess=false, reportOptionalSubscript=false

from typing import Any

import pytest
from adalflow.core.func_tool import FunctionTool
from adalflow.core.tool_manager import ToolManager
from adalflow.core.types import Function

from sayso import ApprovalDecision, Policy
from sayso.adapters.adalflow import ApprovalOutcome, ApprovalResponse, PermissionManager
from sayso.testing import ScriptedChannel


def pay(amount: int, to: str = "ann", *, force: bool = False) -> str:
    return f"{amount} {to} {force}"


def only(amount: int, /, to: str) -> str:
    return f"{amount} {to}"


def many(first: str, *others: int, **options: str) -> str:
    return f"{first} {others} {options}"


def held(amount: int, purse: object = object()) -> str:
    return f"{amount}"


def sum_of(fn: int, self_: int = 0) -> str:
    return f"{fn}"


class Bank:
    def pay(self, amount: int) -> str:
        return f"{amount}"


def managed(channel: ScriptedChannel, policy: dict[str, Any] | None = None) -> tuple[PermissionManager, ToolManager]:
    tools = ToolManager([FunctionTool(each) for each in (pay, only, many, held, sum_of, Bank().pay)])
    mine = PermissionManager(channels=[channel], policy=Policy(policy or {}, default="required"))
    mine.set_tool_manager(tools)
    return mine, tools


@pytest.mark.parametrize(
    ("func", "shown", "came_to"),
    [
        (Function(name="pay", args=[5]), {"amount": 5, "to": "ann", "force": False}, "5 ann False"),
        (
            Function(name="pay", args=[5], kwargs={"to": "bob"}),
            {"amount": 5, "to": "bob", "force": False},
            "5 bob False",
        ),
        (
            Function(name="pay", kwargs={"to": "bob", "amount": 5}),
            {"amount": 5, "to": "bob", "force": False},
            "5 bob False",
        ),
        (Function(name="only", args=[5], kwargs={"to": "bob"}), {"amount": 5, "to": "bob"}, "5 bob"),
        (Function(name="only", args=[5, "bob"]), {"amount": 5, "to": "bob"}, "5 bob"),
        (
            Function(name="many", args=["a", 1, 2], kwargs={"x": "y"}),
            {"first": "a", "others": (1, 2), "options": {"x": "y"}},
            "a (1, 2) {'x': 'y'}",
        ),
        (Function(name="many", kwargs={"first": "a"}), {"first": "a"}, "a () {}"),
        (Function(name="held", args=[5]), {"amount": 5}, "5"),
        (Function(name="sum_of", args=[1]), {"fn": 1, "self_": 0}, "1"),
        (Function(name="Bank_pay", kwargs={"amount": 5}), {"amount": 5}, "5"),
        (
            Function(name="pay", args=None, kwargs={"amount": 5}),
            {"amount": 5, "to": "ann", "force": False},
            "5 ann False",
        ),
    ],
)
@pytest.mark.proves("R61")
async def test_every_argument_is_shown_by_its_name_and_runs_as_it_was(
    func: Function, shown: dict[str, Any], came_to: str
) -> None:
    channel = ScriptedChannel(ApprovalDecision(approved=True))
    mine, tools = managed(channel)
    _, runs, _ = await mine.check_permission(func)
    assert dict(channel.asked[0].args) == shown
    assert runs is not None
    assert runs is not func
    assert len(runs.args or ()) <= max(len(func.args or ()), 1)
    assert tools.execute_func(runs).output == came_to


class Payment(Function):
    """A call with an `__init__` of its own, as programs on AdalFlow write them."""

    def __init__(self, amount: int) -> None:
        super().__init__(id="1", name="pay", kwargs={"amount": amount})
        self.invoice = "2026-17"


@pytest.mark.proves("R61", "R64")
@pytest.mark.parametrize(("edit", "came_to"), [(None, "5 ann False"), ({"amount": 1}, "1 ann False")])
async def test_a_function_with_an_init_of_its_own_is_asked_about_and_runs(
    edit: dict[str, Any] | None, came_to: str
) -> None:
    channel = ScriptedChannel(ApprovalDecision(approved=True, override_args=edit))
    mine, tools = managed(channel)
    func = Payment(5)
    allowed, runs, _ = await mine.check_permission(func)
    assert (allowed, channel.asked[0].args["amount"]) == (True, 5)
    assert isinstance(runs, Payment)
    assert (runs.invoice, tools.execute_func(runs).output) == ("2026-17", came_to)
    assert (runs is func, func.kwargs) == (False, {"amount": 5})


def test_the_event_of_a_function_with_an_init_of_its_own_shows_a_copy_of_it() -> None:
    mine, _ = managed(ScriptedChannel())
    func = Payment(5)
    shown = mine.create_permission_event(func).data.tool
    assert (shown is func, shown.kwargs, shown.invoice) == (False, {"amount": 5}, "2026-17")


@pytest.mark.proves("R64")
@pytest.mark.parametrize(
    ("edit", "came_to"),
    [
        ({"amount": 1}, "1 ann False"),
        ({"amount": 1, "force": True}, "1 ann True"),
        ({"to": "eve", "amount": 0}, "0 eve False"),
    ],
)
async def test_edited_arguments_run_by_their_names(edit: dict[str, Any], came_to: str) -> None:
    mine, tools = managed(ScriptedChannel(ApprovalDecision(approved=True, override_args=edit)))
    _, runs, _ = await mine.check_permission(Function(name="pay", args=[5, "bob"]))
    assert runs is not None
    assert tools.execute_func(runs).output == came_to


@pytest.mark.proves("R64")
@pytest.mark.parametrize(
    ("name", "edit", "why"),
    [
        ("pay", {"amount": "5"}, "takes no such 'amount'"),
        ("pay", {"to": "bob"}, "needs the argument 'amount'"),
        ("pay", {"amount": 5, "cc": "eve"}, "has no argument 'cc'"),
        ("many", {"first": "a", "others": 3}, "takes several values as 'others'"),
        ("many", {"first": "a", "options": ["x"]}, "takes several values as 'options'"),
    ],
)
async def test_edited_arguments_that_do_not_fit_run_nothing(name: str, edit: dict[str, Any], why: str) -> None:
    mine, _ = managed(ScriptedChannel(ApprovalDecision(approved=True, override_args=edit)))
    given = {"amount": 5} if name == "pay" else {"first": "a"}
    allowed, runs, told = await mine.check_permission(Function(name=name, kwargs=given))
    assert (allowed, runs) == (False, None)
    assert why in str(told)


async def test_a_seed_s_answer_edits_positions_and_leaves_the_rest() -> None:
    def ask(_: object) -> ApprovalResponse:
        return ApprovalResponse(ApprovalOutcome.MODIFY, args=[1])

    tools = ToolManager([FunctionTool(pay)])
    mine = PermissionManager(ask, tool_manager=tools, policy=Policy({"pay": "required"}, default="none"))
    _, runs, _ = await mine.check_permission(Function(name="pay", args=[5], kwargs={"to": "bob"}))
    assert runs is not None
    assert (runs.args, runs.kwargs) == ([1], {"to": "bob", "force": False})


@pytest.mark.proves("H5")
@pytest.mark.parametrize(
    ("func", "why"),
    [
        (Function(name="pay"), "missing a required argument: 'amount'"),
        (Function(name="pay", kwargs={"amount": 5, "cc": 1}), "unexpected keyword argument 'cc'"),
        (Function(name="pay", args=[5], kwargs={"amount": 6}), "multiple values for argument 'amount'"),
        (Function(name="pay", args="5"), "`args` has to be a list"),
        (Function(name="pay", kwargs={3: 5}), "name has to be a text"),
        (Function(name="rm"), "there is no tool 'rm'"),
        (Function(name="context_variables"), "there is no tool"),
        (Function(name=None), "there is no tool"),
    ],
)
async def test_a_call_that_cannot_be_made_asks_nobody_and_says_why(func: Function, why: str) -> None:
    channel = ScriptedChannel()
    mine, tools = managed(channel)
    tools.context["context_variables"] = {}
    allowed, runs, told = await mine.check_permission(func)
    assert (allowed, runs, channel.asked) == (False, None, [])
    assert why in str(told)


async def test_a_rule_about_an_argument_sees_its_default() -> None:
    rule = {"pay": {"approval": "blocked", "when": {"args.to": {"eq": "ann"}}}}
    mine, _ = managed(ScriptedChannel(), rule)
    allowed, _, told = await mine.check_permission(Function(name="pay", args=[5]))
    assert not allowed
    assert "blocked by policy" in str(told)


async def test_an_argument_that_nobody_can_be_shown_is_not_approvable() -> None:
    channel = ScriptedChannel(ApprovalDecision(approved=True))
    mine, _ = managed(channel)
    allowed, _, told = await mine.check_permission(Function(name="held", args=[5, object()]))
    assert not allowed
    assert "no approval can be bound to it" in str(told)


async def test_what_was_shown_runs_even_if_the_function_was_changed_meanwhile() -> None:
    func = Function(name="many", args=["a", 1], kwargs={"x": "y"})

    class Meddler:
        async def announce(self, request: object) -> ApprovalDecision:
            func.args[1] = 9000
            func.kwargs.clear()
            return ApprovalDecision(approved=True)

    tools = ToolManager([FunctionTool(many)])
    mine = PermissionManager(
        channels=[Meddler()], tool_manager=tools, policy=Policy({"many": "required"}, default="none")
    )
    _, runs, _ = await mine.check_permission(func)
    assert runs is not None
    assert tools.execute_func(runs).output == "a (1,) {'x': 'y'}"
