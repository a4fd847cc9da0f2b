"""The guard of one tool in one agent: opens the question about a call, decides about it, and runs it once.

The SDK asks one hook whether a call needs an approval, and calls another one to run it. The question is opened in the
first, where the controller defers; the decision, by the store's answer alone, is made in the second.

Tests: tests/adapters/openai_agents/test_conformance.py
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from agents import RunContextWrapper

from sayso.adapters.kit import (
    Gate,
    GuardedRun,
    OnDenied,
    build_call,
    check_start,
    is_suspended,
    marked_tool,
    resume_suspended,
    rules_from_schema,
    schema_hash,
    suspend,
)
from sayso.adapters.openai_agents.host_answers import HostAnswers
from sayso.adapters.openai_agents.model_arguments import editable
from sayso.adapters.openai_agents.run_messages import said_before
from sayso.adapters.openai_agents.run_record import CurrentRun, add_request, current_run
from sayso.core.model import Approved, Denied, ToolCall
from sayso.engine import context as running
from sayso.errors import ConfigurationError
from sayso.policy.policy import ToolRules


class GuardFacts:
    """What is known of a tool: its name, its schema, and the rules that it brings, with the SDK's mark and without."""

    def __init__(self, name: str, schema: Mapping[str, Any], *, description: str = "", function: object = None) -> None:
        own = marked_tool(function)
        self.name = name
        self.schema = schema
        self.schema_hash = schema_hash(schema)
        self.marked_as = None if own is None else own.name  # the name under which the function asks by itself
        rules = partial(rules_from_schema, editable(schema), description=description, function=function)
        self._rules = rules(), rules(marked=True)

    def rules(self, *, marked: bool) -> ToolRules:
        """Return the rules of a call, which the SDK's own mark asks about or not."""
        return self._rules[marked]


class GuardTerms(NamedTuple):
    """What holds for all tools of an agent: who decides, how a refusal is told, and who answers in a front end."""

    gate: Gate
    on_denied: OnDenied
    answers: HostAnswers


class WantedCall(NamedTuple):
    """A call as the SDK tells of it, with its defaults; `marked`: the SDK's own mark asks about it."""

    context: RunContextWrapper[Any]
    args: Mapping[str, Any]
    call_id: str
    marked: bool = False


@dataclass(frozen=True, kw_only=True)
class IdentifiedCall:
    """A call that can be decided about, with its rules, its run, and the messages before it."""

    call: ToolCall
    rules: ToolRules
    run: CurrentRun
    messages: running.Messages


class Ended(NamedTuple):
    """How a tool has ended: with a result, that tells of an error perhaps; or an agent inside it has to ask."""

    result: Any
    error: Exception | None = None
    stopped: bool = False


class RanCall(NamedTuple):
    """What came of a call that ran."""

    outcome: Approved
    result: Any


class _Around(NamedTuple):
    """The outermost call round an agent, and whether its run can stop for what that agent asks."""

    context: RunContextWrapper[Any]
    agent: Any
    stops: bool


Passed = Callable[[Mapping[str, Any]], Mapping[str, Any]]
Start = Callable[[Approved], Awaitable[Ended]]
_AROUND: ContextVar[_Around | None] = ContextVar("sayso_openai_around", default=None)


