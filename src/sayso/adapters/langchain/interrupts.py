"""Interrupts: how a graph stops for an answer, what its front ends show, and how it resumes.

Tests: tests/adapters/langchain/test_conformance.py
"""

from __future__ import annotations

import hashlib
import itertools
import logging
from collections.abc import Callable, Coroutine, Generator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from langgraph.types import Command, interrupt

from sayso.adapters.kit import (
    Gate,
    GuardedRun,
    WebUser,
    give_answer,
    is_suspended,
    require_answers,
    resume_suspended,
    suspend,
)
from sayso.adapters.langchain.graph_calls import NewCalls
from sayso.core.canonical import thaw
from sayso.core.model import ApprovalDecision, ApprovalRequest, Approved, Denied, Pending
from sayso.engine import blocking, context
from sayso.errors import ConfigurationError

if TYPE_CHECKING:
    from sayso.adapters.langchain.graph_calls import GraphCall
    from sayso.engine.controller import ApprovalController

_LOG = logging.getLogger("sayso")
_REQUEST = "sayso_request"  # the key of the request's id in the value of an interrupt
_NO_CHECKPOINTER = (
    "somebody has to be asked about a call, and this graph cannot stop and go on: compile it with a checkpointer and "
    "pass a thread_id, or let it wait: pass approval_callback=… or channels=[…] to `Approvals`"
)
_NO_ANSWER = False  # what is resumed with: it means nothing here, and no yes to a tool that a race takes it to
_SHARED_TASK = "its node runs several calls at once, so it may be meant for another one; answer it by the controller"
Step = Callable[[], Coroutine[Any, Any, Any]]


class Questions:
    """Decides about the calls of a graph, and interrupts it where somebody has to answer and the controller defers."""

    def __init__(self, gate: Gate, answered_by: Callable[[Any], WebUser | None] | None) -> None:
        if answered_by is not None and not callable(answered_by):
            raise ConfigurationError(f"answered_by is {answered_by!r}; pass a function of LangGraph's runtime")
        self._gate = gate
        self._answered_by = answered_by
        self.new_calls = NewCalls()

    def decide_sync(self, call: GraphCall) -> Approved | Denied:
        """Decide about a call on a thread without an event loop; raise LangGraph's `GraphInterrupt` to stop there."""
        steps, value = self._steps(call), None
        with context.messages_from(call.messages):
            while True:
                try:
                    step = steps.send(value)
                except StopIteration as end:
                    return end.value
                value = blocking.run(step)

    async def decide(self, call: GraphCall) -> Approved | Denied:
        """Do what `decide_sync` does, asynchronously."""
        steps, value = self._steps(call), None
        with context.messages_from(call.messages):
            while True:
                try:
                    step = steps.send(value)
                except StopIteration as end:
                    return end.value
                value = await step()

    def _steps(self, asked: GraphCall) -> Generator[Step, Any, Approved | Denied]:
        """Yield what has to be awaited on the way to a decision, and return it.

        A task that resumes is run again from its start, and LangGraph does not say so: the store does. It tells the
        values of several interrupts of a task apart by their order, and the tool may interrupt too. So a call that has
        interrupted does so again, which returns at once.
        """
        call, controller = asked.call, self._gate.controller
        rules, adapter = self._gate.tighten(asked.rules), controller.adapter
        known = None if self.new_calls.take(asked) else (yield partial(adapter.find_request, call))
        turns = itertools.count()
        if known is None:
            outcome = adapter.decide_fast(call, rules)
            if outcome is not None:
                return outcome
        if controller.mode != "defer":
            if (yield partial(is_suspended, known, call, controller)):
                return (yield partial(resume_suspended, call, asked.rules, self._gate))
            return (yield partial(adapter.settle, call, rules, asked=None))
        if known is not None:
            yield partial(self._accept, known, asked, interrupt(interrupt_value(known)), next(turns))
            if (yield partial(is_suspended, known, call, controller)):
                return (yield partial(resume_suspended, call, asked.rules, self._gate))
        elif not _can_stop(asked):
            raise ConfigurationError(_NO_CHECKPOINTER)
        outcome = yield partial(adapter.review, call, rules, asked=None)
        while isinstance(outcome, Pending):
            answer = interrupt(interrupt_value(outcome.request))
            yield partial(self._accept, outcome.request, asked, answer, next(turns), shown=known is not None)
            outcome = yield partial(adapter.review, call, rules, asked=True)
        return outcome

    async def suspend(self, asked: GraphCall, run: GuardedRun) -> None:
        """End a run that was interrupted inside its tool, so that the same call resumes it."""
        await suspend(run, asked.call, self._gate.controller)

    async def _accept(
        self, request: ApprovalRequest, asked: GraphCall, answer: object, turn: int, *, shown: bool = True
    ) -> None:
        """Give the answer that the graph was resumed with to the controller, if the host says whose it is.

        An answer to a question that nobody was `shown`, since it was opened just now, was meant for another one.
        """
        store, mark = self._gate.controller.store, _heard_mark(request, asked)
        if request.status != "open":
            if await store.parked(mark) is not None:
                await store.unpark(mark)
            return
        if not await self._is_new(mark, turn):
            return
        user = None if self._answered_by is None or not shown else self._answered_by(asked.runtime)
        decision = None if user is None else to_decision(answer, request)
        if user is None or decision is None:
            return
        if not _has_own_task(asked):
            _LOG.warning("the answer of %s to request %s does not count: %s", user.who, request.id, _SHARED_TASK)
            return
        await give_answer(self._gate.controller, request, decision, user)
        row = await store.get(request.id)
        if row is None or row.status != "open":
            await store.unpark(mark)

    async def _is_new(self, mark: str, turn: int) -> bool:
        """Whether the answer of this turn is heard for the first time, which is noted before it can count.

        LangGraph gives a task that it enters again all answers that it ever got: an earlier one is not of the person
        who resumes the graph now.
        """
        store = self._gate.controller.store
        heard = await store.parked(mark)
        if heard is not None and turn < int(heard):
            return False
        await store.park(mark, str(turn + 1).encode())
        return True


