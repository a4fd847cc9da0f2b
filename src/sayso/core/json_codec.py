"""JSON codec of the records: one form for `--json`, REST, WebSocket and the page.

Tests: tests/server/test_openapi.py
"""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Iterable, Mapping
from typing import Any, cast

import msgspec
from msgspec.structs import asdict

from sayso.core.approvers import Approvers, Escalation, Seen
from sayso.core.canonical import FrozenDict, thaw
from sayso.core.conversation import ConversationMessage
from sayso.core.model import ApprovalDecision, ApprovalPresentation, ApprovalRequest, ParkedRun, Remembered, Rule, Scope

_LONGEST_NUMBER = 14_284  # bits: about 4300 digits, the longest integer that Python formats
_encode_strictly = json.JSONEncoder(allow_nan=False).encode  # fails on values that JSON does not have
_ENCODE_SMALL = msgspec.json.Encoder().encode
_STATES = {
    "open": "open: it waits for an answer",
    "approved": "approved, and not run yet",
    "denied": "denied: it does not run",
    "expired": "expired: nobody answered in time, so it does not run",
    "withdrawn": "withdrawn: the agent no longer waits for an answer, so it does not run",
    "used, returned": "approved and run: it returned",
    "used, raised": "approved and run: it failed",
}
_UNATTENDED = "withdrawn: nobody could be asked, so it does not run"


def state_text(request: ApprovalRequest) -> str:
    """Return the state of a request as a sentence."""
    if request.status == "withdrawn" and request.decision is not None and request.decision.unattended:
        return _UNATTENDED
    return _STATES.get(request.state, "approved and begun; what came of it is not known")


def to_json(value: object, *, indent: int | None = None) -> str:
    """Encode any value as ASCII JSON; values that JSON does not have are written as their `repr`."""
    if indent is None:
        with contextlib.suppress(TypeError, ValueError):
            return _encode_strictly(value)
    return json.dumps(_jsonable(value), indent=indent, default=repr)


def _jsonable(value: object) -> object:
    """Return the value with very long integers, infinities and NaN as text."""
    if isinstance(value, Mapping):
        return {str(name): _jsonable(each) for name, each in cast("Mapping[object, object]", value).items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_jsonable(each) for each in cast("Iterable[object]", value)]
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)
    return hex(value) if isinstance(value, int) and value.bit_length() > _LONGEST_NUMBER else value


def restore_types(edited: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
    """Return edited arguments, in which an unedited value keeps its original type: bytes do not become text."""
    known = {name: (value, to_json(value)) for name, value in thaw(before).items()}
    return {
        name: known[name][0] if name in known and known[name][1] == to_json(value) else value
        for name, value in edited.items()
    }


def is_small_plain(request: ApprovalRequest) -> bool:
    """Whether a request is short, and holds only plain data."""
    args, decision = request.args, request.decision
    unedited = decision is None or decision.override_args is None
    rest = request.payload is None and request.presentation is None and unedited and not request.votes
    return rest and isinstance(args, FrozenDict) and args.small


def request_to_json(request: ApprovalRequest, **more: object) -> str:
    """Encode a request and further fields as JSON, with a fast path for small requests, which are the most."""
    if is_small_plain(request) and not any(more.values()):
        with contextlib.suppress(ValueError):
            text = _ENCODE_SMALL({**request_to_dict(request), **more})
            if text.isascii():
                return text.decode()
    return to_json({**request_to_dict(request), **more})


def rule_to_dict(rule: Rule) -> dict[str, Any]:
    """Return a rule as plain data."""
    return asdict(rule)


def request_to_dict(request: ApprovalRequest) -> dict[str, Any]:
    """Return a request as plain data."""
    return {
        "id": request.id,
        "status": request.status,
        "state": state_text(request),
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
        "described_by": request.described_by,
        "summary": request.summary,
        "reason": request.reason,
        "rule": None if request.rule is None else rule_to_dict(request.rule),
        "approval": request.approval,
        "presentation": None if request.presentation is None else _presentation_to_dict(request.presentation),
        "scopes": [{"kind": scope.kind, "label": scope.label} for scope in request.scopes],
        "remember_max": request.remember_max,
        "conversation": [asdict(each) for each in request.conversation],
        "approvers": None if request.approvers is None else _approvers_to_dict(request.approvers),
        "votes": [decision_to_dict(vote) for vote in request.votes],
        "seen": [asdict(each) for each in request.seen],
        "decision": None if request.decision is None else decision_to_dict(request.decision),
        "used_at": request.used_at,
        "result": request.result,
    }


def _approvers_to_dict(wanted: Approvers) -> dict[str, Any]:
    escalate = None if wanted.escalate is None else asdict(wanted.escalate)
    return asdict(wanted) | {"roles": list(wanted.roles), "escalate": escalate}


def decision_to_dict(decision: ApprovalDecision) -> dict[str, Any]:
    """Return a decision as plain data."""
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
        "unattended": decision.unattended,
    }


