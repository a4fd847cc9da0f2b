"""CrewAI's hooks before and after a tool: the decision about its call, and the words for the model.

They are registered for the process, once, and concern only the calls of guarded crews and agents, and those inside a
guarded call. CrewAI runs a tool whatever a hook raises, but for `HookAborted`: so nothing else leaves `before_tool`.

Tests: tests/adapters/crewai/test_holes.py
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError
from dataclasses import dataclass
from functools import partial
from typing import Any

from crewai.hooks import (
    HookAborted,
    InterceptionPoint,
    ToolCallHookContext,
    get_hooks,
    register_hook,
)
from crewai.tools.tool_failure import ToolExecutionFailedError, ToolFailure, ToolFailureReason, ToolFailureRecord

from sayso.adapters.crewai.crew_calls import CrewCall, identify
from sayso.adapters.crewai.crew_runs import is_over, unless_over
from sayso.adapters.crewai.tool_starts import Permit, grant, guard_structured, name_of, withdraw
from sayso.adapters.kit import Gate, GuardedRun, OnDenied, add_feedback, call_text, has_feedback, refuse_defer
from sayso.core.model import Approved, Denied
from sayso.engine import blocking, context

FRAMEWORK = "CrewAI"
_BINDING = "__sayso_binding__"
_ENDED = "the run that asked has ended"


@dataclass(frozen=True)
class Binding:
    """The gate of a guarded crew or agent, and how its refusals are told."""

    gate: Gate
    on_denied: OnDenied = "model"


_INSIDE = Binding(Gate())  # of calls inside a guarded call of an agent that is not guarded itself


def bind(target: object, binding: Binding) -> None:
    """Let a crew, an agent or a tool be guarded by this gate."""
    vars(target)[_BINDING] = binding


def binding_of(asked: ToolCallHookContext) -> Binding | None:
    """Return what guards a call: its crew, its agent, its tool, or the guarded call around it."""
    original: Any = getattr(asked.tool, "_original_tool", None)
    for each in (asked.crew, asked.agent, original):
        found = getattr(each, "__dict__", {}).get(_BINDING)
        if found is not None:
            return found
    running = context.current_call()
    return None if running is None or running.call is None else _INSIDE


@dataclass
class _AskedCall:
    """A call between its two hooks, which share nothing but the object that holds the arguments."""

    tool_input: dict[str, Any]  # held, so that its id is not reused
    outcome: Permit | Denied
    binding: Binding
    tool: str


_ASKED: dict[int, _AskedCall] = {}
_REGISTERING = threading.Lock()


def register_hooks() -> None:
    """Register the hooks for the process, unless they are there."""
    with _REGISTERING:
        for point, hook in _HOOKS.items():
            if hook not in get_hooks(point):
                register_hook(point, hook)


def before_tool(asked: ToolCallHookContext) -> None:
    """Decide about a call; raise CrewAI's `HookAborted` if it must not run."""
    binding = binding_of(asked)
    if binding is None:
        return
    try:
        outcome = _decide(asked, binding)
    except Exception as error:  # noqa: BLE001 - whatever it is, CrewAI would run the tool
        outcome = Denied(cause="failed", reason=str(error) or type(error).__name__)
    _ASKED[id(asked.tool_input)] = _AskedCall(asked.tool_input, outcome, binding, asked.tool_name)
    if isinstance(outcome, Denied):
        raise HookAborted(outcome.message, source="sayso")


def after_tool(asked: ToolCallHookContext) -> str | None:
    """Return the words for the model: why a call did not run, or what a person has edited and noted."""
    record = _ASKED.get(id(asked.tool_input))
    if record is None or record.tool_input is not asked.tool_input:
        return None
    del _ASKED[id(asked.tool_input)]
    if isinstance(record.outcome, Denied):
        return _denied_text(record.outcome, record)
    withdraw(record.outcome)
    ran, outcome = record.outcome.expire(), record.outcome.outcome
    if not ran or not has_feedback(outcome):
        return None
    return add_feedback(asked.tool_result, outcome, call_text(record.tool, outcome.args))


_HOOKS: dict[InterceptionPoint, Callable[[Any], Any]] = {
    InterceptionPoint.PRE_TOOL_CALL: before_tool,
    InterceptionPoint.POST_TOOL_CALL: after_tool,
}


def _decide(asked: ToolCallHookContext, binding: Binding) -> Permit | Denied:
    """Decide about a call; if it is approved, let its tool start once, with the approved arguments."""
    structured: Any = asked.tool
    if structured is None:
        return Denied(cause="failed", reason=f"CrewAI knows no tool {asked.tool_name!r}")
    gate, tool = binding.gate, guard_structured(structured)
    gate.know_tools([name_of(tool)])
    call = identify(asked, tool, gate)
    if isinstance(call, Denied):
        return call
    outcome = _settle(gate, call)
    if isinstance(outcome, Denied):
        return outcome
    run = GuardedRun(gate, call.call, outcome, marked_as=call.tool.marked_as, messages=call.messages)
    permit = Permit(tool, call.call, outcome, run)
    asked.tool_input.clear()
    asked.tool_input.update(permit.args)
    grant(permit)
    return permit


def _settle(gate: Gate, asked: CrewCall) -> Approved | Denied:
    """Wait for the decision in place, as long as the run goes on; then the question is withdrawn."""
    if context.outer_controller() is None:
        refuse_defer(gate.controller, FRAMEWORK)
    with context.messages_from(asked.messages):
        adapter, rules = gate.controller.adapter, gate.tighten(asked.tool.rules)
        outcome = adapter.decide_fast(asked.call, rules)
        if outcome is None:
            with contextlib.suppress(CancelledError, TimeoutError):
                outcome = blocking.run(unless_over, partial(adapter.settle, asked.call, rules, inline=True))
    return Denied(cause="withdrawn", reason=_ENDED) if outcome is None or is_over() else outcome


class RefusedCall(HookAborted, ToolExecutionFailedError):
    """A refusal that ends the run, in the two ways in which releases of CrewAI let a hook or a tool end it."""

    def __init__(self, tool: str, reason: str) -> None:
        Exception.__init__(self, reason)  # the two have constructors that do not go together
        self.reason, self.source = reason, "sayso"
        failure = ToolFailure(message=reason, reason=ToolFailureReason.TOOL_REPORTED)
        self.record = ToolFailureRecord(tool_name=tool, failure=failure)


def _denied_text(outcome: Denied, record: _AskedCall) -> str:
    if record.binding.on_denied == "raise" and outcome.cause != "failed":
        error = outcome.error(record.tool)
        raise RefusedCall(record.tool, str(error)) from error
    return outcome.message
