"""Guarded tools by kind: functions, shells with an executor here, and custom tools, whose input is one text.

Tests: tests/adapters/openai_agents/test_other_tools.py
"""

from __future__ import annotations

import dataclasses
import inspect
from functools import partial
from typing import Any

from agents import (
    CustomTool,
    FunctionTool,
    RunContextWrapper,
    ShellActionRequest,
    ShellCommandOutput,
    ShellCommandRequest,
    ShellResult,
    ShellTool,
    Tool,
)
from agents.tool_context import ToolContext

from sayso.adapters.kit import add_feedback, call_text, has_feedback
from sayso.adapters.openai_agents.call_guard import Ended, GuardFacts, GuardTerms, RanCall, WantedCall
from sayso.adapters.openai_agents.function_guard import FunctionGuard
from sayso.adapters.openai_agents.guarded_copies import GuardedCopies, answer_of
from sayso.core.canonical import thaw
from sayso.core.model import Approved, Denied

_COMMANDS = {"type": "array", "items": {"type": "string"}}
_SHELL = {
    "type": "object",
    "properties": {
        "commands": _COMMANDS,
        "timeout_ms": {"type": "integer"},
        "max_output_length": {"type": "integer"},
    },
    "required": ["commands"],
    "additionalProperties": False,
}
_CUSTOM = {
    "type": "object",
    "properties": {"input": {"type": "string"}},
    "required": ["input"],
    "additionalProperties": False,
}


def guarded_copies(tool: Tool, agent: Any, terms: GuardTerms) -> GuardedCopies[Any] | None:  # noqa: ANN401 - the SDK's own
    """Return the guarded copies of a tool; None if it has no hook for a guard."""
    if isinstance(tool, FunctionTool):
        return FunctionGuard(tool, agent, terms)
    if isinstance(tool, ShellTool) and tool.executor is not None:
        return ShellGuard(tool, agent, terms)
    return CustomGuard(tool, agent, terms) if isinstance(tool, CustomTool) else None


class ShellGuard(GuardedCopies[ShellTool]):
    """The guard of a shell whose commands run here; the SDK tells the model of what it raises, and goes on."""

    def __init__(self, tool: ShellTool, agent: Any, terms: GuardTerms) -> None:  # noqa: ANN401 - the SDK's own
        super().__init__(tool, GuardFacts(tool.name, _SHELL, description="Run commands in a shell."), agent, terms)

    def _put_guard(self, copied: ShellTool, *, stops: bool) -> None:
        copied.executor = self.execute
        copied.needs_approval = self.needs_approval if stops else False
        copied.on_approval = None

    async def needs_approval(self, context: RunContextWrapper[Any], action: ShellActionRequest, call_id: str) -> bool:
        """Whether the run has to stop for a person."""
        return await self._guard.must_stop(await self._wanted(context, action, call_id))

    async def execute(self, request: ShellCommandRequest) -> Any:  # noqa: ANN401 - what an executor returns
        """Decide about commands, and run them if they are approved."""
        wanted = await self._wanted(request.ctx_wrapper, request.data.action, request.data.call_id)
        done = await self._guard.run(wanted, partial(self._start, request))
        if isinstance(done, RanCall) and isinstance(done.result, ShellResult) and has_feedback(done.outcome):
            words = add_feedback("", done.outcome, call_text(self._tool.name, done.outcome.args))
            return dataclasses.replace(done.result, output=[ShellCommandOutput(stdout=words), *done.result.output])
        return _text_of(self._guard.facts, done)

    async def _wanted(self, context: RunContextWrapper[Any], action: ShellActionRequest, call_id: str) -> WantedCall:
        marked = await answer_of(self._tool.needs_approval, context, action, call_id)
        args = {name: each for name, each in dataclasses.asdict(action).items() if each is not None}
        return WantedCall(context, args, call_id, marked=marked)

    async def _start(self, request: ShellCommandRequest, outcome: Approved) -> Ended:
        action = ShellActionRequest(**thaw(outcome.args))
        raw = request.data.raw if action == request.data.action else None  # which has the commands of the model
        approved = dataclasses.replace(request, data=dataclasses.replace(request.data, action=action, raw=raw))
        executor: Any = self._tool.executor
        result = executor(approved)
        return Ended(await result if inspect.isawaitable(result) else result)


class CustomGuard(GuardedCopies[CustomTool]):
    """The guard of a custom tool; the SDK tells the model of what it raises, and goes on."""

    def __init__(self, tool: CustomTool, agent: Any, terms: GuardTerms) -> None:  # noqa: ANN401 - the SDK's own
        super().__init__(tool, GuardFacts(tool.name, _CUSTOM, description=tool.description), agent, terms)

    def _put_guard(self, copied: CustomTool, *, stops: bool) -> None:
        copied.on_invoke_tool = self.invoke
        copied.needs_approval = self.needs_approval if stops else False
        copied.on_approval = None

    async def needs_approval(self, context: RunContextWrapper[Any], given: str, call_id: str) -> bool:
        """Whether the run has to stop for a person."""
        return await self._guard.must_stop(await self._wanted(context, given, call_id))

    async def invoke(self, context: ToolContext[Any], given: str) -> Any:  # noqa: ANN401 - what a tool returns
        """Decide about a call, and run it if it is approved."""
        wanted = await self._wanted(context, given, context.tool_call_id)
        return _text_of(self._guard.facts, await self._guard.run(wanted, partial(self._start, context)))

    async def _wanted(self, context: RunContextWrapper[Any], given: str, call_id: str) -> WantedCall:
        marked = await answer_of(self._tool.needs_approval, context, given, call_id)
        return WantedCall(context, {"input": given}, call_id, marked=marked)

    async def _start(self, context: ToolContext[Any], outcome: Approved) -> Ended:
        text = str(outcome.args["input"])
        context.tool_arguments = text
        result: Any = self._tool.on_invoke_tool(context, text)
        return Ended(await result if inspect.isawaitable(result) else result)


def _text_of(facts: GuardFacts, done: RanCall | Denied) -> Any:  # noqa: ANN401 - what a tool returns
    """Return a result with what a person has edited and noted, or the words of a refusal."""
    if isinstance(done, Denied):
        return done.message
    outcome, result = done
    return add_feedback(result, outcome, call_text(facts.name, outcome.args)) if has_feedback(outcome) else result
