"""Guarded function tools, which MCP servers and `Agent.as_tool` make too: a copy of each, with a guard in its hooks.

Tests: tests/adapters/openai_agents/test_functions.py
"""

from __future__ import annotations

import copy
import inspect
import json
from contextvars import ContextVar
from functools import partial
from typing import Any, cast

from agents import FunctionTool, RunContextWrapper, ToolOriginType
from agents.agent_tool_state import get_agent_tool_state_scope, peek_agent_tool_run_result
from agents.tool import (
    ToolOutputFileContent,
    ToolOutputImage,
    ToolOutputText,
    default_tool_timeout_error_message,
    get_function_tool_origin,
    invoke_function_tool,
    maybe_invoke_function_tool_failure_error_function,
    resolve_function_tool_failure_error_function,
    set_function_tool_failure_error_function,
)
from agents.tool_context import ToolContext

from sayso.adapters.kit import add_feedback, call_text, fill_defaults, has_feedback
from sayso.adapters.openai_agents.call_guard import (
    Ended,
    GuardFacts,
    GuardTerms,
    RanCall,
    WantedCall,
    unreadable,
)
from sayso.adapters.openai_agents.guarded_copies import GuardedCopies, answer_of
from sayso.adapters.openai_agents.model_arguments import passed_to, read_arguments
from sayso.core.canonical import thaw
from sayso.core.model import Approved, Denied
from sayso.errors import ApprovalError

_FAILURES: ContextVar[list[Exception] | None] = ContextVar("sayso_openai_failures", default=None)
_CHANGED = Denied(cause="changed", reason="its arguments were changed after the model's call")
_DISABLED = Denied(cause="blocked", reason="it is disabled")


