"""Stop and go on: how an agent is interrupted for an answer, what its front ends show, and how it resumes.

Tests: tests/adapters/strands/test_conformance.py
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import count
from typing import TYPE_CHECKING, Any, cast

from strands import Agent

from sayso.adapters.kit import Gate, WebUser, give_answer, is_suspended, require_answers, resume_suspended
from sayso.core.canonical import thaw
from sayso.core.model import ApprovalDecision, ApprovalRequest, Approved, Denied, Pending
from sayso.engine import blocking
from sayso.errors import ConfigurationError

if TYPE_CHECKING:
    from sayso.adapters.strands.agent_calls import AgentCall
    from sayso.engine.controller import ApprovalController

_REQUEST = "sayso_request"  # the key of the request's id in the reason of an interrupt
_GO_ON = {_REQUEST: "go on"}  # what `resume` answers: it means nothing, for the answer is in the store
_NOT_STOPPED = "this agent is not interrupted for a question; is it built with the session of the run that stopped?"


class Stops:
    """Decides about the calls of an agent, and interrupts it where somebody has to answer and the controller defers."""

    def __init__(self, gate: Gate, answered_by: Callable[[Mapping[str, Any]], WebUser | None] | None) -> None:
        if answered_by is not None and not callable(answered_by):
            raise ConfigurationError(f"answered_by is {answered_by!r}; pass a function of the run's invocation_state")
        self._gate = gate
        self._answered_by = answered_by

    async def decide(self, asked: AgentCall, *, is_new: bool, inline: bool) -> Approved | Denied:
        """Decide about a call; raise Strands' `InterruptException` to stop there, unless it waits `inline`.

        An agent that resumes enters the same middleware again, and Strands does not say so: the store does.
        """
        call, controller = asked.call, self._gate.controller
        rules, adapter = self._gate.tighten(asked.tool.rules), controller.adapter
        before = False if is_new else None  # whether it was asked about before; None: the store knows
        known = None if is_new else await adapter.find_request(call)
        outcome = adapter.decide_fast(call, rules) if known is None else None
        if outcome is not None:
            return outcome
        if await is_suspended(known, call, controller):
            return await resume_suspended(call, asked.tool.rules, self._gate)
        if inline or controller.mode != "defer":
            return await adapter.settle(call, rules, asked=before, inline=inline)
        for turn in count():
            outcome = await adapter.review(call, rules, asked=True if turn else before)
            if not isinstance(outcome, Pending):
                return outcome
            await self._stop(outcome.request, asked, turn)
        raise AssertionError("count() has an end")

    async def _stop(self, request: ApprovalRequest, asked: AgentCall, turn: int) -> None:
        """Interrupt the agent; where it was resumed with something, see whether that is an answer.

        What an interrupt was resumed with stays. So a question that is still open is asked under another name.
        """
        name = f"sayso:{request.id}:{turn}"
        asked.stage.interrupt(name, reason=interrupt_reason(request))
        user = None if self._answered_by is None else self._answered_by(asked.stage.invocation_state)
        decision = None if user is None else to_decision(said_now(asked.stage.agent, name))
        if user is not None and decision is not None:
            await give_answer(self._gate.controller, request, decision, user)


def said_now(agent: Any, name: str) -> object:  # noqa: ANN401 - Strands' own type of a local agent
    """Return what this very run was resumed with for an interrupt: an earlier answer was perhaps another person's."""
    state = agent.take_snapshot(include=["interrupt_state"]).data["interrupt_state"]
    named = {each["id"] for each in state["interrupts"].values() if each["name"] == name}
    said = [each["interruptResponse"] for each in state["context"].get("responses", ())]
    return next((each["response"] for each in said if each["interruptId"] in named), None)


def interrupt_reason(request: ApprovalRequest) -> dict[str, Any]:
    """Return the reason of an interrupt, which front ends show."""
    return {
        _REQUEST: request.id,
        "tool_use_id": request.tool_call_id,
        "tool_name": request.tool_name,
        "tool_input": thaw(request.args),
        "prompt": f"Run {request}?",
        "description": "\n".join(filter(None, (request.description, request.reason))),
    }