class CallGuard:
    """Decides about the calls of one tool."""

    def __init__(self, facts: GuardFacts, agent: Any, terms: GuardTerms) -> None:  # noqa: ANN401 - the SDK's own
        self.facts = facts
        self.agent = agent
        self._gate = terms.gate
        self._terms = terms

    async def must_stop(self, wanted: WantedCall) -> bool:
        """Whether the run has to stop for a person, whose question is opened then."""
        found = self._identify(wanted)
        if isinstance(found, Denied) or not can_stop(self._gate):
            return False
        adapter, rules = self._gate.controller.adapter, self._gate.tighten(found.rules)
        if not adapter.may_ask(found.call, rules):
            return False
        with running.messages_from(found.messages):
            pending = await adapter.ask(found.call, rules)
        if pending is None:
            return False
        add_request(wanted.context, self.agent, pending.request.id)
        if (around := _AROUND.get()) is not None:
            add_request(around.context, around.agent, pending.request.id)
        return True

    async def run(
        self, wanted: WantedCall, start: Start, *, passed: Passed | None = None, passes_stops: bool = False
    ) -> RanCall | Denied:
        """Decide about a call, and start it if it is approved.

        Args:
            wanted: the call.
            start: starts it, with the approved arguments.
            passed: returns the arguments as the tool's function gets them, where that asks by itself.
            passes_stops: whether the tool tells if an agent inside it stops.

        Raises:
            ApprovalError: it is refused, and a refusal ends the run.
        """
        found = self._identify(wanted)
        if isinstance(found, Denied):
            return self.denied(found)
        with running.messages_from(found.messages):
            outcome = await self._decide(found, wanted)
        if isinstance(outcome, Denied):
            return self.denied(outcome)
        name = self.facts.marked_as
        given = None if name is None or passed is None else passed(outcome.args)
        run = GuardedRun(self._gate, found.call, outcome, marked_as=name, passed=given, messages=found.messages)
        with self._inside(wanted.context, passes_stops=passes_stops), run:
            check_start(found.call.tool, outcome.args)  # an agent inside it may have a tool of the same name
            run.result, error, stopped = await start(outcome)
            if stopped:
                await suspend(run, found.call, self._gate.controller)
            elif error is not None:
                run.raised(error)
        return RanCall(outcome, run.result)

    def denied(self, outcome: Denied) -> Denied:
        """Return a refusal for the model, or end the run with it."""
        if self._terms.on_denied == "raise" and outcome.cause != "failed":
            raise outcome.error(self.facts.name)
        return outcome

    def _identify(self, wanted: WantedCall) -> IdentifiedCall | Denied:
        facts, run = self.facts, current_run(wanted.context, self.agent)
        try:
            call = build_call(
                facts.name,
                wanted.args,
                call_id=wanted.call_id,
                agent=self.agent.name,
                session=self._gate.session_for(run.record.run),
                run=run.record.run,
                schema_hash=facts.schema_hash,
            )
        except ValueError as error:
            return unreadable(error)
        messages = partial(said_before, wanted.context, running.prompt_role())
        return IdentifiedCall(call=call, rules=facts.rules(marked=wanted.marked), run=run, messages=messages)

    async def _decide(self, found: IdentifiedCall, wanted: WantedCall) -> Approved | Denied:
        gate, call, stops, began_here = self._gate, found.call, can_stop(self._gate), found.run.began_here
        # What the SDK's state says of an approval decides nothing; but such a call must be one that was asked about.
        said = wanted.context.is_tool_approved(self.facts.name, call.call_id) and (stops or not began_here)
        asked = True if said else (False if began_here else None)
        if asked is not False:
            known = await gate.controller.adapter.find_request(call)
            if known is not None:
                await self._terms.answers.take(known, wanted.context)
            if await is_suspended(known, call, gate.controller):
                return await resume_suspended(call, found.rules, gate)
        return await gate.decide(call, found.rules, asked=asked, inline=not stops)

    @contextlib.contextmanager
    def _inside(self, context: RunContextWrapper[Any], *, passes_stops: bool) -> Generator[None]:
        """Say to the agents in the block whether they can stop; entered before the call is the current one."""
        around, stops = _AROUND.get(), passes_stops and can_stop(self._gate)
        outermost = around if around is not None and around.stops else _Around(context, self.agent, stops)
        token = _AROUND.set(outermost._replace(stops=stops))
        try:
            yield
        finally:
            running.reset(_AROUND, token)


def has_controller(gate: Gate) -> bool:
    """Whether there is somebody to ask; not where the state of an agent inside a tool is restored by itself."""
    try:
        _ = gate.controller
    except ConfigurationError:
        return False
    return True


def can_stop(gate: Gate) -> bool:
    """Whether a run that asks here stops: its controller defers, and the interruption reaches the application."""
    current, around = running.current_call(), _AROUND.get()
    is_inside = current is not None and current.call is not None
    return (
        has_controller(gate)
        and gate.controller.mode == "defer"
        and (not is_inside or (around is not None and around.stops))
    )


def unreadable(error: ValueError) -> Denied:
    """Return the refusal of a call whose arguments nobody could be shown."""
    return Denied(cause="blocked", reason=f"its arguments cannot be shown: {error}")
