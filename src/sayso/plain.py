"""Records as plain data: one form for `--json`, REST, WebSocket and the page."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

from sayso.canonical import thaw

if TYPE_CHECKING:
    from sayso.model import ApprovalDecision, ApprovalRequest, Remembered, Rule

_LONGEST_NUMBER = 10_000  # bits
_STATES = {
    "open": "open: it waits for an answer",
    "approved": "approved, and not run yet",
    "denied": "denied: it does not run",
    "expired": "expired: nobody answered in time, so it does not run",
    "withdrawn": "withdrawn: whoever asked does not wait any more, so it does not run",
    "used, returned": "approved and run: it returned",
    "used, raised": "approved and run: it failed",
}


def state(request: ApprovalRequest) -> str:
    """Say in words where a request stands."""
    return _STATES.get(request.state, "approved and begun; what came of it is not known")


def to_json(value: object, *, indent: int | None = None) -> str:
    """Write any value as JSON in plain ASCII; what JSON has no word for, as Python writes it."""
    return json.dumps(_plain(value), indent=indent, default=repr)


def _plain(value: object) -> object:
    """Return the same with every number as one that JSON has: a very long one, and what is none, is a text."""
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in cast("Mapping[object, object]", value).items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(each) for each in cast("Iterable[object]", value)]
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)
    return hex(value) if isinstance(value, int) and value.bit_length() > _LONGEST_NUMBER else value


def of_rule(rule: Rule) -> dict[str, Any]:
    """Return a rule as plain data."""
    return {"source": rule.source, "key": rule.key, "line": rule.line}


def of_request(request: ApprovalRequest) -> dict[str, Any]:
    """Return a request as plain data."""
    return {
        "id": request.id,
        "status": request.status,
        "state": state(request),
        "asked_at": request.asked_at,
        "expires_at": request.expires_at,
        "project": request.project,
        "asked_by": request.asked_by,
        "session": request.session,
        "run": request.run,
        "call_id": request.tool_call_id,
        "agent_path": list(request.agent_path),
        "tool": request.tool_name,
        "args": thaw(request.args),
        "payload": None if request.payload is None else thaw(request.payload),
        "parameters": json.loads(request.parameters) if request.parameters else None,
        "description": request.description,
        "summary": request.summary,
        "reason": request.reason,
        "rule": None if request.rule is None else of_rule(request.rule),
        "approval": request.approval,
        "presentation": _presentation(request),
        "scopes": [{"kind": scope.kind, "label": scope.label} for scope in request.scopes],
        "remember_max": request.remember_max,
        **_people(request),
        "decision": None if request.decision is None else of_decision(request.decision),
        "used_at": request.used_at,
        "result": request.result,
    }


def _presentation(request: ApprovalRequest) -> dict[str, Any] | None:
    names = ("title", "content", "content_type", "language", "diff")
    shown = request.presentation
    return None if shown is None else {name: getattr(shown, name) for name in names}


def _people(request: ApprovalRequest) -> dict[str, Any]:
    wanted = request.approvers
    escalate = wanted.escalate if wanted else None
    return {
        "approvers": None
        if wanted is None
        else {
            "count": wanted.count,
            "roles": list(wanted.roles),
            "remind": wanted.remind,
            "escalate": None if escalate is None else {"role": escalate.role, "after": escalate.after},
        },
        "votes": [of_decision(vote) for vote in request.votes],
        "seen": [{"who": each.who, "channel": each.channel, "at": each.at} for each in request.seen],
    }


def of_decision(decision: ApprovalDecision) -> dict[str, Any]:
    """Return an answer as plain data."""
    return {
        "approved": decision.approved,
        "who": decision.who,
        "channel": decision.channel,
        "decided_at": decision.decided_at,
        "note": decision.note,
        "args": None if decision.override_args is None else thaw(decision.override_args),
        "remember": decision.remember,
        "scope": decision.scope,
        "uses": decision.uses,
        "until": decision.until,
    }


def of_remembered(each: Remembered) -> dict[str, Any]:
    """Return a remembered decision as plain data."""
    return {
        "id": each.id,
        "tool": each.tool,
        "scope": {"kind": each.scope.kind, "label": each.scope.label},
        "project": each.project,
        "session": each.session,
        "remembered_at": each.remembered_at,
        "expires_at": each.expires_at,
        "uses_left": each.uses_left,
        "request_id": each.request_id,
        "decision": of_decision(each.decision),
    }
