"""JSON Schema of a tool's parameters, for editors and forms."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from typing import Any, get_type_hints

import msgspec

_LONGEST = 50_000  # characters; it is stored with every request


def schema_json(schema: Mapping[str, Any]) -> str:
    """Return the schema of a framework as JSON, or an empty text if it is too long to store."""
    text = json.dumps(schema, separators=(",", ":"), default=str)
    return text if len(text) <= _LONGEST else ""


def function_schema(function: Callable[..., Any], signature: inspect.Signature, hidden: set[str]) -> str:
    """Return the schema of a function's parameters; a parameter of an unknown type accepts anything."""
    hints, definitions, properties = type_hints(function, constraints=True), dict[str, Any](), dict[str, Any]()
    names = [name for name in signature.parameters if name not in hidden]
    for name in names:
        parameter = signature.parameters[name]
        properties[name], found = _type_schema(hints.get(name, Any), parameter.kind)
        definitions |= found
    schema = {
        "type": "object",
        "properties": properties,
        "required": [name for name in names if _is_needed(signature.parameters[name])],
        "additionalProperties": False,
        **({"$defs": definitions} if definitions else {}),
    }
    return schema_json(schema)


def type_hints(function: Callable[..., Any], *, constraints: bool) -> dict[str, Any]:
    """Return the annotations of a function, with their constraints or bare; none if they cannot be evaluated."""
    try:
        return get_type_hints(inspect.unwrap(function), include_extras=constraints)
    except Exception:  # noqa: BLE001 - annotations are the host's code, and may name what is not there
        return {}


def _is_needed(parameter: inspect.Parameter) -> bool:
    return parameter.default is parameter.empty and parameter.kind not in _WRAPPED


_WRAPPED: dict[Any, dict[str, str]] = {
    inspect.Parameter.VAR_POSITIONAL: {"type": "array"},
    inspect.Parameter.VAR_KEYWORD: {"type": "object"},
}


def _type_schema(annotation: object, kind: object) -> tuple[dict[str, Any], dict[str, Any]]:
    if kind in _WRAPPED:
        return _WRAPPED[kind], {}
    try:
        (schema,), definitions = msgspec.json.schema_components((annotation,), ref_template="#/$defs/{name}")
    except (TypeError, ValueError, AttributeError):  # a type that only its own library knows
        return {}, {}
    return schema, definitions