def _heard_mark(request: ApprovalRequest, asked: GraphCall) -> str:
    task = str(_metadata(asked).get("langgraph_checkpoint_ns", ""))
    return f"heard/{request.id}/{hashlib.sha256(task.encode()).hexdigest()[:16]}"


def _has_own_task(asked: GraphCall) -> bool:
    """Whether LangGraph runs the call in a task of its own, as in every agent of `create_agent`.

    It tells the interrupts of a task apart by their order only, and parallel calls of one task come to theirs in any
    order: one could take the answer to another.
    """
    if asked.message is not None and len(asked.message.tool_calls) == 1:
        return True
    was_sent = _metadata(asked).get("langgraph_path", ())[:1] == ("__pregel_push",)
    state = asked.runtime.state  # of an agent; another graph may send a message whole, with all its calls
    return was_sent and isinstance(state, Mapping) and "sayso_session" in state


def _metadata(asked: GraphCall) -> Mapping[str, Any]:
    return asked.runtime.config.get("metadata", {})


def _can_stop(asked: GraphCall) -> bool:
    """Whether the graph has a checkpointer: without one, an interrupt would end the run for good."""
    # LangGraph has no public name for this; its `execution_info.thread_id` is set without a checkpointer, too.
    return asked.runtime.config.get("configurable", {}).get("__pregel_checkpointer") is not None


def interrupt_value(request: ApprovalRequest) -> dict[str, Any]:
    """Return the value of an interrupt, with the fields that LangChain's clients, its inbox and its chat page show."""
    args = thaw(request.args)
    description = "\n".join(filter(None, (request.description, request.reason)))
    allowed = ["approve", "edit", "reject"]
    return {
        _REQUEST: request.id,
        "type": "tool_approval",
        "tool_call_id": request.tool_call_id,
        "name": request.tool_name,
        "args": args,
        "description": description,
        "action_requests": [{"name": request.tool_name, "args": args, "description": description}],
        "review_configs": [{"action_name": request.tool_name, "allowed_decisions": allowed}],
        "action_request": {"action": request.tool_name, "args": args},
        "config": {"allow_accept": True, "allow_edit": True, "allow_respond": True, "allow_ignore": True},
    }


