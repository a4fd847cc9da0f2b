"""An edit that a client cannot take: the refusal names the new call, and that call uses the approval, once."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from sayso import ApprovalController, ApprovalDecision, ToolCall
from sayso.adapters.kit import EditedCalls, Gate, edited_call
from sayso.core.model import ApprovalRequest, Approved, Pending

LESS = ApprovalDecision(approved=True, override_args={"amount": 3}, note="less", who="ann")


def call(amount: int, **facts: Any) -> ToolCall:
    return replace(ToolCall(tool="pay", args={"amount": amount}, call_id="1", session="s", run="r"), **facts)


async def answered(controller: ApprovalController, decision: ApprovalDecision = LESS) -> ApprovalRequest:
    outcome = await controller.review(call(5))
    assert isinstance(outcome, Pending)
    return await controller.answer(outcome.request.id, decision)


async def test_the_edited_call_uses_the_approval_of_the_original_one() -> None:
    controller = ApprovalController(mode="defer")
    edits = EditedCalls(Gate(controller))
    text = await edits.refuse(await answered(controller))
    assert ("pay(amount=3)" in text, "less" in text) == (True, True)
    original = await edits.original(call(3, call_id="2"))
    assert original == call(5)
    outcome = await controller.review(call(5), asked=True)
    assert isinstance(outcome, Approved)
    assert dict(outcome.args) == {"amount": 3}
    assert await edits.original(call(3)) is None, "it is used up"


@pytest.mark.parametrize("other", [call(4), call(3, session="t"), call(3, run="q"), call(3, schema_hash="x")])
async def test_another_call_does_not_use_it(other: ToolCall) -> None:
    controller = ApprovalController(mode="defer")
    edits = EditedCalls(Gate(controller))
    await edits.refuse(await answered(controller))
    assert await edits.original(other) is None


async def test_an_approval_without_an_edit_is_not_kept() -> None:
    controller = ApprovalController(mode="defer")
    request = await answered(controller, ApprovalDecision(approved=True, who="ann"))
    assert edited_call(request) is None
    with pytest.raises(ValueError, match="not approved with edited arguments"):
        await EditedCalls(Gate(controller)).refuse(request)