def remembered_to_dict(each: Remembered) -> dict[str, Any]:
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
        "decision": decision_to_dict(each.decision),
    }


def run_to_dict(run: ParkedRun) -> dict[str, Any]:
    """Return a parked run as plain data."""
    return {**asdict(run), "requests": list(run.requests), "calls": list(run.calls)}


def _presentation_to_dict(shown: ApprovalPresentation) -> dict[str, Any]:
    """Return what the front ends of people show; the rest is for the callback of the host."""
    return {name: value for name, value in asdict(shown).items() if name not in {"type", "metadata"}}


def run_from_dict(facts: Mapping[str, Any]) -> ParkedRun:
    """Decode a parked run from plain data."""
    return msgspec.convert(facts, ParkedRun)


def request_from_dict(facts: Mapping[str, Any]) -> ApprovalRequest:
    """Decode a request for display; values that are no plain data stay as JSON wrote them."""
    given = {name: facts[name] for name in _COPIED_FIELDS if facts.get(name) is not None}
    rule, shown, wanted = facts.get("rule"), facts.get("presentation"), facts.get("approvers")
    decision, parameters = facts.get("decision"), facts.get("parameters")
    return ApprovalRequest(
        **given,
        tool_name=facts["tool"],
        tool_call_id=facts["call_id"],
        agent_path=tuple(facts["agent_path"]),
        rule=None if rule is None else Rule(**rule),
        presentation=None if shown is None else ApprovalPresentation(**shown),
        parameters="" if parameters is None else json.dumps(parameters),
        scopes=tuple(Scope(key="", **each) for each in facts["scopes"]),
        conversation=tuple(ConversationMessage(**each) for each in facts.get("conversation", ())),  # older hubs: none
        approvers=None if wanted is None else _approvers_from_dict(wanted),
        votes=tuple(_decision_from_dict(each) for each in facts["votes"]),
        seen=tuple(Seen(**each) for each in facts["seen"]),
        decision=None if decision is None else _decision_from_dict(decision),
    )


_COPIED_FIELDS = (
    *("id", "status", "asked_at", "expires_at", "project", "asked_by", "session", "run", "args", "payload"),
    *("description", "described_by", "summary", "reason", "approval", "remember_max", "used_at", "result"),
)


def _approvers_from_dict(facts: Mapping[str, Any]) -> Approvers:
    escalate = facts["escalate"]
    return Approvers(
        count=facts["count"],
        roles=tuple(facts["roles"]),
        remind=facts["remind"],
        escalate=None if escalate is None else Escalation(**escalate),
    )


def _decision_from_dict(facts: Mapping[str, Any]) -> ApprovalDecision:
    return ApprovalDecision(override_args=facts["args"], **{name: facts[name] for name in facts if name != "args"})


def remembered_from_dict(facts: Mapping[str, Any]) -> Remembered:
    """Decode a remembered decision from plain data."""
    changed: dict[str, Any] = {
        "scope": Scope(key="", **facts["scope"]),
        "decision": _decision_from_dict(facts["decision"]),
    }
    return Remembered(**{**facts, **changed})
