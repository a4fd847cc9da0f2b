"""Approval contents: how a run stops for an answer, what its front ends show and answer, and how it resumes.

Tests: tests/adapters/agent_framework/test_stopping.py
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from typing import TYPE_CHECKING, Any, cast

from agent_framework import AgentContext, AgentSession, Content, Message, MiddlewareTermination

from sayso.adapters.agent_framework.function_calls import AgentRun, Answer, InvokedCall
from sayso.adapters.kit import Gate, WebUser, give_answer, require_answers
from sayso.core.canonical import thaw
from sayso.core.model import ApprovalDecision, ApprovalRequest, Approved, Denied, Pending, ToolCall
from sayso.engine import context as running
from sayso.errors import ApprovalPending, ConfigurationError

if TYPE_CHECKING:
    from sayso.engine.controller import ApprovalController

_REQUEST = "sayso_request"  # the key of the request's id in the properties of an approval content
_ASKED = "sayso_asked"  # the key of a session's state with the contents that wait for an answer
_NO_SESSION = (
    "the controller defers, and a run without a session cannot resume; run the agent with "
    "`session=agent.create_session()`, or use the mode 'interactive'"
)
_NOT_STOPPED = "this session has not stopped for a question; is it the one with which the run stopped?"


class ApprovalFlow:
    """Decides about the calls of an agent, and stops its run where somebody has to answer and the controller defers."""

    def __init__(self, gate: Gate, answered_by: Callable[[AgentContext], WebUser | None] | None) -> None:
        if answered_by is not None and not callable(answered_by):
            raise ConfigurationError(f"answered_by is {answered_by!r}; pass a function of the run's `AgentContext`")
        self._gate = gate
        self._answered_by = answered_by

    async def decide(self, asked: InvokedCall, run: AgentRun) -> Approved | Denied:
        """Decide about a call; raise the framework's `MiddlewareTermination` to stop there.

        A call that the model has not just made may have been asked about, even where the framework does not say so: the
        store knows. Inside the tool of another agent it waits in place: the framework would lose that stop.
        """
        call, adapter, rules = asked.call, self._gate.controller.adapter, self._gate.tighten(asked.rules)
        is_new, inline = run.take(call.call_id), running.current_call() is not None
        outcome = adapter.decide_fast(call, rules) if is_new else None
        if outcome is not None:
            return outcome
        await self._hear(call, run)
        before = False if is_new else None
        if inline or self._gate.controller.mode != "defer":
            outcome = await adapter.settle(call, rules, asked=before, inline=inline)
        else:
            outcome = await adapter.review(call, rules, asked=before)
        if isinstance(outcome, Pending):
            if is_new and not run.stopped_for and run.session is not None:
                contents_of(run.session).clear()  # the framework has forgotten them, too
            await self._stop(outcome.request, asked, run)
            raise MiddlewareTermination(f"{call.tool!r} waits for an answer")
        forget(run, call.run)
        return outcome

    async def _stop(self, request: ApprovalRequest, asked: InvokedCall, run: AgentRun) -> None:
        if run.session is None:
            await self._gate.controller.adapter.withdraw_if_open(request.id)
            raise ConfigurationError(_NO_SESSION)
        if request.id in run.stopped_for:  # other middleware resumes it by itself, and would do so for ever
            raise ApprovalPending.for_request(request)
        run.stopped_for.add(request.id)
        content = request_content(request, asked)
        contents_of(run.session)[str(content.id)] = content.to_dict()
        asked.context.result = content

    async def _hear(self, call: ToolCall, run: AgentRun) -> None:
        """Give the controller what a front end has answered to this call, if its question is open."""
        answer = run.answers.pop(call.run, None)
        request = await self._gate.controller.adapter.find_request(call) if answer else None
        if answer is not None and request is not None and request.status == "open":
            await give_answer(self._gate.controller, request, *answer)

    def collect(self, context: AgentContext, run: AgentRun) -> None:
        """Collect the answers with which a run is started.

        Whatever they say, the framework has to enter the middleware round the tools again: the store knows the answer.
        """
        if context.session is None:
            return
        asked, user = contents_of(context.session), self._answered_by and self._answered_by(context)
        messages = [copy.copy(each) for each in context.messages]
        for message in messages:
            said = [each for each in message.contents if _is_answer(each) and str(each.id) in asked]
            for each in said:
                decision = to_decision(each)
                if user is not None and decision is not None:
                    run.answers[str(each.id)] = Answer(decision, user)
            message.contents = [_as_yes(each) if each in said else each for each in message.contents]
        context.messages = messages


def _is_answer(content: Content) -> bool:
    """Whether a content answers to a request of ours; those of a provider's tool are between it and the caller."""
    call = content.function_call
    return content.type == "function_approval_response" and not (call is not None and _is_hosted(call))


