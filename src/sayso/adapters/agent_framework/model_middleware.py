"""The middleware round the model: hides what may not run, and notes the calls that the model makes.

Tests: tests/adapters/agent_framework/test_conformance.py
"""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, cast

from agent_framework import ChatContext, ChatMiddleware, ChatResponse, FunctionTool

from sayso.adapters.agent_framework.agents_as_tools import check_agent_tool
from sayso.adapters.agent_framework.function_calls import AgentRun, is_marked


class ModelMiddleware(ChatMiddleware):
    """The framework's middleware round each request to the model, of one run."""

    def __init__(self, run: AgentRun) -> None:
        self._run = run

    async def process(self, context: ChatContext, call_next: Callable[[], Awaitable[None]]) -> None:
        """Ask the model, which is shown what it may call."""
        self._run.messages = context.messages
        self._run.new_calls.clear()
        context.options = self._with_shown_tools(context.options or {})
        context.stream_transform_hooks.append(self._note)
        await call_next()
        if isinstance(context.result, ChatResponse):
            for message in context.result.messages:
                self._note(message)

    def _note(self, update: Any) -> Any:  # noqa: ANN401 - a message, or a part of one
        calls = [each for each in update.contents if each.type == "function_call"]
        self._run.new_calls.update(each.call_id for each in calls if each.call_id)
        return update

    def _with_shown_tools(self, options: Mapping[str, Any]) -> dict[str, Any]:
        known: object = options.get("tools")
        if not isinstance(known, list):
            return dict(options)
        tools = cast("list[Any]", known)
        self._run.gate.know_tools([name_of(each) for each in tools])
        # The framework's loop runs what is in this very list.
        tools[:] = [self._checked(each) for each in tools if self._has(each)]
        shown = [each for each in tools if not self._run.gate.hides(name_of(each))]
        if shown:
            return {**options, "tools": shown}
        return {name: value for name, value in options.items() if name not in {"tools", "tool_choice"}}

    def _has(self, tool: object) -> bool:
        """Whether the agent has a tool; one that runs elsewhere only if the policy lets it run unasked."""
        if isinstance(tool, FunctionTool) and not tool.declaration_only:
            return True
        return any(self._run.gate.allows(each) for each in {name_of(tool), _type_of(tool)} if each)

    def _checked(self, tool: object) -> object:
        if isinstance(tool, FunctionTool):
            check_agent_tool(tool)
            return without_mark(tool)
        return tool


def without_mark(tool: FunctionTool) -> FunctionTool:
    """Return a tool about which the framework does not ask by itself: its mark is asked about here, and once."""
    if not is_marked(tool):
        return tool
    own = copy.copy(tool)
    own.approval_mode = "never_require"
    own.func = tool  # which counts its invocations
    own.max_invocations = own.max_invocation_exceptions = None
    vars(own)["_instance"] = None  # the object of a tool that is a method, which the inner tool passes
    return own


def name_of(tool: object) -> str:
    """Return the name of a tool, or the type of one that has none."""
    if isinstance(tool, Mapping):
        given = cast("Mapping[str, Any]", tool)
        function: object = given.get("function")
        named = cast("Mapping[str, Any]", function) if isinstance(function, Mapping) else given
        return str(named.get("name") or given.get("type") or "")
    return str(getattr(tool, "name", None) or getattr(tool, "type", None) or type(tool).__name__)


def _type_of(tool: object) -> str:
    if isinstance(tool, Mapping):
        return str(cast("Mapping[str, Any]", tool).get("type") or "")
    return str(getattr(tool, "type", None) or "")
