"""`ToolRules` from a PydanticAI tool: its mark, validator, schema and description, through any wrapping toolsets.

Tests: tests/adapters/pydantic_ai/test_toolset.py
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import msgspec
import pydantic_core
from pydantic_ai.messages import ToolCallPart
from pydantic_ai.tools import RunContext
from pydantic_ai.toolsets import AbstractToolset, CombinedToolset, PrefixedToolset, RenamedToolset, WrapperToolset
from pydantic_ai.toolsets.abstract import ToolsetTool

from sayso.adapters import parameters
from sayso.adapters.kit import description_details, marked_tool, schema_hash
from sayso.core.model import ApprovalPresentation, Rule, ToolCall, Verdict
from sayso.policy import judges
from sayso.policy.policy import ToolRules
from sayso.policy.vocabulary import STRICTNESS

if TYPE_CHECKING:
    from sayso.adapters.pydantic_ai.guard import AgentGuard

NOT_EDITED = (
    "another program runs this call with the arguments of the model: it cannot be edited, only refused with a note"
)


@dataclass(kw_only=True)
class GuardedToolsetTool(ToolsetTool[Any]):
    """A tool as the model sees it, with its rules."""

    source: ToolsetTool[Any]
    rules: ToolRules
    schema_hash: str
    marked_as: str | None  # the tool name of its function, if that is marked
    judge_of: Callable[[RunContext[Any]], judges.Judge | None]
    is_external: bool  # run by another program, once it is approved

    def for_call(self, ctx: RunContext[Any]) -> GuardedToolsetTool:
        """Return the tool with rules for one call, whose context a toolset's own rule may read."""
        if self.rules.judge is None:
            return self
        return replace(self, rules=msgspec.structs.replace(self.rules, judge=self.judge_of(ctx)))


def guard_tool(
    name: str,
    tool: ToolsetTool[Any],
    outer_toolset: AbstractToolset[Any],
    guard: AgentGuard,
    ctx: RunContext[Any],
) -> GuardedToolsetTool:
    """Return a guarded tool: sayso asks where the framework would ask by itself."""
    tool_def = tool.tool_def
    function = _function(tool)
    own = marked_tool(function)
    unapproved = tool_def.kind == "unapproved"

    def judge_of(ctx: RunContext[Any]) -> judges.Judge | None:
        toolset_judge = _toolset_judge(name, tool, outer_toolset, guard, ctx)
        return _stricter_of(toolset_judge, own.rules.judge if own is not None else None)

    rules = ToolRules(
        judge=judge_of(ctx),
        marked=unapproved or bool(getattr(function, "_requires_approval", False)),
        details=own.details if own is not None else description_details(tool_def.description),
        misfit=lambda args: _validation_problem(tool, args, ctx.validation_context),
        parameters=lambda: parameters.schema_json(tool_def.parameters_json_schema),
    )
    # One that no rule can stop is left to PydanticAI, which hands it out without calling the toolset.
    external = tool_def.kind == "external" and not guard.allows(name, rules)
    if external:
        rules = msgspec.structs.replace(rules, misfit=_not_edited)
    return GuardedToolsetTool(
        toolset=tool.toolset,
        tool_def=replace(tool_def, kind="function") if unapproved or external else tool_def,
        max_retries=tool.max_retries,
        args_validator=tool.args_validator,
        args_validator_func=tool.args_validator_func,
        source=tool,
        rules=rules,
        schema_hash=schema_hash(tool_def.parameters_json_schema) + getattr(function, "__sayso_origin__", ""),
        marked_as=own.name if own is not None else None,
        judge_of=judge_of,
        is_external=external,
    )


def _not_edited(_: Mapping[str, Any]) -> str:
    return NOT_EDITED


def guarded_tool(ctx: RunContext[Any], name: str) -> GuardedToolsetTool | None:
    """Return the guarded tool that a call of this name reaches, through any toolsets round the guard."""
    inside: Any = ((ctx.tool_manager and ctx.tool_manager.tools) or {}).get(name)
    while inside is not None and not isinstance(inside, GuardedToolsetTool):
        inside = getattr(inside, "source_tool", None)
    return inside


def validated_args(tool: GuardedToolsetTool, part: ToolCallPart, ctx: RunContext[Any]) -> dict[str, Any]:
    """Return the arguments of a call as the tool gets them; raises `ValueError` if they do not fit it."""
    validator, given = tool.args_validator, part.args
    if isinstance(given, str):
        return validator.validate_json(given or "{}", context=ctx.validation_context)
    return validator.validate_python(given or {}, context=ctx.validation_context)


