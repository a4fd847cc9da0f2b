"""Sample requests and remembered decisions for tests of stores.

Tests: tests/stores/sqlite/test_store.py
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sayso.core.conversation import ConversationMessage
from sayso.core.model import ApprovalDecision, ApprovalRequest, Remembered, Scope, ToolCall, new_id

YES = ApprovalDecision(approved=True, who="ann")
NO = ApprovalDecision(approved=False, who="bob", note="not today")


def sample_request(
    *,
    call_id: str | None = None,
    session: str = "s1",
    run: str = "",
    args: Mapping[str, Any] | None = None,
    asked_at: float = 0.0,
    expires_at: float | None = None,
) -> ApprovalRequest:
    """Return an open request."""
    call = ToolCall(tool="pay", args=args or {"amount": 5}, call_id=call_id or new_id(), session=session)
    return ApprovalRequest(
        id=new_id(),
        tool_name=call.tool,
        args=call.args,
        tool_call_id=call.call_id,
        session=session,
        run=run,
        digest=call.digest(),
        conversation=(ConversationMessage(role="user", text="pay it"),),
        asked_at=asked_at,
        expires_at=expires_at,
    )


def sample_remembered(*, args: Mapping[str, Any] | None = None, uses_left: int | None = None) -> Remembered:
    """Return a remembered decision."""
    decision = ApprovalDecision(approved=True, remember="always", override_args=args)
    return Remembered(
        id=new_id(),
        tool="pay",
        scope=Scope(kind="call", key=new_id(), label="this call"),
        decision=decision,
        session=None,
        remembered_at=0.0,
        uses_left=uses_left,
    )
