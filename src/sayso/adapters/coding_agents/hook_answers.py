"""Answers of hooks: one whole decision in the form of each client, with a reason and no field that it does not know.

Tests: tests/adapters/coding_agents/test_hook_answers.py
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from sayso.adapters.kit import call_text, has_feedback

if TYPE_CHECKING:
    from sayso.adapters.coding_agents.client_calls import ClientCall
    from sayso.adapters.coding_agents.clients import Client, Form
    from sayso.core.model import Approved

_UNSAID = "sayso refuses it"


class HookAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What a client is answered: whether its call runs, why, with which input of its own, and a word for its model."""

    decision: Literal["allow", "deny", "defer", "none"]  # none: the event wants no decision
    reason: str = ""
    args: Mapping[str, Any] | None = None  # the client's own input, where a person has edited it
    feedback: str = ""


RECORDED = HookAnswer(decision="none")


def deny(reason: str) -> HookAnswer:
    """Return a refusal."""
    return HookAnswer(decision="deny", reason=reason or _UNSAID)


def allow(asked: ClientCall, outcome: Approved, *, changed: bool) -> HookAnswer:
    """Return the permission for an approved call, with its new input if a person has changed it."""
    return HookAnswer(
        decision="allow",
        reason=outcome.reason,
        args=asked.to_input(outcome.args) if changed else None,
        feedback=_feedback(asked, outcome),
    )


def answer_fields(answer: HookAnswer, client: Client) -> dict[str, Any]:
    """Return an answer in the form of a client."""
    return {} if answer.decision == "none" else _FORMS[client.form](answer)


def answer_text(answer: HookAnswer, client: Client) -> str:
    """Return an answer as the one line that a client reads."""
    return json.dumps(answer_fields(answer, client))


def _feedback(asked: ClientCall, outcome: Approved) -> str:
    decision = outcome.decision
    if decision is None or not has_feedback(outcome):
        return ""
    told: list[str] = []
    if decision.override_args is not None:
        told.append(f"A person changed this call before it ran: it ran as {call_text(asked.call.tool, outcome.args)}.")
    if decision.note:
        told.append(f"Note of the person who allowed it: {decision.note}")
    return " ".join(told)


def _claude(answer: HookAnswer) -> dict[str, Any]:
    said: dict[str, Any] = {
        "hookEventName": "PreToolUse",
        "permissionDecision": answer.decision,
        "permissionDecisionReason": answer.reason or _UNSAID,
    }
    if answer.args is not None:
        said["updatedInput"] = answer.args
    if answer.feedback:
        said["additionalContext"] = answer.feedback
    return {"hookSpecificOutput": said}


def _codex(answer: HookAnswer) -> dict[str, Any]:
    if answer.decision == "allow" and answer.args is None:
        return {}  # Codex takes an `allow` only with an edit
    said: dict[str, Any] = {"hookEventName": "PreToolUse", "permissionDecision": answer.decision}
    if answer.decision == "allow":
        return {"hookSpecificOutput": {**said, "updatedInput": answer.args}}
    return {"hookSpecificOutput": {**said, "permissionDecisionReason": answer.reason or _UNSAID}}


def _gemini(answer: HookAnswer) -> dict[str, Any]:
    said: dict[str, Any] = {"decision": answer.decision, "reason": answer.reason or _UNSAID}
    if answer.args is not None:
        said["hookSpecificOutput"] = {"hookEventName": "BeforeTool", "tool_input": answer.args}
    return said


def _copilot(answer: HookAnswer) -> dict[str, Any]:
    said: dict[str, Any] = {
        "permissionDecision": answer.decision,
        "permissionDecisionReason": answer.reason or _UNSAID,
    }
    return said if answer.args is None else {**said, "modifiedArgs": answer.args}


def _plain(answer: HookAnswer) -> dict[str, Any]:
    said: dict[str, Any] = {"decision": answer.decision, "reason": answer.reason or _UNSAID}
    return said if answer.args is None else {**said, "args": answer.args}


_FORMS: Mapping[Form, Callable[[HookAnswer], dict[str, Any]]] = {
    "claude": _claude,
    "codex": _codex,
    "gemini": _gemini,
    "copilot": _copilot,
    "plain": _plain,
}