def to_decision(answer: object, request: ApprovalRequest) -> ApprovalDecision | None:
    """Return the decision in what a front end resumes with; None for anything that is no clear answer to one call."""
    if isinstance(answer, Mapping) and "decisions" in answer:
        answer = cast("Mapping[str, Any]", answer)["decisions"]
    if isinstance(answer, list):
        answer = cast("list[Any]", answer)[0] if len(cast("list[Any]", answer)) == 1 else None
    if not isinstance(answer, Mapping):
        return None
    said = cast("Mapping[str, Any]", answer)
    match said.get("type"):
        case "approve" | "accept":
            return ApprovalDecision(approved=True) if _is_as_shown(said.get("args"), request) else None
        case "reject" | "ignore":
            return ApprovalDecision(approved=False, note=_text(said.get("message")))
        case "response":
            return ApprovalDecision(approved=False, note=_text(said.get("args")))
        case "edit":
            return _edit(said.get("edited_action") or said.get("args"), request)
        case _:
            return None


def _is_as_shown(echoed: object, request: ApprovalRequest) -> bool:
    """Whether what a front end says that it accepts, if it does, is what this question shows."""
    shown = {"action": request.tool_name, "args": thaw(request.args)}
    return not isinstance(echoed, Mapping) or dict(cast("Mapping[str, Any]", echoed)) == shown


def _edit(edited: object, request: ApprovalRequest) -> ApprovalDecision | None:
    """Return an edit of the arguments; one that names another tool is no answer."""
    given = cast("Mapping[str, Any]", edited if isinstance(edited, Mapping) else {})
    args, name = given.get("args"), given.get("name") or given.get("action")
    if not isinstance(args, Mapping) or name != request.tool_name:
        return None
    return ApprovalDecision(approved=True, override_args=cast("Mapping[str, Any]", args))


def _text(given: object) -> str | None:
    return given if isinstance(given, str) and given else None


async def resume(agent: Any, config: Mapping[str, Any], *, controller: ApprovalController, **settings: Any) -> Any:  # noqa: ANN401 - LangGraph's own types
    """Go on with an interrupted graph whose questions are answered; return what `agent.ainvoke` returns.

    Interrupts of others are left as they are.

    Args:
        agent: the compiled graph, built as the one that was interrupted, with a checkpointer that holds its thread.
        config: that of the run, with its `thread_id`.
        controller: one on the store that holds the questions.
        **settings: those of `ainvoke`.

    Raises:
        ApprovalPending: one of the questions is still open.
        ConfigurationError: the thread is not interrupted for a question.
    """
    asked = questions_of(await agent.aget_state(config))
    await require_answers(asked.values(), controller)
    return await agent.ainvoke(Command(resume=dict.fromkeys(asked, _NO_ANSWER)), config, **settings)


def resume_sync(agent: Any, config: Mapping[str, Any], *, controller: ApprovalController, **settings: Any) -> Any:  # noqa: ANN401 - LangGraph's own types
    """Do what `resume` does with `agent.invoke`, for synchronous callers and checkpointers."""
    asked = questions_of(agent.get_state(config))
    blocking.run(require_answers, asked.values(), controller)
    return agent.invoke(Command(resume=dict.fromkeys(asked, _NO_ANSWER)), config, **settings)


def questions_of(state: Any) -> dict[str, str]:  # noqa: ANN401 - LangGraph's own types
    """Return the ids of the interrupts of a graph that wait for an answer here, each with that of its request."""
    values: dict[str, object] = {each.id: each.value for each in state.interrupts}
    asked = {name: cast("Mapping[str, Any]", value) for name, value in values.items() if isinstance(value, Mapping)}
    found = {name: str(value[_REQUEST]) for name, value in asked.items() if _REQUEST in value}
    if not found:
        raise ConfigurationError("this thread is not interrupted for a question; is it the right thread_id?")
    return found
