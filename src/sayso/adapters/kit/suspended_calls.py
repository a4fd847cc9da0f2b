"""Suspended calls: a call that has begun, and stopped because an agent inside its tool has to ask, resumes once.

For frameworks that enter the same hook again when they resume; the mark in the store says that the call had begun.

Tests: tests/adapters/kit/test_kit.py
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from sayso.core.model import ApprovalRequest, Approved, Denied, ToolCall

if TYPE_CHECKING:
    from sayso.adapters.kit.gate import Gate
    from sayso.adapters.kit.guarded_run import GuardedRun
    from sayso.engine.controller import ApprovalController
    from sayso.policy.policy import ToolRules

_MARK = b"\x01"


async def suspend(run: GuardedRun, call: ToolCall, controller: ApprovalController) -> None:
    """End a run that stopped inside its tool, so that the same call resumes it."""
    run.suspend()
    if run.outcome.by == "answer":  # else nothing is used up, and the call is decided about again
        await controller.store.park(_mark(call, controller), _MARK)


async def forget_suspended(call: ToolCall, controller: ApprovalController) -> None:
    """Forget that a call had stopped: it came to its end all the same, and does not resume."""
    await controller.store.unpark(_mark(call, controller))


async def is_suspended(request: ApprovalRequest | None, call: ToolCall, controller: ApprovalController) -> bool:
    """Whether the call of this request, whose approval is used, stopped inside its tool and has not resumed yet."""
    if request is None or request.status != "used":
        return False
    return await controller.store.parked(_mark(call, controller)) is not None


async def resume_suspended(call: ToolCall, rules: ToolRules, gate: Gate) -> Approved | Denied:
    """Decide whether a suspended call may run on: for exactly one caller, and as the rules say now."""
    controller = gate.controller
    outcome = await controller.adapter.resume_suspended(call, gate.tighten(rules))
    if isinstance(outcome, Approved) and await controller.store.unpark(_mark(call, controller)) is None:
        return Denied(cause="replayed", reason="somebody else goes on with it at the same moment")
    return outcome


def _mark(call: ToolCall, controller: ApprovalController) -> str:
    here = controller.adapter.with_session(call)
    return "waiting/" + hashlib.sha256(f"{here.session}\0{here.key}".encode()).hexdigest()
