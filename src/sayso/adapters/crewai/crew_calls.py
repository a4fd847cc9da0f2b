"""Tool calls of a crew as `ToolCall`: agent, schema and rules of the tool, and the task that it is made for.

CrewAI gives its hooks no id of a call, and no run stops and goes on: each call gets an id of its own.

Tests: tests/adapters/crewai/test_conformance.py
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from crewai.hooks import ToolCallHookContext
from crewai.tools import BaseTool
from crewai.tools.structured_tool import CrewStructuredTool
from pydantic import BaseModel, ValidationError

from sayso.adapters.crewai.tool_starts import function_of, name_of, plain_args
from sayso.adapters.kit import Gate, build_call, marked_tool, rules_from_schema, schema_hash
from sayso.core.conversation import ConversationMessage
from sayso.core.model import Denied, ToolCall
from sayso.engine import context
from sayso.policy.policy import ToolRules

_MOST_TOOLS = 10_000
_TOOLS: dict[int, CrewTool] = {}


@dataclass(frozen=True)
class CrewTool:
    """What is known of a tool: its schema, its rules, and the name under which its function asks by itself."""

    tool: BaseTool | CrewStructuredTool
    schema_hash: str
    rules: ToolRules
    marked_as: str | None


@dataclass(frozen=True)
class CrewCall:
    """A call of a crew's agent with its tool, and what was said before it."""

    call: ToolCall
    tool: CrewTool
    messages: context.Messages


def identify(asked: ToolCallHookContext, tool: BaseTool | CrewStructuredTool, gate: Gate) -> CrewCall | Denied:
    """Return the call that CrewAI is about to make, or why it cannot be decided about."""
    known, name = crew_tool(tool), name_of(tool)
    try:
        args = plain_args(tool.args_schema, asked.tool_input)
    except ValueError as error:
        return Denied(cause="failed", reason=f"its arguments do not fit the tool {name!r}: {_problem(error)}")
    role: object = getattr(asked.agent, "role", None)
    try:
        call = build_call(
            name,
            args,
            agent=role if isinstance(role, str) else None,
            session=gate.session_for(""),
            schema_hash=known.schema_hash,
        )
    except ValueError as error:
        return Denied(cause="blocked", reason=f"its arguments cannot be shown: {error}")
    return CrewCall(call, known, partial(_said_before, asked.task))


def crew_tool(tool: BaseTool | CrewStructuredTool) -> CrewTool:
    """Return what is known of a tool; its schema takes pydantic long to build."""
    known = _TOOLS.get(id(tool))
    if known is not None and known.tool is tool:
        return known
    if len(_TOOLS) >= _MOST_TOOLS:
        _TOOLS.clear()
    model = tool.args_schema
    schema: dict[str, Any] = {} if model is None else model.model_json_schema()
    function = function_of(tool)
    marked = marked_tool(function)
    rules = rules_from_schema(
        schema,
        description=tool.description,
        function=function,
        misfit=None if model is None else partial(_misfit, model, frozenset(schema.get("properties", ()))),
    )
    _TOOLS[id(tool)] = CrewTool(tool, schema_hash(schema), rules, marked.name if marked else None)
    return _TOOLS[id(tool)]


def _misfit(model: type[BaseModel], names: frozenset[str], args: Mapping[str, Any]) -> str | None:
    unknown = sorted(set(args) - names)
    if unknown and names and model.model_config.get("extra") != "allow":  # pydantic would drop it silently
        return f"the edited arguments do not fit the tool: there is no {unknown[0]!r}"
    try:
        model.model_validate(dict(args))
    except ValidationError as error:
        return f"the edited arguments do not fit the tool: {_problem(error)}"
    return None


def _problem(error: ValueError) -> str:
    if not isinstance(error, ValidationError):
        return str(error)
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"


def _said_before(task: Any) -> Iterator[ConversationMessage]:  # noqa: ANN401 - CrewAI's own, or none
    """Yield the task that the call is made for, which is all that an agent of a crew is told by people."""
    if task is not None and task.description:
        yield ConversationMessage(role=context.prompt_role(), text=str(task.description))
