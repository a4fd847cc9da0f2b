"""Guarded function tools: a copy of each tool, which decides about its calls and runs each once, as it was decided.

The SDK asks one hook whether a call needs an approval, and calls another one to run it. The question is opened in the
first, where the controller defers; the decision, by the store's answer alone, is made in the second.

Tests: tests/adapters/openai_agents/test_conformance.py
"""

from __future__ import annotations

import contextlib
import copy
import json
from collections.abc import Generator, Mapping
from contextvars import ContextVar
from typing import Any, NamedTuple

from agents import FunctionTool, RunContextWrapper, ToolOriginType
from agents.agent_tool_state import get_agent_tool_state_scope, peek_agent_tool_run_result
from agents.tool import (
    get_function_tool_origin,
    invoke_function_tool,
    maybe_invoke_function_tool_failure_error_function,
    set_function_tool_failure_error_function,
)
from agents.tool_context import ToolContext

from sayso.adapters.kit import (
    Gate,
    GuardedRun,
    OnDenied,
    add_feedback,
    call_text,
    check_start,
    has_feedback,
    is_suspended,
    resume_suspended,
    suspend,
)
from sayso.adapters.openai_agents.function_calls import FunctionCall, identify
from sayso.adapters.openai_agents.run_record import add_request
from sayso.core.canonical import thaw
from sayso.core.model import Approved, Denied
from sayso.engine import context as running


class _Around(NamedTuple):
    """The outermost call round an agent, and whether its run can stop for what that agent asks."""

    context: ToolContext[Any]
    agent: Any
    stops: bool


_AROUND: ContextVar[_Around | None] = ContextVar("sayso_openai_around", default=None)
_FAILURES: ContextVar[list[Exception] | None] = ContextVar("sayso_openai_failures", default=None)