def to_decision(said: object) -> ApprovalDecision | None:
    """Return the decision in what a front end resumes with; None for anything that is no clear answer.

    The words are those of Strands' own `HumanInTheLoop`; a mapping with `approved` may have `args` and a `note`.
    """
    if isinstance(said, str):
        said = {"y": True, "yes": True, "n": False, "no": False}.get(said.strip().lower())
    if isinstance(said, bool):
        return ApprovalDecision(approved=said)
    if not isinstance(said, Mapping):
        return None
    given = cast("Mapping[str, object]", said)
    approved, args, note = given.get("approved"), given.get("args"), given.get("note")
    if not isinstance(approved, bool) or not isinstance(args, Mapping | None) or not isinstance(note, str | None):
        return None
    return ApprovalDecision(approved=approved, override_args=cast("Any", args if approved else None), note=note or None)


async def resume(
    agent: Any,  # noqa: ANN401 - an agent, a graph or a swarm
    interrupts: Iterable[Any] | None = None,
    *,
    controller: ApprovalController,
    **settings: Any,  # noqa: ANN401 - Strands' own
) -> Any:  # noqa: ANN401 - Strands' own result
    """Go on with an interrupted agent whose questions are answered; return what `agent.invoke_async` returns.

    Interrupts of others are left as they are.

    Args:
        agent: the agent, graph or swarm, built as the one that was interrupted, with a session manager of its session.
        interrupts: `result.interrupts` of the run that stopped; left out, those that the agent's state holds. A graph
            and a swarm need them.
        controller: one on the store that holds the questions.
        **settings: those of `invoke_async`.

    Raises:
        ApprovalPending: one of the questions is still open.
        ConfigurationError: the agent is not interrupted for a question.
    """
    asked = questions_of(interrupts_of(agent) if interrupts is None else interrupts)
    await require_answers(asked.values(), controller)
    return await agent.invoke_async(_go_on(asked), **settings)


def resume_sync(
    agent: Any,  # noqa: ANN401 - an agent, a graph or a swarm
    interrupts: Iterable[Any] | None = None,
    *,
    controller: ApprovalController,
    **settings: Any,  # noqa: ANN401 - Strands' own
) -> Any:  # noqa: ANN401 - Strands' own result
    """Do what `resume` does, for synchronous callers."""
    asked = questions_of(interrupts_of(agent) if interrupts is None else interrupts)
    blocking.run(require_answers, asked.values(), controller)
    return agent(_go_on(asked), **settings)


def _go_on(asked: Iterable[str]) -> list[Any]:
    return [{"interruptResponse": {"interruptId": each, "response": _GO_ON}} for each in asked]


def interrupts_of(agent: Any) -> list[Any]:  # noqa: ANN401 - Strands' own type
    """Return the interrupts of an agent that nothing was said to yet."""
    if not isinstance(agent, Agent):
        raise ConfigurationError(
            "a graph and a swarm do not tell what they are interrupted for; pass `result.interrupts`"
        )
    kept = agent.take_snapshot(include=["interrupt_state"]).data["interrupt_state"]["interrupts"]
    return [each for each in kept.values() if each.get("response") is None]


def questions_of(interrupts: Iterable[Any]) -> dict[str, str]:
    """Return the ids of the interrupts that wait for an answer here, each with that of its request."""
    found: dict[str, str] = {}
    for each in interrupts:
        given = cast("Mapping[str, Any]", each if isinstance(each, Mapping) else vars(each))
        reason: object = given.get("reason")
        if isinstance(reason, Mapping) and _REQUEST in reason:
            found[given["id"]] = str(cast("Mapping[str, Any]", reason)[_REQUEST])
    if not found:
        raise ConfigurationError(_NOT_STOPPED)
    return found
