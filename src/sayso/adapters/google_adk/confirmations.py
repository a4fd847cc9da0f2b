"""Stop and go on: ADK's own confirmation as the pause of a run, what its front ends show, and how it resumes.

Tests: tests/adapters/google_adk/test_stopping.py
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from google.adk.flows.llm_flows.functions import REQUEST_CONFIRMATION_FUNCTION_CALL_NAME as CONFIRM
from google.genai import types

from sayso.adapters.kit import require_answers
from sayso.core.canonical import freeze, is_same_value, thaw
from sayso.core.model import ApprovalDecision, ApprovalRequest
from sayso.engine import blocking
from sayso.errors import ConfigurationError

if TYPE_CHECKING:
    from google.adk.events import Event
    from google.adk.runners import Runner
    from google.adk.tools import ToolContext
    from google.adk.tools.tool_confirmation import ToolConfirmation

    from sayso.engine.controller import ApprovalController

_REQUEST = "sayso_request"  # the key of the request's id in the payload of a confirmation
_GO_ON = {_REQUEST: "go on"}  # the payload that `resume` sends: it is no answer, for the answer is in the store
_WAITS = "It has not run yet: a person is asked about it."


def stop(context: ToolContext, request: ApprovalRequest) -> dict[str, Any]:
    """Ask ADK for a confirmation of a call, which ends the run; return what stands for the result meanwhile."""
    context.request_confirmation(hint=f"Run {request}?", payload=confirmation_payload(request))
    context.actions.skip_summarization = True
    return {"error": _WAITS}


def confirmation_payload(request: ApprovalRequest) -> dict[str, Any]:
    """Return the payload of a confirmation, which front ends show."""
    return {
        _REQUEST: request.id,
        "tool_name": request.tool_name,
        "args": thaw(request.args),
        "description": "\n".join(filter(None, (request.description, request.reason))),
    }


class OwnConfirmation(NamedTuple):
    """A confirmation that was asked for here: its id, and that of the request."""

    id: str
    request: str


def own_confirmation(events: Sequence[Event], call_id: str | None) -> OwnConfirmation | None:
    """Return the newest confirmation of a call, or None if its tool has asked for that one."""
    found = [each for _, each in _confirmations(events) if _original_id(each) == call_id]
    request = _request_of(found[-1]) if found else None
    return OwnConfirmation(found[-1].id or "", request) if request is not None else None


def answered_ids(message: types.Content) -> set[str]:
    """Return the ids of the confirmations that a message answers."""
    responses = (part.function_response for part in message.parts or ())
    return {each.id for each in responses if each is not None and each.id and each.name == CONFIRM}


def to_decision(said: ToolConfirmation, request: ApprovalRequest) -> ApprovalDecision | None:
    """Return the decision in a confirmation; None for anything that is no clear answer to this question.

    Its payload may be left out, or be that of the question, with other `args`, and with a `note`.
    """
    payload: object = {} if said.payload is None else said.payload
    if not isinstance(payload, Mapping):
        return None
    given = cast("Mapping[str, object]", payload)
    args, note = given.get("args"), given.get("note")
    if given.get(_REQUEST, request.id) != request.id or not isinstance(note, str | None):
        return None
    if not isinstance(args, Mapping | None):
        return None
    edited = cast("Any", args) if said.confirmed and not _are_same(cast("Any", args), request) else None
    return ApprovalDecision(approved=said.confirmed, override_args=edited, note=note or None)


def _are_same(args: Mapping[str, Any] | None, request: ApprovalRequest) -> bool:
    return args is None or is_same_value(freeze(args), request.args)


async def resume(
    runner: Runner,
    *,
    user_id: str,
    session_id: str,
    controller: ApprovalController,
    **settings: Any,  # noqa: ANN401 - ADK's own
) -> AsyncGenerator[Event]:
    """Go on with a run whose questions are answered; yield the events, as `runner.run_async` does.

    Args:
        runner: one like that of the run that stopped, with the session service that holds its session.
        user_id: the user of the session.
        session_id: the session.
        controller: one on the store that holds the questions.
        **settings: those of `run_async`.

    Raises:
        ApprovalPending: one of the questions is still open.
        ConfigurationError: no run of the session waits for a question.
    """
    message = await _go_on(runner, user_id, session_id, controller)
    events = runner.run_async(user_id=user_id, session_id=session_id, new_message=message, **settings)
    try:
        async for event in events:
            yield event
    finally:
        await events.aclose()


def resume_sync(
    runner: Runner,
    *,
    user_id: str,
    session_id: str,
    controller: ApprovalController,
    **settings: Any,  # noqa: ANN401 - ADK's own
) -> Generator[Event]:
    """Do what `resume` does, for synchronous callers, as `runner.run` does."""
    message = blocking.run(_go_on, runner, user_id, session_id, controller)
    yield from runner.run(user_id=user_id, session_id=session_id, new_message=message, **settings)


async def _go_on(runner: Runner, user_id: str, session_id: str, controller: ApprovalController) -> types.Content:
    """Return the message that ADK goes on with, once all questions of the run are answered."""
    session = await runner.session_service.get_session(app_name=runner.app_name, user_id=user_id, session_id=session_id)
    waiting = waiting_requests(session.events if session is not None else ())
    if not waiting:
        raise ConfigurationError(f"no run of the session {session_id!r} waits for an answer")
    await require_answers(waiting.values(), controller)
    response = {"confirmed": True, "payload": _GO_ON}
    answers = [types.FunctionResponse(id=each, name=CONFIRM, response=response) for each in waiting]
    return types.Content(role="user", parts=[types.Part(function_response=each) for each in answers])


def waiting_requests(events: Sequence[Event]) -> dict[str, str]:
    """Return the confirmations that the last run waits for, each with the id of its request."""
    open_ones = {
        call.id: (event.invocation_id, request)
        for event, call in _confirmations(events)
        if call.id and (request := _request_of(call)) and not _is_done(events, call)
    }
    last = next((invocation for invocation, _ in reversed(open_ones.values())), None)
    return {each: request for each, (invocation, request) in open_ones.items() if invocation == last}


def _confirmations(events: Sequence[Event]) -> Iterator[tuple[Event, types.FunctionCall]]:
    for event in events:
        for call in event.get_function_calls():
            if call.name == CONFIRM and event.author != "user":
                yield event, call


def _original_id(call: types.FunctionCall) -> str | None:
    original = (call.args or {}).get("originalFunctionCall")
    return cast("Mapping[str, Any]", original).get("id") if isinstance(original, Mapping) else None


def _request_of(call: types.FunctionCall) -> str | None:
    """Return the id of the request that a confirmation asks about, or None if it is somebody else's."""
    asked = (call.args or {}).get("toolConfirmation")
    payload = cast("Mapping[str, Any]", asked).get("payload") if isinstance(asked, Mapping) else None
    request = cast("Mapping[str, Any]", payload).get(_REQUEST) if isinstance(payload, Mapping) else None
    return request if isinstance(request, str) else None


def _is_done(events: Sequence[Event], call: types.FunctionCall) -> bool:
    """Whether a call has a result since its confirmation was answered."""
    original, answered = _original_id(call), False
    for event in events:
        ids = {each.id for each in event.get_function_responses()}
        if event.author == "user":
            answered = answered or call.id in ids
        elif answered and original in ids:
            return True
    return False
