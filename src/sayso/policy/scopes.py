"""Which calls a remembered decision could cover, from narrow to broad."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sayso.canonical import digest, freeze
from sayso.model import Scope, ToolCall

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sayso.model import ApprovalRequest, Verdict


def offered(call: ToolCall, verdict: Verdict) -> tuple[Scope, ...]:
    """Return the scopes that a person may choose from, narrow to broad.

    The whole tool is offered only where its rule says so: a yes to `rm(a)` must not become a yes to `rm(b)`.
    """
    if not verdict.remember:
        return ()
    narrow = call_scope(call.tool, call.args, verdict.payload)
    return (narrow, tool_scope(call.tool)) if verdict.scope == "tool" else (narrow,)


def keys(call: ToolCall, verdict: Verdict) -> tuple[str, ...]:
    """Return the keys under which a decision about this call may have been remembered."""
    payload = call.args if verdict.payload is None else verdict.payload
    return (call_key(call.tool, payload), tool_key(call.tool))


def call_scope(tool: str, args: Mapping[str, Any], payload: Mapping[str, Any] | None = None) -> Scope:
    """Return the scope of this exact call or, where the tool gave a payload, of all calls with that payload."""
    if payload is None:
        return Scope(kind="call", key=call_key(tool, args), label=f"this exact call of {tool}")
    key = call_key(tool, payload)  # first: what it refuses must not be asked for its repr
    facts = ", ".join(f"{name}={value!r}" for name, value in payload.items())
    return Scope(kind="call", key=key, label=f"calls of {tool} with {facts}")


def tool_scope(tool: str) -> Scope:
    """Return the scope of every call of the tool."""
    return Scope(kind="tool", key=tool_key(tool), label=f"every call of {tool}, whatever its arguments")


def request_keys(request: ApprovalRequest) -> tuple[str, ...]:
    """Return the keys for a request, which a tool may have built by hand."""
    payload = request.args if request.payload is None else request.payload
    return (call_key(request.tool_name, payload), tool_key(request.tool_name))


def call_key(tool: str, payload: Mapping[str, Any]) -> str:
    """Return the key of a tool with these facts; raises `CanonicalError` for what cannot be remembered."""
    return digest("sayso/remember/1", tool, args=freeze(payload))


def tool_key(tool: str) -> str:
    """Return the key of a whole tool; it cannot be mistaken for a digest."""
    return f"tool:{tool}"
