"""Controllers with a person who always gives one answer, and the loops of CrewAI that tests run through."""

from __future__ import annotations

from typing import Any

import pytest

from sayso import ApprovalController, ApprovalDecision, Policy
from sayso.core.model import ApprovalRequest

LOOPS = pytest.mark.parametrize("native", [True, False], ids=["native", "text"])


def person(
    *, approved: bool = True, policy: Policy | None = None, **settings: Any
) -> tuple[ApprovalController, list[ApprovalRequest]]:
    """Return a controller, and the list of what its person was asked."""
    asked: list[ApprovalRequest] = []

    def answer(request: ApprovalRequest) -> ApprovalDecision:
        asked.append(request)
        return ApprovalDecision(approved=approved, who="ann", note=None if approved else "too much")

    return ApprovalController(approval_callback=answer, policy=policy, **settings), asked
