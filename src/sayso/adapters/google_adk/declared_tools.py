"""What is known of an ADK tool: the schema that it declares, its rules, and the arguments that it reads.

Tests: tests/adapters/google_adk/test_tools.py
"""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from google.adk.models.llm_request import LlmRequest
from google.adk.tools import FunctionTool
from google.genai import types
from msgspec.structs import replace

from sayso.adapters.kit import fill_defaults, marked_tool, rules_from_schema, schema_hash

if TYPE_CHECKING:
    from google.adk.tools import BaseTool

    from sayso.policy.policy import ToolRules

_PLAIN = (bool, int, float, str)
# What is known of each tool, as long as it stays as it was then: its fields at that time.
_KNOWN: weakref.WeakKeyDictionary[BaseTool, tuple[dict[str, Any], DeclaredTool]] = weakref.WeakKeyDictionary()


@dataclass(frozen=True)
class DeclaredTool:
    """What is known of a tool: its schema, its rules, and the name under which its function asks by itself."""

    schema: Mapping[str, Any]
    schema_hash: str
    rules: ToolRules
    marked_as: str | None
    defaults: Mapping[str, Any]
    reads_all: bool  # also what its schema does not name

    def read(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments that the tool reads, with its defaults: a person is shown what will run."""
        named = cast("Mapping[str, Any]", self.schema.get("properties") or {})
        kept = {name: each for name, each in given.items() if self.reads_all or name in named}
        return {**kept, **{name: each for name, each in self.defaults.items() if name not in kept}}

    def rules_for(self, *, marked: bool) -> ToolRules:
        """Return the rules for one call, about which ADK's own mark of the tool may ask."""
        return replace(self.rules, marked=True) if marked else self.rules


def declared_tool(tool: BaseTool) -> DeclaredTool:
    """Return what is known of a tool, as it is now: its function may have been replaced."""
    before, now = _KNOWN.get(tool), vars(tool)
    if before is not None and before[0].keys() == now.keys() and all(before[0][name] is now[name] for name in now):
        return before[1]
    known = _declare(tool)
    _KNOWN[tool] = dict(vars(tool)), known
    return known


def _declare(tool: BaseTool) -> DeclaredTool:
    schema = _schema_of(tool)
    # What does not run as ADK's own functions do may read anything.
    is_function = isinstance(tool, FunctionTool) and type(tool).run_async is FunctionTool.run_async
    function = tool.func if isinstance(tool, FunctionTool) else None
    signature = _signature_of(function) if is_function else None
    marked = marked_tool(function)
    return DeclaredTool(
        schema=schema,
        schema_hash=schema_hash(schema),
        rules=rules_from_schema(schema, description=tool.description, function=function),
        marked_as=marked.name if marked else None,
        defaults=fill_defaults({}, schema) if signature is None else _plain_defaults(signature, schema),
        reads_all=signature is None,
    )


def _schema_of(tool: BaseTool) -> dict[str, Any]:
    """Return the schema that a tool would put into a request to the model."""
    request = LlmRequest()
    request.append_tools([tool])
    for each in request.config.tools or ():
        for declaration in (each.function_declarations or ()) if isinstance(each, types.Tool) else ():
            if declaration.parameters_json_schema is not None:
                return dict(declaration.parameters_json_schema)
            if declaration.parameters is not None:
                return declaration.parameters.json_schema.model_dump(mode="json", exclude_none=True, by_alias=True)
    return {}


def _signature_of(function: Any) -> inspect.Signature | None:  # noqa: ANN401 - any callable
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None


def _plain_defaults(signature: inspect.Signature, schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the defaults of a function that are plain data, and so the same when they are passed."""
    named = cast("Mapping[str, Any]", schema.get("properties") or {})
    return {
        name: parameter.default
        for name, parameter in signature.parameters.items()
        if name in named and type(parameter.default) in _PLAIN
    }
