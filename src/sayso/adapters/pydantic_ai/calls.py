"""PydanticAI's calls and tools in sayso's words."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

import pydantic_core
from pydantic_ai.messages import ModelResponse
from pydantic_ai.tools import RunContext
from pydantic_ai.toolsets import AbstractToolset
from pydantic_ai.toolsets.abstract import ToolsetTool

from sayso import context
from sayso.model import ApprovalPresentation, Rule, ToolCall, Verdict
from sayso.policy import judges
from sayso.policy.tools import ToolRules

_PLAIN = frozenset({str, int, float, bool, bytes, type(None)})
_MOST_HASHES = 10_000
_HASHES: dict[int, tuple[object, str]] = {}


@dataclass(kw_only=True)
class GuardedTool(ToolsetTool[Any]):
    """A tool as the model sees it, with what sayso has to know about it."""

    source: ToolsetTool[Any]
    rules: ToolRules
    schema_hash: str


def guarded(tool: ToolsetTool[Any], memory: object) -> GuardedTool:
    """Take a tool under guard: what its framework would ask about by itself, sayso asks about."""
    tool_def = tool.tool_def
    marked = tool_def.kind == "unapproved"
    return GuardedTool(
        toolset=tool.toolset,
        tool_def=replace(tool_def, kind="function") if marked else tool_def,
        max_retries=tool.max_retries,
        args_validator=tool.args_validator,
        args_validator_func=tool.args_validator_func,
        source=tool,
        rules=_rules(tool, memory, marked=marked),
        schema_hash=_schema_hash(tool_def.parameters_json_schema),
    )


def _rules(tool: ToolsetTool[Any], memory: object, *, marked: bool) -> ToolRules:
    toolset, function = _origin(tool)
    return ToolRules(
        judge=_judge(toolset, memory),
        marked=marked or bool(getattr(function, "_requires_approval", False)),
        details=getattr(getattr(function, "__sayso__", None), "details", None),
        misfit=lambda args: _misfit(tool, args),
    )


def _origin(tool: ToolsetTool[Any]) -> tuple[AbstractToolset[Any], Callable[..., Any] | None]:
    """Return the toolset that the tool really comes from, and its function if it is one."""
    while (inside := getattr(tool, "source_tool", None)) is not None:
        tool = cast("ToolsetTool[Any]", inside)
    tools: Any = getattr(tool.toolset, "tools", None)
    name = getattr(tool, "original_name", None) or tool.tool_def.name
    known = cast("dict[str, Any]", tools).get(name) if isinstance(tools, dict) else None
    return tool.toolset, getattr(known, "function", None)


def _judge(toolset: AbstractToolset[Any], memory: object) -> judges.Judge | None:
    """Return what the toolset itself has to say, by either of the seeds' names."""
    rule = Rule(source="toolset", key=type(toolset).__name__)
    if callable(getattr(toolset, "needs_approval", None)):
        return judges.needs_approval(cast("Any", toolset).needs_approval, rule)
    if callable(getattr(toolset, "check_approval", None)):
        return judges.check_approval(cast("Any", toolset).check_approval, memory, rule)
    return None


def _misfit(tool: ToolsetTool[Any], args: Mapping[str, Any]) -> str | None:
    try:
        tool.args_validator.validate_python(dict(args))
    except ValueError as error:
        return f"the edited arguments do not fit the tool: {_brief(error)}"
    return None


def _brief(error: ValueError) -> str:
    if not isinstance(error, pydantic_core.ValidationError):
        return str(error)
    found = error.errors(include_url=False, include_context=False, include_input=False)
    return "; ".join(f"{'.'.join(map(str, each['loc'])) or 'arguments'}: {each['msg']}" for each in found[:3])


def _schema_hash(schema: object) -> str:
    known = _HASHES.get(id(schema))
    if known is not None and known[0] is schema:
        return known[1]
    text = json.dumps(schema, sort_keys=True, default=str)
    if len(_HASHES) >= _MOST_HASHES:
        _HASHES.clear()
    _HASHES[id(schema)] = (schema, hashlib.sha256(text.encode()).hexdigest()[:16])  # held, so its id stays its own
    return _HASHES[id(schema)][1]


def call_of(name: str, args: Mapping[str, Any], ctx: RunContext[Any], tool: GuardedTool) -> ToolCall:
    """Return the call that is about to be made, with the very arguments that the tool would get.

    Raises:
        ValueError: an argument cannot be written down, so nobody could be shown it.
    """
    plain = args if all(type(value) in _PLAIN for value in args.values()) else pydantic_core.to_jsonable_python(args)
    return ToolCall(
        tool=name,
        args=plain,
        call_id=ctx.tool_call_id or "",
        run=run_of(ctx, ctx.tool_call_id),
        agent_path=path_of(ctx),
        schema_hash=tool.schema_hash,
    )


def path_of(ctx: RunContext[Any]) -> tuple[str, ...]:
    """Return the names of the agents that lead to this call, the outermost first."""
    name = getattr(ctx.agent, "name", None)
    above = context.agent_path()
    return (*above, name) if name else above


def run_of(ctx: RunContext[Any], call_id: str | None) -> str:
    """Return the run that made up the id of a call: a resumed run goes on with calls of an earlier one."""
    for message in reversed(ctx.messages):
        if isinstance(message, ModelResponse) and any(call.tool_call_id == call_id for call in message.tool_calls):
            return message.run_id or ""
    return ctx.run_id or ""


def asking(call: ToolCall, metadata: Mapping[str, Any] | None) -> ToolRules:
    """Return the rules of a tool that asks by itself, with what it says to the person."""
    given = dict(metadata or {})
    presentation: Any = given.get("presentation")
    if isinstance(presentation, Mapping):
        presentation = ApprovalPresentation(**cast("Mapping[str, Any]", presentation))
    verdict = Verdict(
        approval="required",
        reason=f"{call.tool} asks by itself",
        rule=Rule(source="tool", key=call.tool),
        description=given.get("description") if isinstance(given.get("description"), str) else None,
        metadata=metadata,
        presentation=presentation if isinstance(presentation, ApprovalPresentation) else None,
    )
    return ToolRules(marked=True, details=lambda _: verdict)