def _is_ours(request: Content) -> bool:
    call = request.function_call
    return _REQUEST in request.additional_properties and not (call is not None and _is_hosted(call))


def _is_hosted(call: Content) -> bool:
    """Whether a tool of the provider is called; its approval goes there, and not through any middleware."""
    return bool(getattr(call, "hosted", None)) or "server_label" in call.additional_properties


def _as_yes(said: Content) -> Content:
    yes = copy.copy(said)
    yes.approved = True
    return yes


def to_decision(said: Content) -> ApprovalDecision | None:
    """Return the decision in an approval response, which may have `args` and a `note` among its properties.

    None is no clear answer.
    """
    args, note = (said.additional_properties.get(each) for each in ("args", "note"))
    if not isinstance(said.approved, bool) or not isinstance(args, Mapping | None) or not isinstance(note, str | None):
        return None
    edited = cast("Any", args) if said.approved else None
    return ApprovalDecision(approved=said.approved, override_args=edited, note=note or None)


def request_content(request: ApprovalRequest, asked: InvokedCall) -> Content:
    """Return the approval request that front ends of the framework show, with the arguments and their defaults."""
    call = asked.call
    said = Content.from_function_call(
        call.call_id, call.tool, arguments=thaw(asked.arguments.passed), id=call.run or None
    )
    shown = {
        _REQUEST: request.id,
        "arguments": thaw(request.args),
        "description": "\n".join(filter(None, (request.description, request.reason))),
    }
    return Content.from_function_approval_request(call.run or call.call_id, said, additional_properties=shown)


def contents_of(session: AgentSession) -> MutableMapping[str, Any]:
    """Return the approval requests with which a session has stopped, by their ids."""
    kept: object = session.state.setdefault(_ASKED, {})
    if not isinstance(kept, dict):
        raise ConfigurationError(f"the session's state has no mapping under {_ASKED!r}; leave that key to sayso")
    return cast("dict[str, Any]", kept)


def forget(run: AgentRun, content_id: str) -> None:
    """Take a call that is decided out of those with which the session has stopped."""
    if run.session is not None:
        contents_of(run.session).pop(content_id, None)


async def resume(
    agent: Any,  # noqa: ANN401 - an agent of any kind
    session: AgentSession,
    requests: Iterable[Content] | None = None,
    *,
    controller: ApprovalController,
    **settings: Any,  # noqa: ANN401 - the framework's own
) -> Any:  # noqa: ANN401 - the framework's own result
    """Resume a run whose questions are answered; return what `agent.run` returns.

    Args:
        agent: the agent, built as the one whose run has stopped.
        session: the session of that run, perhaps from `AgentSession.from_dict`.
        requests: `response.user_input_requests` of that run; left out, those that the session holds.
        controller: one on the store that holds the questions.
        **settings: those of `agent.run`; with `stream=True`, the stream is returned.

    Raises:
        ApprovalPending: one of the questions is still open.
        ConfigurationError: the session has not stopped for a question.
    """
    kept = [Content.from_dict(each) for each in contents_of(session).values()]
    asked = [each for each in (kept if requests is None else requests) if _is_ours(each)]
    if not asked:
        raise ConfigurationError(_NOT_STOPPED)
    await require_answers((each.additional_properties[_REQUEST] for each in asked), controller)
    answers = [each.to_function_approval_response(approved=True) for each in asked]
    going_on = agent.run(Message("user", answers), session=session, **settings)
    return going_on if settings.get("stream") else await going_on
