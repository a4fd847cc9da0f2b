"""Scopes of a remembered decision and their lookup keys: exact call, prefix, folder, tool; narrow to broad."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sayso.core.canonical import digest, freeze
from sayso.core.model import Scope, ToolCall
from sayso.core.redaction import redact
from sayso.errors import CanonicalError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sayso.core.model import ApprovalRequest, Verdict


# Commands that an approval of a prefix also covers and that may surprise, for its label.
NEIGHBOURS = {
    "git checkout": "git checkout -- .",
    "git commit": "git commit -a",
    "git push": "git push origin main",
    "git reset": "git reset HEAD~3",
    "git restore": "git restore .",
    "kubectl delete": "kubectl delete namespace prod",
    "npm install": "npm install any-package",
    "pip install": "pip install any-package",
}


def offered(call: ToolCall, verdict: Verdict) -> tuple[Scope, ...]:
    """Return the scopes that a person may choose from, narrow to broad.

    The whole tool is offered only if its rule permits it: an approval of `rm(a)` must not become one of `rm(b)`.
    """
    if not verdict.remember:
        return ()
    narrow = (call_scope(call.tool, call.args, verdict.payload), *verdict.scopes)
    return (*narrow, tool_scope(call.tool)) if verdict.scope == "tool" else narrow


def keys(call: ToolCall, verdict: Verdict) -> tuple[str, ...]:
    """Return the keys under which a decision about this call may have been remembered."""
    try:
        narrow = _narrow_key(call.tool, call.args, verdict.payload)
    except CanonicalError:
        # No approval can be bound to such a call, but a refusal of the whole tool covers it.
        return (tool_key(call.tool),)
    return (narrow, *(scope.key for scope in verdict.scopes if not scope.parts), tool_key(call.tool))


def part_keys(verdict: Verdict) -> tuple[str, ...]:
    """Return the keys that cover the call only together: all of them must have been remembered."""
    return next((scope.keys for scope in verdict.scopes if scope.parts), ())


def call_scope(tool: str, args: Mapping[str, Any], payload: Mapping[str, Any] | None = None) -> Scope:
    """Return the scope of this exact call or, where the tool gave a payload, of all calls with that payload."""
    if payload is None:
        return Scope(kind="call", key=call_key(tool, args), label=f"this exact call of {tool}")
    key = _narrow_key(tool, {}, payload)  # first: a value that it refuses must not run its `repr`
    facts = ", ".join(f"{name}={value!r}" for name, value in redact(payload).items())
    return Scope(kind="call", key=key, label=f"calls of {tool} with {facts}")


def tool_scope(tool: str) -> Scope:
    """Return the scope of every call of the tool."""
    return Scope(kind="tool", key=tool_key(tool), label=f"every call of {tool}, whatever its arguments")


def prefix_scope(tool: str, words: Sequence[str]) -> Scope:
    """Return the scope of every command that begins with these words, also in a line with other allowed commands."""
    shown = " ".join(words)
    also = NEIGHBOURS.get(shown)
    label = f"every command beginning with `{shown}` and harmless options{f', such as `{also}`' if also else ''}"
    return Scope(kind="prefix", key=_scope_key("prefix", tool, *words), label=label)


def combined_scope(parts: Sequence[Scope]) -> Scope:
    """Return the scope of several prefixes, which are remembered one by one."""
    if len(parts) == 1:
        return parts[0]
    label = "; and ".join(part.label for part in parts)
    return Scope(
        kind="prefix", key=_scope_key("prefixes", *(part.key for part in parts)), label=label, parts=tuple(parts)
    )


def folder_scope(tool: str, operation: str, folder: str, real: str) -> Scope:
    """Return the scope of every file directly in a folder."""
    label = f"every {operation} of a file directly in {folder}, whatever its content"
    return Scope(kind="folder", key=_scope_key("folder", tool, operation, real), label=label)


def scope_from_key(key: str, request: ApprovalRequest) -> Scope | None:
    """Return the scope of a key with a label of sayso's own, if it can be one of this request's.

    A remote agent sends key and label. The key is remembered, the label is shown: both must mean the same.
    """
    tool = request.tool_name
    kind, *words = key.split("\0")
    if kind == f"prefix:{tool}" and words:
        return prefix_scope(tool, words)
    if kind == f"folder:{tool}" and len(words) == len(("operation", "folder")):
        operation, folder = words
        return folder_scope(tool, operation, folder, folder)
    exact = (call_scope(tool, request.args, request.payload), tool_scope(tool))
    return next((scope for scope in exact if scope.key == key), None)


def _scope_key(kind: str, *parts: str) -> str:
    """Return a key in a namespace of its own: no collision with a digest or with other parts."""
    return f"{kind}:" + "\0".join(parts)


def request_keys(request: ApprovalRequest) -> tuple[str, ...]:
    """Return the keys for a request, which a tool may have built by hand."""
    narrow = _narrow_key(request.tool_name, request.args, request.payload)
    return (narrow, tool_key(request.tool_name))


def named_keys(tool: str, facts: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the keys for a tool and a mapping that may be its arguments or the payload in their place."""
    return (call_key(tool, facts), _narrow_key(tool, {}, facts), tool_key(tool))


def _narrow_key(tool: str, args: Mapping[str, Any], payload: Mapping[str, Any] | None) -> str:
    # Two domains: "exactly these arguments" must not mean "these facts, with any other arguments".
    return call_key(tool, args) if payload is None else digest("sayso/payload/1", tool, args=freeze(payload))


def call_key(tool: str, args: Mapping[str, Any]) -> str:
    """Return the key of an exact call; raises `CanonicalError` for arguments without a canonical form."""
    return digest("sayso/remember/1", tool, args=freeze(args))


def tool_key(tool: str) -> str:
    """Return the key of a whole tool; it cannot collide with a digest."""
    return f"tool:{tool}"
