"""What a question says about the arguments of its tool, so that whoever edits them can be helped."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

import pytest

from sayso import ApprovalController, ApprovalDecision, ApprovalRequest, Policy
from sayso.adapters.function import guard
from sayso.channels.edit_schema import schema_violation

pytestmark = pytest.mark.anyio


class Desk:
    """A channel at which an edit is tried out before it is given as the answer."""

    def __init__(self, args: dict[str, Any]) -> None:
        self.args = args
        self.tried: list[ApprovalRequest | Exception] = []
        self.seen: list[tuple[str, ...]] = []

    async def announce(self, request: ApprovalRequest) -> ApprovalDecision | None:
        raise AssertionError("a channel that can hear is not merely told")

    async def ask_interactively(self, request: ApprovalRequest, handle: Any) -> ApprovalDecision | None:
        self.seen = [tuple(each.who for each in await handle.mark_seen(who, "desk")) for who in ("ann", "bob")]
        try:
            self.tried.append(await handle.preview_edit(self.args))
        except (PermissionError, ValueError) as problem:
            self.tried.append(problem)
            return ApprovalDecision(approved=False)
        return ApprovalDecision(approved=True, override_args=self.args)


async def pay(amount: int, to: str, currency: Literal["EUR", "USD"] = "EUR", folder: Path | None = None) -> str:
    return f"{amount} {currency} to {to} {folder}"


async def ask(args: dict[str, Any], rules: dict[str, Any] | None = None) -> tuple[Desk, Any]:
    desk = Desk(args)
    policy = Policy(tools=rules or {"pay": "required"}, default="none")
    async with ApprovalController(channels=[desk], policy=policy) as controller:
        try:
            return desk, await guard(pay, controller=controller)(5, to="Ann")
        except PermissionError as refused:
            return desk, refused


async def test_a_question_carries_the_schema_of_its_tools_arguments() -> None:
    desk, _ = await ask({"amount": 6, "to": "Ann"})
    tried = desk.tried[0]
    assert isinstance(tried, ApprovalRequest)
    schema = json.loads(tried.parameters)
    assert schema["required"] == ["amount", "to"]
    assert schema["properties"]["amount"] == {"type": "integer"}
    assert set(schema["properties"]["currency"]["enum"]) == {"EUR", "USD"}
    assert schema["properties"]["folder"] == {}, "a type that only Python knows takes anything"
    assert schema_violation({"amount": "6", "to": "Ann"}, tried.parameters) == "amount: '6' is not of type 'integer'"
    assert schema_violation({"amount": 6, "to": "Ann", "fast": True}, tried.parameters) is not None
    assert schema_violation({"amount": 6, "to": "Ann"}, tried.parameters) is None


async def test_an_edit_that_is_tried_out_is_judged_and_then_runs_as_it_was_shown() -> None:
    desk, result = await ask({"amount": 6, "to": "Bob"})
    tried = desk.tried[0]
    assert isinstance(tried, ApprovalRequest)
    assert tried.args == {"amount": 6, "to": "Bob"}
    assert result == "6 EUR to Bob None"


@pytest.mark.proves("H1")
async def test_an_edit_that_the_policy_blocks_is_told_before_it_is_an_answer() -> None:
    too_much = {"approval": "blocked", "when": {"args.amount": {"gt": 100}}}
    desk, result = await ask({"amount": 5000, "to": "Ann"}, {"pay": "required", "pa*": too_much})
    assert isinstance(desk.tried[0], PermissionError)
    assert "these arguments cannot run" in str(desk.tried[0])
    assert isinstance(result, PermissionError)


async def test_an_edit_that_does_not_fit_the_tool_is_told_before_it_is_an_answer() -> None:
    desk, _ = await ask({"amount": 5, "whom": "Ann"})
    assert "pay has no argument 'whom'" in str(desk.tried[0])


async def test_who_sits_at_a_channel_learns_who_else_has_the_question_before_them() -> None:
    desk, _ = await ask({"amount": 6, "to": "Bob"})
    assert desk.seen == [("ann",), ("ann", "bob")]


@pytest.mark.parametrize(
    "schema",
    ['{"$ref": "http://127.0.0.1:1/schema"}', '{"type": 5}', "[", '{"$ref": "#"}'],
    ids=["an address", "no schema", "no JSON", "itself"],
)
def test_a_schema_that_cannot_be_used_refuses_the_edit_and_fetches_nothing(schema: str) -> None:
    assert "cannot be used" in (schema_violation({"a": 1}, schema) or "")
