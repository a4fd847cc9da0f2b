"""Arguments: what a person is shown is what the function reads, in the types that it declares."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from enum import Enum
from typing import Annotated, Any

import pytest
from agent_framework import FunctionInvocationContext, FunctionTool, tool
from pydantic import AfterValidator, BaseModel, BeforeValidator, Field
from tests.adapters.agent_framework.driver import agent_of
from tests.adapters.agent_framework.people import needs, person, told
from tests.adapters.conformance import Call
from tests.adapters.conformance.toolbox import YES

from sayso import ApprovalDecision, Policy
from sayso.adapters.agent_framework import Approvals

_STRICT = "before, the framework refuses dates by itself"
NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)


class Kind(Enum):
    """A choice."""

    TRAIN = "train"
    SHIP = "ship"


class Seat(BaseModel):
    """Data of its own type."""

    number: int
    window: bool = False


async def call(
    made: Any, args: Mapping[str, Any], decision: ApprovalDecision = YES, policy: Policy | None = None
) -> tuple[list[dict[str, Any]], str]:
    """Let an agent call a tool once; return what people were shown, and what the model was told."""
    controller, asked = person(decision, policy)
    name = made.name if isinstance(made, FunctionTool) else made.__name__
    agent = agent_of([[Call(name, args)], "done"], [made], Approvals(controller))
    response = await agent.run("go", session=agent.create_session())
    return [dict(each.args) for each in asked], told(response)


def travel(ran: list[tuple[object, ...]]) -> Any:
    """Return a tool whose arguments are no plain data."""

    def book(at: dt.datetime, kind: Kind, seat: Seat, tags: set[str], mark: bytes = b"x") -> str:
        """Book a journey."""
        ran.append((at, kind, seat, tags, mark))
        return "booked"

    return book


ARGS = {"at": "2026-01-01T12:00:00Z", "kind": "train", "seat": {"number": 7}, "tags": ["c", "a", "b"]}


@needs("1.22", _STRICT)
async def test_values_of_all_types_are_shown_as_data_and_run_as_declared() -> None:
    ran: list[tuple[object, ...]] = []
    shown, _ = await call(travel(ran), ARGS)
    assert shown == [{**ARGS, "tags": ["a", "b", "c"], "mark": "x"}]
    assert ran == [(NOON, Kind.TRAIN, {"number": 7}, {"a", "b", "c"}, b"x")]


@needs("1.22", _STRICT)
async def test_edited_values_run_as_declared() -> None:
    ran: list[tuple[object, ...]] = []
    edit = {**ARGS, "at": "2027-01-01T12:00:00Z", "kind": "ship", "tags": []}
    await call(travel(ran), ARGS, ApprovalDecision(approved=True, override_args=edit))
    assert ran == [(NOON.replace(year=2027), Kind.SHIP, {"number": 7}, set(), b"x")]


@pytest.mark.parametrize("edit", [{"at": "soon"}, {"seat": {"number": "7"}}, {"extra": 1}, {"kind": "bus"}])
async def test_an_edit_that_the_function_would_not_read_so_does_not_run(edit: dict[str, Any]) -> None:
    ran: list[tuple[object, ...]] = []
    _, said = await call(travel(ran), ARGS, ApprovalDecision(approved=True, override_args={**ARGS, **edit}))
    assert (ran, "do not fit" in said) == ([], True)


@pytest.mark.parametrize("bad", [{"at": "soon"}, {"kind": "bus"}, {"seat": {}}])
async def test_nobody_is_asked_about_what_the_tool_cannot_take(bad: dict[str, Any]) -> None:
    ran: list[tuple[object, ...]] = []
    shown, said = await call(travel(ran), {**ARGS, **bad})
    assert (shown, ran, "do not fit" in said) == ([], [], True)


@pytest.mark.parametrize("to", ["eve", None])
async def test_a_context_has_the_arguments_that_were_approved(to: str | None) -> None:
    read: list[Any] = []

    def pay(amount: int, ctx: FunctionInvocationContext, to: str = "bob") -> str:
        read.append((amount, to, dict(ctx.arguments), ctx.session is not None))
        return "paid"

    edit = None if to is None else {"amount": 3, "to": to}
    shown, _ = await call(pay, {"amount": 5}, ApprovalDecision(approved=True, override_args=edit))
    ran = edit or {"amount": 5, "to": "bob"}
    assert shown == [{"amount": 5, "to": "bob"}]
    assert read == [(ran["amount"], ran["to"], ran, True)]


async def test_a_field_with_an_alias_is_shown_once_and_runs() -> None:
    class Payment(BaseModel):
        amount: int
        to: str = Field("bob", alias="recipient")

    ran: list[tuple[int, str]] = []

    @tool(schema=Payment)
    def pay(amount: int, to: str) -> str:
        ran.append((amount, to))
        return "paid"

    shown, _ = await call(pay, {"amount": 5, "recipient": "eve"})
    assert (shown, ran) == ([{"amount": 5, "to": "eve"}], [(5, "eve")])
    await call(pay, {"amount": 5}, ApprovalDecision(approved=True, override_args={"amount": 3, "to": "ann"}))
    assert ran[1:] == [(3, "ann")]


async def test_a_validator_that_changes_a_value_does_so_before_it_is_shown_and_not_again() -> None:
    ran: list[int] = []

    def pay(amount: Annotated[int, AfterValidator(lambda each: each * 2)]) -> str:
        ran.append(amount)
        return "paid"

    shown, _ = await call(pay, {"amount": 5})
    assert (shown, ran) == ([{"amount": ran[0]}], ran)
    _, said = await call(pay, {"amount": 5}, ApprovalDecision(approved=True, override_args={"amount": 3}))
    assert (len(ran), "read them as" in said) == (1, True)


async def test_a_default_that_cannot_be_shown_is_left_to_the_function() -> None:
    missing, ran = object(), list[bool]()

    def pay(amount: int, to: Any = missing) -> str:
        ran.append(to is missing)
        return f"paid {amount}"

    with pytest.warns(UserWarning, match="not JSON serializable"):
        shown, _ = await call(pay, {"amount": 5})
    assert (shown, ran) == ([{"amount": 5}], [True])


async def test_a_default_of_a_given_schema_is_shown_and_runs() -> None:
    ran: list[object] = []
    schema = {
        "type": "object",
        "properties": {"amount": {"type": "integer"}, "to": {"type": "string", "default": "bob"}},
        "required": ["amount"],
    }

    def pay(amount: int, to: str = "eve") -> str:
        ran.append((amount, to))
        return "paid"

    made = FunctionTool(name="pay", description="Pay.", func=pay, input_model=schema)
    shown, _ = await call(made, {"amount": 5})
    assert (shown, ran) == ([{"amount": 5, "to": "bob"}], [(5, "bob")])
    _, said = await call(made, {"amount": 5}, ApprovalDecision(approved=True, override_args={"amount": "lots"}))
    assert (len(ran), "do not fit" in said) == (1, True)


async def test_a_method_runs_on_its_own_object() -> None:
    ran: list[object] = []

    class Bank:
        @tool(approval_mode="always_require")
        def pay(self, amount: int) -> str:
            """Pay somebody."""
            ran.append((self, amount))
            return "paid"

        @tool
        async def look(self, what: str) -> str:
            """Look at something."""
            ran.append((self, what))
            return "seen"

    for bank in (Bank(), Bank()):
        paid, looked = await call(bank.pay, {"amount": 5}), await call(bank.look, {"what": "x"})
        assert [len(shown) for shown, _ in (paid, looked)] == [1, 1]
        assert ran[-2:] == [(bank, 5), (bank, "x")]


async def test_a_value_that_is_made_of_a_text_only_once_is_not_made_again() -> None:
    ran: list[int] = []

    def pay(amount: Annotated[int, BeforeValidator(lambda each: each if isinstance(each, int) else len(each))]) -> str:
        ran.append(amount)
        return "paid"

    shown, _ = await call(pay, {"amount": "five"})
    assert (shown, ran) == ([{"amount": 4}], [4])


async def test_a_tool_is_called_by_hand_as_before() -> None:
    ran: list[int] = []

    @tool
    def pay(amount: int) -> str:
        ran.append(amount)
        return "paid"

    await call(pay, {"amount": 5})
    assert pay(6) == "paid"
    await pay.invoke(arguments={"amount": 7})
    assert ran == [5, 6, 7]