class FunctionGuard:
    """The guard of one function tool in one agent."""

    def __init__(self, tool: FunctionTool, agent: Any, gate: Gate, on_denied: OnDenied) -> None:  # noqa: ANN401 - the SDK's own type
        self._tool = tool
        self._agent = agent
        self._gate = gate
        self._on_denied: OnDenied = on_denied
        self._runs = copy.copy(tool)
        set_function_tool_failure_error_function(self._runs, self._tell_failure)
        self._made_from = dict(vars(tool))
        self._copies: dict[bool, FunctionTool] = {}

    def guards(self, tool: FunctionTool) -> bool:
        """Whether this is the guard of a tool as it is now."""
        now = vars(tool)
        return (
            tool is self._tool
            and now.keys() == self._made_from.keys()
            and all(now[name] is each for name, each in self._made_from.items())
        )

    def guarded_copy(self, *, stops: bool) -> FunctionTool:
        """Return the copy that the SDK gets, one for each way: the run `stops` for a question, or waits in place."""
        known = self._copies.get(stops)
        if known is None:
            known = self._copies[stops] = copy.copy(self._tool)
            known.on_invoke_tool = self.invoke
            known.needs_approval = self.needs_approval if stops else False
            known.timeout_seconds = None  # it would limit the person, too; the tool inside keeps it
        return known

    async def needs_approval(self, context: RunContextWrapper[Any], given: dict[str, Any], call_id: str) -> bool:
        """Whether the run has to stop for a person, whose question is opened then."""
        found = await self._identify(context, given, call_id)
        if isinstance(found, Denied) or not can_stop(self._gate):
            return False
        adapter, rules = self._gate.controller.adapter, self._gate.tighten(found.rules)
        if not adapter.may_ask(found.call, rules):
            return False
        with running.messages_from(found.messages):
            pending = await adapter.ask(found.call, rules)
        if pending is None:
            return False
        add_request(context, self._agent, pending.request.id)
        if (around := _AROUND.get()) is not None:
            add_request(around.context, around.agent, pending.request.id)
        return True

    async def invoke(self, context: ToolContext[Any], arguments: str) -> Any:  # noqa: ANN401 - what a tool returns
        """Decide about a call, and run it if it is approved."""
        if arguments != context.tool_arguments:  # which are those of the model; a guardrail runs between
            return self._denied(Denied(cause="changed", reason="its arguments were changed after the model's call"))
        found = await self._identify(context, arguments, context.tool_call_id)
        if isinstance(found, Denied):
            return self._denied(found)
        with running.messages_from(found.messages):
            outcome = await self._decide(found, context)
        if isinstance(outcome, Denied):
            return self._denied(outcome)
        return await self._run(found, outcome, context)

    async def _identify(
        self, context: RunContextWrapper[Any], given: Mapping[str, Any] | str, call_id: str
    ) -> FunctionCall | Denied:
        return await identify(self._tool, given, call_id, context=context, agent=self._agent, gate=self._gate)

    async def _decide(self, found: FunctionCall, context: ToolContext[Any]) -> Approved | Denied:
        gate, call, stops = self._gate, found.call, can_stop(self._gate)
        # What the SDK's state says of an approval decides nothing; but such a call must be one that was asked about.
        said = context.is_tool_approved(self._tool.name, call.call_id) and (stops or not found.run.began_here)
        asked = True if said else (False if found.run.began_here else None)
        if asked is not False:
            known = await gate.controller.adapter.find_request(call)
            if await is_suspended(known, call, gate.controller):
                return await resume_suspended(call, found.rules, gate)
        return await gate.decide(call, found.rules, asked=asked, inline=not stops)

    async def _run(self, found: FunctionCall, outcome: Approved, context: ToolContext[Any]) -> Any:  # noqa: ANN401 - what a tool returns
        run = GuardedRun(self._gate, found.call, outcome, marked_as=found.marked_as, messages=found.messages)
        text = json.dumps(thaw(outcome.args), ensure_ascii=False)
        if has_feedback(outcome):
            context.tool_arguments = text
        with self._inside(context), run:
            check_start(found.call.tool, outcome.args)
            failures: list[Exception] = []
            token = _FAILURES.set(failures)
            try:
                result = await invoke_function_tool(function_tool=self._runs, context=context, arguments=text)
            finally:
                running.reset(_FAILURES, token)
            if has_stopped(context):
                await suspend(run, found.call, self._gate.controller)
                return result
            if failures:
                run.raised(failures[-1])
            run.result = result
        return _with_feedback(result, outcome, call_text(found.call.tool, outcome.args))

    @contextlib.contextmanager
    def _inside(self, context: ToolContext[Any]) -> Generator[None]:
        """Say to the agents in the block whether they can stop; entered before the call is the current one."""
        around, stops = _AROUND.get(), can_stop(self._gate) and is_agent_tool(self._tool)
        outermost = around if around is not None and around.stops else _Around(context, self._agent, stops)
        token = _AROUND.set(outermost._replace(stops=stops))
        try:
            yield
        finally:
            running.reset(_AROUND, token)

    async def _tell_failure(self, context: RunContextWrapper[Any], error: Exception) -> Any:  # noqa: ANN401 - the SDK's own
        """Note that the tool has failed, and tell it to the model as the tool would."""
        failures = _FAILURES.get()
        if failures is not None:
            failures.append(error)
        return await maybe_invoke_function_tool_failure_error_function(
            function_tool=self._tool, context=context, error=error
        )

    def _denied(self, outcome: Denied) -> str:
        if self._on_denied == "raise" and outcome.cause != "failed":
            raise outcome.error(self._tool.qualified_name)
        return outcome.message


def can_stop(gate: Gate) -> bool:
    """Whether a run that asks here stops: its controller defers, and the interruption reaches the application."""
    current, around = running.current_call(), _AROUND.get()
    is_inside = current is not None and current.call is not None
    return gate.controller.mode == "defer" and (not is_inside or (around is not None and around.stops))


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


def _with_feedback(result: object, outcome: Approved, ran: str) -> object:
    """Return a result with what a person has edited and noted."""
    return add_feedback(result, outcome, ran) if has_feedback(outcome) else result
