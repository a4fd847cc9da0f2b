"""Arguments as models write them, in JSON text that is read strictly, and the schema that a person's edit has to fit.

Tests: tests/adapters/openai_agents/test_functions.py
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from agents.function_schema import function_schema
from pydantic import ValidationError

from sayso.core.canonical import parse_args, thaw


def read_arguments(text: str) -> dict[str, Any]:
    """Return the arguments in a model's JSON text.

    Raises:
        ValueError: nobody could know what would run.
    """
    return thaw(parse_args(text or "{}"))


def passed_to(function: Any, context: object, args: Mapping[str, Any]) -> Mapping[str, Any]:  # noqa: ANN401 - the user's
    """Return arguments as a function gets them from the SDK, by name: a date for its text, and the context."""
    schema = function_schema(function, use_docstring_info=False, strict_json_schema=False)
    try:
        positional, named = schema.to_call_args(schema.params_pydantic_model(**thaw(args)))
    except ValidationError:  # the tool says so, too
        return args
    first = [context] if schema.takes_context else []
    return inspect.signature(function).bind(*first, *positional, **named).arguments


def editable(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema that a person's edit has to fit: what has a default may be left out.

    The strict schemas of OpenAI require everything, though the tool does not.
    """
    properties: Mapping[str, Any] = schema.get("properties") or {}
    required = [each for each in schema.get("required", ()) if "default" not in properties.get(each, {})]
    return {**schema, "required": required}
