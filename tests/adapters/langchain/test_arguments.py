"""Arguments: what is shown and judged is what LangChain makes of them, and a tool gets what it would get without us."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Annotated, Any

import pytest
from langchain.agents import create_agent
from langchain.tools import ToolRuntime
from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool, InjectedToolArg, StructuredTool
from pydantic import AliasChoices, BaseModel, Field, SecretStr, field_validator
from tests.adapters.conformance import Call
from tests.adapters.conformance.toolbox import YES
from tests.adapters.langchain.driver import model_of

from sayso import ApprovalDecision, Policy, requires_approval
from sayso.adapters.langchain import Approvals
from sayso.core.model import ApprovalRequest

GO: Any = {"messages": [("user", "go")]}
SMALL = Policy({"pay": {"approval": "none", "when": {"args.amount": {"lt": 10}}}}, default="required")
Ran = list[dict[str, Any]]


def run(
    make: Callable[[Ran], BaseTool], args: dict[str, Any], *, policy: Policy | None = None, answer: Any = YES
) -> tuple[Ran, Ran, str]:
    """Let a guarded agent call the tool `pay` once; return what ran, what was shown, and what the model was told."""
    ran, shown = Ran(), Ran()

    def ask(request: ApprovalRequest) -> ApprovalDecision:
        shown.append(dict(request.args))
        return answer

    approvals = Approvals(policy or Policy(default="required"), approval_callback=ask)
    agent: Any = create_agent(model_of([[Call("pay", args)], "done"]), [make(ran)], middleware=[approvals])
    (told,) = [each.text for each in agent.invoke(GO)["messages"] if isinstance(each, ToolMessage)]
    return ran, shown, told


def with_schema(schema: Any) -> Callable[[Ran], BaseTool]:
    def make(ran: Ran) -> BaseTool:
        def pay(**args: Any) -> str:
            ran.append(args)
            return "paid"

        return StructuredTool.from_function(pay, description="Pay.", args_schema=schema)

    return make


class Aliased(BaseModel):
    model_config = {"populate_by_name": True}
    amount: int = Field(5, alias="Amount")


class Chosen(BaseModel):
    model_config = {"populate_by_name": True}
    amount: int = Field(5, validation_alias=AliasChoices("sum", "Amount"))


@pytest.mark.parametrize("schema", [Aliased, Chosen])
def test_an_alias_gets_no_argument_past_a_rule(schema: Any) -> None:
    assert run(with_schema(schema), {"Amount": 1000}, policy=SMALL)[:2] == ([{"amount": 1000}], [{"Amount": 1000}])
    ran, shown, told = run(with_schema(schema), {"Amount": 1000, "amount": 5}, policy=SMALL)
    assert (ran, shown) == ([], [])
    assert "'Amount' and 'amount' name one argument" in told
    assert run(with_schema(schema), {}, policy=SMALL)[:2] == ([{"amount": 5}], [])


class Order(BaseModel):
    parts: list[Aliased] = []


class Basket(BaseModel):
    order: Order | None = None
    extra: dict[str, Aliased] = {}
    sizes: list[Annotated[int, {"not": "hashable"}]] = []
    inner: Basket | None = None


@pytest.mark.parametrize(
    "args", [{"order": {"parts": [{}, {"Amount": 1, "amount": 2}]}}, {"extra": {"x": {"Amount": 1, "amount": 2}}}]
)
def test_an_argument_has_one_name_at_every_depth(args: dict[str, Any]) -> None:
    ran, shown, told = run(with_schema(Basket), args)
    assert (ran, shown, "name one argument" in told) == ([], [], True)
    fine: dict[str, Any] = {
        "sizes": [],
        "order": {"parts": [{"Amount": 1}, {"amount": 2}]},
        "extra": {"amount": {"Amount": 1}},
    }
    assert run(with_schema(Basket), fine)[1] == [fine]


def test_an_edit_gets_no_alias_past_a_rule() -> None:
    rule = Policy({"pay": {"approval": "blocked", "when": {"args.amount": {"gt": 100}}}}, default="required")
    edit = ApprovalDecision(approved=True, override_args={"Amount": 1000, "amount": 5}, who="ann")
    assert run(with_schema(Aliased), {"amount": 5}, policy=rule, answer=edit)[0] == []


def test_what_a_tool_ignores_is_not_shown() -> None:
    def make(ran: Ran) -> BaseTool:
        def pay(amount: int) -> str:
            """Pay."""
            ran.append({"amount": amount})
            return "paid"

        return StructuredTool.from_function(pay)

    assert run(make, {"amount": 5, "dry_run": True})[:2] == ([{"amount": 5}], [{"amount": 5}])


def test_what_langchain_injects_the_model_cannot_give_and_the_call_runs() -> None:
    def make(ran: Ran) -> BaseTool:
        def pay(amount: int, runtime: ToolRuntime, user: Annotated[str, InjectedToolArg] = "nobody") -> str:
            """Pay."""
            ran.append({"amount": amount, "user": user, "call": runtime.tool_call_id is not None})
            return "paid"

        return StructuredTool.from_function(pay)

    ran, shown, _ = run(make, {"amount": 5, "user": "admin", "runtime": {}})
    assert (ran, shown) == ([{"amount": 5, "user": "nobody", "call": True}], [{"amount": 5}])


def test_a_tool_that_takes_more_than_its_schema_names_gets_and_shows_it() -> None:
    class Open(BaseModel):
        model_config = {"extra": "allow"}
        amount: int

    given = {"amount": 5, "callbacks": "x", "memo": "rent"}
    schema = {"type": "object", "properties": {"amount": {"type": "integer"}, "callbacks": {"type": "string"}}}
    assert run(with_schema(schema), given)[:2] == ([given], [given])
    assert run(with_schema(Open), {"amount": 5, "memo": "rent"})[0] == [{"amount": 5, "memo": "rent"}]


class Odd(BaseModel):
    amount: int
    token: SecretStr = SecretStr("s3cret")
    email: Annotated[str, Field(pattern="@")] = ""
    limit: int = Field(-1, ge=0)
    checked: str = "no"
    to: str = "bob"

    @field_validator("checked")
    @classmethod
    def refuse(cls, value: str) -> str:
        raise ValueError(value)


class Strict(BaseModel):
    model_config = {"strict": True}
    amount: int
    when: dt.date = dt.date(2020, 1, 1)


@pytest.mark.parametrize(
    ("schema", "args", "shown"),
    [(Odd, {"amount": 1}, {"amount": 1, "to": "bob"}), (Strict, {"amount": 1}, {"amount": 1})],
)
def test_a_default_that_would_not_survive_its_own_schema_is_left_to_the_tool(
    schema: Any, args: dict[str, Any], shown: dict[str, Any]
) -> None:
    made = schema(**args)
    assert run(with_schema(schema), args)[:2] == (
        [{name: getattr(made, name) for name in schema.model_fields}],
        [shown],
    )


def test_a_tool_without_a_schema_gets_its_default_and_not_the_json_of_it() -> None:
    def make(ran: Ran) -> BaseTool:
        class Pay(BaseTool):
            name: str = "pay"
            description: str = "Pay."

            def _run(self, amount: int, when: dt.date = dt.date(2020, 1, 1), to: str = "bob", **more: Any) -> str:
                ran.append({"amount": amount, "when": when, "to": to, **more})
                return "paid"

        return Pay()

    ran, shown, _ = run(make, {"amount": 1, "memo": "rent"})
    assert ran == [{"amount": 1, "when": dt.date(2020, 1, 1), "to": "bob", "memo": "rent"}]
    assert shown == [{"amount": 1, "to": "bob", "memo": "rent"}]


def test_a_schema_of_pydantic_1_is_a_schema_like_all_others() -> None:
    from pydantic.v1 import BaseModel as OldModel  # noqa: PLC0415 - only here

    class Old(OldModel):
        amount: int

    assert run(with_schema(Old), {"amount": 5})[:2] == ([{"amount": 5}], [{"amount": 5}])


@pytest.mark.parametrize("args", [{"amount": 5}, {"amount": "5"}, {"amount": 5.0, "to": "eve"}])
def test_a_marked_function_asks_once_though_its_arguments_are_converted(args: dict[str, Any]) -> None:
    def make(ran: Ran) -> BaseTool:
        @requires_approval
        def pay(amount: float, to: str = "bob") -> str:
            """Pay."""
            ran.append({"amount": amount, "to": to})
            return "paid"

        return StructuredTool.from_function(pay)

    ran, shown, _ = run(make, args, policy=Policy(default="none"))
    assert (ran, shown) == ([{"to": "bob", **args, "amount": 5.0}], [{"to": "bob", **args}])
