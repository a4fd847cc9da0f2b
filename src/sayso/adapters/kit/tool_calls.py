"""Tool calls from what a framework passes: arguments as a mapping or JSON text, schema hashes, ids made of content.

Tests: tests/adapters/kit/test_kit.py
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, cast

from sayso.core.canonical import digest, freeze
from sayso.core.model import ToolCall, new_id
from sayso.engine import context

_MOST_HASHES = 10_000
_HASHES: dict[int, tuple[object, str]] = {}


def build_call(
    tool: str,
    args: Mapping[str, Any] | str | None,
    *,
    call_id: str | None = None,
    agent: str | None = None,
    **facts: str,
) -> ToolCall:
    """Build the call of a tool from a mapping, or from a model's JSON text, which is read strictly.

    `facts` are `session`, `run` and `schema_hash`. A call without an id gets one of its own, so it cannot be resumed.

    Raises:
        ValueError: the arguments cannot be shown, or no approval can be bound to them.
    """
    given: dict[str, Any] = {"call_id": call_id or new_id(), "agent_path": context.agent_path(agent), **facts}
    if isinstance(args, Mapping):
        return ToolCall(tool=tool, args=args, **given)
    return ToolCall.from_json(tool, args, **given)


def schema_hash(schema: object) -> str:
    """Return the hash of a tool's JSON Schema: an approval does not outlive a change of the tool."""
    known = _HASHES.get(id(schema))
    if known is not None and known[0] is schema:
        return known[1]
    text = json.dumps(schema, sort_keys=True, default=str)
    if len(_HASHES) >= _MOST_HASHES:
        _HASHES.clear()
    _HASHES[id(schema)] = (schema, hashlib.sha256(text.encode()).hexdigest()[:16])  # held, so that its id is not reused
    return _HASHES[id(schema)][1]


def content_id(tool: str, args: Mapping[str, Any], *parts: str) -> str:
    """Return a call id made of content, for a framework that gives none: the same call gets the same id."""
    return digest("sayso/content-id/1", tool, *parts, args=freeze(args))[:32]


def fill_defaults(args: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments with the defaults of the schema: a person is shown, and a rule judges, what will run."""
    properties: Any = schema.get("properties")
    known = cast("dict[str, Any]", properties if isinstance(properties, dict) else {})
    defaults = {name: cast("Any", each).get("default") for name, each in known.items() if isinstance(each, dict)}
    return {**args, **{name: each for name, each in defaults.items() if each is not None and name not in args}}