def _function(tool: ToolsetTool[Any]) -> Callable[..., Any] | None:
    """Return the function behind a tool, if there is one."""
    inside: Any = tool
    while inside is not None:
        schema = getattr(getattr(inside, "call_func", None), "__self__", None)
        if schema is not None:
            return getattr(schema, "function", None)
        inside = getattr(inside, "source", None) or getattr(inside, "source_tool", None)
    return None


def _toolset_judge(
    name: str, tool: ToolsetTool[Any], outer_toolset: AbstractToolset[Any], guard: AgentGuard, ctx: RunContext[Any]
) -> judges.Judge | None:
    """Return the approval rule of the outermost toolset that has one."""
    for toolset, inner_name in _toolsets(name, tool, outer_toolset):
        rule = Rule(source="toolset", key=type(toolset).__name__)
        judge = None
        if _has(toolset, "needs_approval"):
            judge = judges.wrap_needs_approval(cast("Any", toolset).needs_approval, rule, ctx, guard.tool_configs)
        elif _has(toolset, "check_approval"):
            judge = judges.wrap_check_approval(cast("Any", toolset).check_approval, guard.controller.memory, rule)
        if judge is not None:
            return judge if inner_name == name else _by_name(judge, inner_name)
    return None


def _stricter_of(left: judges.Judge | None, right: judges.Judge | None) -> judges.Judge | None:
    """Return a judge that returns the stricter verdict of two."""
    if left is None or right is None:
        return left or right

    async def judge(call: ToolCall) -> Verdict | None:
        said = [await judges.call_rule(each, call, Rule(source="toolset", key=call.tool)) for each in (left, right)]
        found = [verdict for verdict in said if verdict is not None]
        return max(found, key=lambda verdict: STRICTNESS[verdict.approval], default=None)

    return judge


def _by_name(judge: judges.Judge, name: str) -> judges.Judge:
    return lambda call: judge(msgspec.structs.replace(call, tool=name))


def _toolsets(
    name: str, tool: ToolsetTool[Any], toolset: AbstractToolset[Any]
) -> Iterator[tuple[AbstractToolset[Any], str]]:
    """Yield the toolsets round a tool, the outermost first, each with its name of the tool."""
    inside: Any = tool
    while True:
        if isinstance(inside, GuardedToolsetTool) and not isinstance(toolset, CombinedToolset):
            inside = cast("Any", inside.source)
        yield toolset, name
        source = cast("AbstractToolset[Any] | None", getattr(inside, "source_toolset", None))
        if isinstance(toolset, CombinedToolset) and source is not None:
            toolset, inside = source, cast("Any", inside).source_tool
        elif isinstance(toolset, WrapperToolset):
            if isinstance(toolset, PrefixedToolset):
                name = name.removeprefix(f"{toolset.prefix}_")
            elif isinstance(toolset, RenamedToolset):
                name = toolset.name_map.get(name, name)
            toolset = cast("WrapperToolset[Any]", toolset).wrapped
        else:
            return


def _has(toolset: AbstractToolset[Any], name: str) -> bool:
    """Whether the toolset itself has this method: some forward those of the inner one, which uses other tool names."""
    return callable(getattr(type(toolset), name, None)) or callable(vars(toolset).get(name))


def _validation_problem(tool: ToolsetTool[Any], args: Mapping[str, Any], context: object) -> str | None:
    try:
        tool.args_validator.validate_python(dict(args), context=context)
    except ValueError as error:
        return f"the edited arguments do not fit the tool: {_error_text(error)}"
    return None


def _error_text(error: ValueError) -> str:
    if not isinstance(error, pydantic_core.ValidationError):
        return str(error)
    found = error.errors(include_url=False, include_context=False, include_input=False)
    return "; ".join(f"{'.'.join(map(str, each['loc'])) or 'arguments'}: {each['msg']}" for each in found[:3])


def rules_of_asking_tool(call: ToolCall, metadata: Mapping[str, Any] | None) -> ToolRules:
    """Return the rules of a tool that asks by itself, with its metadata for the person."""
    given = metadata or {}
    description = given.get("description")
    verdict = Verdict(
        approval="required",
        reason=f"{call.tool} asks by itself",
        rule=Rule(source="tool", key=call.tool),
        description=description if isinstance(description, str) else None,
        metadata=metadata,
        presentation=_presentation(given.get("presentation")),
    )
    return ToolRules(marked=True, details=lambda _: verdict)


def _presentation(given: object) -> ApprovalPresentation | None:
    if isinstance(given, Mapping):
        try:
            return msgspec.convert(dict(cast("Mapping[str, Any]", given)), ApprovalPresentation)
        except msgspec.ValidationError:
            return None  # a form of its own, which is still in the metadata
    return given if isinstance(given, ApprovalPresentation) else None
