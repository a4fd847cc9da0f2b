"""Calls of a function tool as `ToolCall`: its arguments with their defaults, its run, and the messages before it.

Tests: tests/adapters/openai_agents/test_conformance.py
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

from agents import FunctionTool, RunContextWrapper

from sayso.adapters.kit import Gate, build_call, fill_defaults, marked_tool, rules_from_schema, schema_hash
from sayso.adapters.openai_agents.run_record import CurrentRun, current_run
from sayso.core.canonical import parse_args, thaw
from sayso.core.conversation import ConversationMessage, Role, describe_call, describe_result
from sayso.core.model import Denied, ToolCall
from sayso.engine import context as running
from sayso.policy.policy import ToolRules


@dataclass(frozen=True, kw_only=True)
class FunctionCall:
    """A call of a function tool: what is decided about, its rules, its run, and the messages before it."""

    call: ToolCall
    rules: ToolRules
    run: CurrentRun
    marked_as: str | None  # the name under which the function asks by itself
    messages: running.Messages


async def identify(
    tool: FunctionTool,
    given: Mapping[str, Any] | str,
    call_id: str,
    *,
    context: RunContextWrapper[Any],
    agent: Any,  # noqa: ANN401 - the SDK's own type
    gate: Gate,
) -> FunctionCall | Denied:
    """Return the call that a model makes with these arguments, or why it cannot be decided about."""
    run, schema = current_run(context, agent), tool.params_json_schema
    function = getattr(tool, "__wrapped__", None)  # set where `@function_tool` has made it
    try:
        args = fill_defaults(given if isinstance(given, Mapping) else thaw(parse_args(given or "{}")), schema)
        call = build_call(
            tool.qualified_name,
            args,
            call_id=call_id,
            agent=agent.name,
            session=gate.session_for(run.record.run),
            run=run.record.run,
            schema_hash=schema_hash(schema),
        )
    except ValueError as error:
        return Denied(cause="blocked", reason=f"its arguments cannot be shown: {error}")
    marked = await _is_marked(tool, context, args, call_id)
    own = marked_tool(function)
    return FunctionCall(
        call=call,
        rules=rules_from_schema(_editable(schema), description=tool.description, function=function, marked=marked),
        run=run,
        marked_as=None if own is None else own.name,
        messages=partial(_said_before, context, running.prompt_role()),
    )


def _editable(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the schema that a person's edit has to fit: what has a default may be left out.

    The strict schemas of OpenAI require everything, though the tool does not.
    """
    properties: Mapping[str, Any] = schema.get("properties") or {}
    required = [each for each in schema.get("required", ()) if "default" not in properties.get(each, {})]
    return {**schema, "required": required}


async def _is_marked(tool: FunctionTool, context: RunContextWrapper[Any], args: dict[str, Any], call_id: str) -> bool:
    """Whether the SDK's own mark asks about this call."""
    mark: Any = tool.needs_approval
    wanted = mark(context, args, call_id) if callable(mark) else mark
    return bool(await wanted if inspect.isawaitable(wanted) else wanted)


def _said_before(context: RunContextWrapper[Any], prompt_role: Role) -> Iterator[ConversationMessage]:
    """Yield what the model was told before a call, the newest first."""
    for each in reversed(context.turn_input):
        item = cast("Mapping[str, Any]", each)
        if item.get("type") == "function_call":
            yield ConversationMessage(role="agent", text=describe_call(item["name"], item["arguments"]))
        elif item.get("type") == "function_call_output":
            yield ConversationMessage(role="tool", text=describe_result("", text_of(item["output"])))
        elif "content" in item:
            role: Role = "agent" if item.get("role") == "assistant" else prompt_role
            yield ConversationMessage(role=role, text=text_of(item["content"]))


def text_of(content: object) -> str:
    """Return the text of a message's content."""
    if not isinstance(content, list):
        return str(content)
    parts = [cast("Mapping[str, Any]", each) for each in cast("list[object]", content) if isinstance(each, Mapping)]
    return "\n".join(str(each["text"]) for each in parts if "text" in each)
