"""`ToolRules` from a tool's JSON Schema, its description and the mark of its function.

Tests: tests/adapters/kit/test_kit.py
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sayso.adapters import parameters
from sayso.adapters.function import Tool, first_line
from sayso.core.model import Verdict
from sayso.policy import judges
from sayso.policy.policy import ToolRules

Misfit = Callable[[Mapping[str, Any]], str | None]


def marked_tool(function: object) -> Tool | None:
    """Return the tool that `@requires_approval` or `guard` has made of a function, if one has."""
    own = getattr(function, "__sayso__", None)
    return own if isinstance(own, Tool) else None


def description_details(description: str | None) -> judges.Judge | None:
    """Return details with the first line of a tool's description."""
    words = first_line(description)
    verdict = Verdict(approval="required", reason="", description=words)
    return (lambda _: verdict) if words else None


def rules_from_schema(
    schema: Mapping[str, Any],
    *,
    description: str | None = None,
    function: object = None,
    marked: bool = False,
    misfit: Misfit | None = None,
) -> ToolRules:
    """Return the rules that a tool brings along.

    Args:
        schema: the JSON Schema of its arguments.
        description: what the model reads about it; its first line is shown to people.
        function: the function behind it, whose `@requires_approval` counts.
        marked: whether the framework's own mark asks about it.
        misfit: says why edited arguments do not fit the tool; left out, the schema decides.
    """
    own, text = marked_tool(function), parameters.schema_json(schema)
    return ToolRules(
        judge=own.rules.judge if own is not None else None,
        marked=marked or bool(getattr(function, "_requires_approval", False)),
        details=own.details if own is not None else description_details(description),
        misfit=misfit or (lambda args: _schema_misfit(args, text)),
        parameters=lambda: text,
    )


def _schema_misfit(args: Mapping[str, Any], schema: str) -> str | None:
    from sayso.channels.edit_schema import schema_violation  # noqa: PLC0415 - of the extras, only where somebody edits

    problem = schema_violation(args, schema)
    return None if problem is None else f"the edited arguments do not fit the tool: {problem}"