class FunctionGuard(GuardedCopies[FunctionTool]):
    """The guard of a function tool in an agent."""

    def __init__(self, tool: FunctionTool, agent: Any, terms: GuardTerms) -> None:  # noqa: ANN401 - the SDK's own
        function = getattr(tool, "__wrapped__", None)  # set where `@function_tool` has made it
        facts = GuardFacts(
            tool.qualified_name, tool.params_json_schema, description=tool.description, function=function
        )
        super().__init__(tool, facts, agent, terms)
        self._function = function
        self._takes_all = function is not None and tool.timeout_seconds is None  # else the SDK fits the context to it
        self._runs = copy.copy(tool)  # what runs after a yes, and says whether it has failed
        self._runs.timeout_error_function = self._tell_timeout
        self._failure_words = resolve_function_tool_failure_error_function(tool)
        set_function_tool_failure_error_function(self._runs, self._tell_failure)

    def _put_guard(self, copied: FunctionTool, *, stops: bool) -> None:
        # A function without annotations: the SDK evaluates them at each call.
        copied.on_invoke_tool = lambda context, arguments: self.invoke(context, arguments)  # noqa: PLW0108 - see above
        copied.needs_approval = self.needs_approval if stops else False
        copied.timeout_seconds = None  # it would limit the person, too; the tool inside keeps it

    async def needs_approval(self, context: RunContextWrapper[Any], given: dict[str, Any], call_id: str) -> bool:
        """Whether the run has to stop for a person."""
        return await self._guard.must_stop(await self._wanted(context, given, call_id))

    async def invoke(self, context: ToolContext[Any], arguments: str) -> Any:  # noqa: ANN401 - what a tool returns
        """Decide about a call, and run it if it is approved."""
        if arguments != context.tool_arguments:  # which are those of the model; a guardrail runs between
            return self._guard.denied(_CHANGED).message
        if not await self._is_enabled(context):
            return self._guard.denied(_DISABLED).message
        try:
            wanted = await self._wanted(context, read_arguments(arguments), context.tool_call_id)
        except ValueError as error:
            return self._guard.denied(unreadable(error)).message
        done = await self._guard.run(
            wanted,
            partial(self._start, context),
            passed=partial(passed_to, self._function, context),
            passes_stops=is_agent_tool(self._tool),
        )
        return done.message if isinstance(done, Denied) else self._told(done)

    async def _wanted(self, context: RunContextWrapper[Any], given: dict[str, Any], call_id: str) -> WantedCall:
        args = fill_defaults(given, self._guard.facts.schema)
        marked = await answer_of(self._tool.needs_approval, context, args, call_id)
        return WantedCall(context, args, call_id, marked=marked)

    async def _is_enabled(self, context: ToolContext[Any]) -> bool:
        """Whether the tool is enabled now; the SDK asks that at the last moment only for tools of the agent itself."""
        return await answer_of(self._tool.is_enabled, context, self._guard.agent)

    async def _start(self, context: ToolContext[Any], outcome: Approved) -> Ended:
        if not await self._is_enabled(context):  # any more, after somebody was asked
            return Ended(_DISABLED.message, _DISABLED.error(self._tool.name))
        text = json.dumps(thaw(outcome.args), ensure_ascii=False)
        if has_feedback(outcome):
            context.tool_arguments = text
            if context.tool_call is not None and not is_agent_tool(self._tool):  # whose agent is found by its call
                context.tool_call = context.tool_call.model_copy(update={"arguments": text})
        failures: list[Exception] = []
        token = _FAILURES.set(failures)
        try:
            if self._takes_all:
                result = await self._runs.on_invoke_tool(context, text)
            else:
                result = await invoke_function_tool(function_tool=self._runs, context=context, arguments=text)
        finally:
            _FAILURES.reset(token)
        return Ended(result, failures[-1] if failures else None, stopped=has_stopped(context))

    async def _tell_failure(self, context: RunContextWrapper[Any], error: Exception) -> Any:  # noqa: ANN401 - the SDK's own
        """Note that the tool has failed, and tell it to the model as the tool would; a refusal inside it in full."""
        _note_failure(error)
        refused = refusal_in(error)
        if refused is not None and self._failure_words is not None:
            return str(refused)
        return await maybe_invoke_function_tool_failure_error_function(
            function_tool=self._tool, context=context, error=error
        )

    async def _tell_timeout(self, context: RunContextWrapper[Any], error: Exception) -> str:
        """Note that the tool took too long, and tell it to the model as the tool would."""
        _note_failure(error)
        tell = self._tool.timeout_error_function
        if tell is None:
            limit = self._tool.timeout_seconds or 0
            return default_tool_timeout_error_message(tool_name=self._tool.name, timeout_seconds=limit)
        told = tell(context, error)
        return await told if inspect.isawaitable(told) else told

    def _told(self, done: RanCall) -> Any:  # noqa: ANN401 - what a tool returns
        """Return the result with what a person has edited and noted."""
        outcome, result = done
        if not has_feedback(outcome):
            return result
        ran = call_text(self._guard.facts.name, outcome.args)
        parts = cast("list[Any]", result if isinstance(result, list) else [result])
        if parts and all(isinstance(each, ToolOutputText | ToolOutputImage | ToolOutputFileContent) for each in parts):
            return [ToolOutputText(text=add_feedback("", outcome, ran)), *parts]
        return add_feedback(cast("object", result), outcome, ran)


def refusal_in(error: BaseException | None) -> ApprovalError | None:
    """Return the refusal that an error comes from, if it comes from one: the SDK wraps what its hooks raise."""
    while error is not None and not isinstance(error, ApprovalError):
        error = error.__cause__
    return error


def _note_failure(error: Exception) -> None:
    failures = _FAILURES.get()
    if failures is not None:
        failures.append(error)


def is_agent_tool(tool: FunctionTool) -> bool:
    """Whether `Agent.as_tool` has made a tool: only those pass on that an agent inside them stops."""
    origin = get_function_tool_origin(tool)
    return origin is not None and origin.type is ToolOriginType.AGENT_AS_TOOL


def has_stopped(context: ToolContext[Any]) -> bool:
    """Whether the agent inside a tool has stopped for an answer; the SDK tells that by no public name."""
    if context.tool_call is None:
        return False
    nested: Any = peek_agent_tool_run_result(context.tool_call, scope_id=get_agent_tool_state_scope(context))
    return nested is not None and bool(nested.interruptions)
