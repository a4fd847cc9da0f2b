"""Answers over REST and WebSocket: validate the message of a front end, convert it to a decision, close the request."""

from __future__ import annotations

import asyncio
from http import HTTPStatus

import msgspec

from sayso.channels.edit_schema import schema_violation
from sayso.core import json_codec
from sayso.core.canonical import is_same_value
from sayso.core.model import ApprovalDecision, ApprovalRequest, Remember, Remembered, ScopeKind
from sayso.engine.lifecycle import Answered
from sayso.errors import ApprovalBlocked, NotEntitled
from sayso.server.http.problems import HttpProblem
from sayso.server.http.schemas import AnswerModel
from sayso.server.hub import Hub
from sayso.server.identity import Principal

_APPROVES = {"proceed_once": True, "proceed_always": True, "modify": True, "cancel": False}


class AnswerOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """Result of an answer: the request after it, the decisions remembered from it, and the other requests answered."""

    request: ApprovalRequest
    remembered: list[Remembered]
    also_answered: list[str]


async def submit_answer(
    hub: Hub, person: Principal, request_id: str, answer: AnswerModel, *, channel: str
) -> AnswerOutcome:
    """Answer a request; idempotent for the same answer by the same person.

    Raises:
        HttpProblem: the request has another answer, the person is not entitled, or the answer is invalid.
    """
    hub.throttle.count_answer(person.name)
    request = await person.request(hub, request_id)
    decision = decision_of(answer, request, hub.clock.now())
    others: list[ApprovalRequest] = []
    if request.status == "open":
        await _check_edited(request, answer)
        request, others = await _close(hub, person, request, decision, f"{channel} from {person.address}")
    if not _has_answered(request, person.name, decision):
        raise _conflict(request)
    also_answered = [each.id for each in others]  # all of the same project: this person may see them
    return AnswerOutcome(request=request, remembered=_remembered(hub, request), also_answered=also_answered)


async def covered_requests(
    hub: Hub, person: Principal, request: ApprovalRequest, answer: AnswerModel
) -> list[ApprovalRequest]:
    """Return the other open requests, all of the same project, that this answer would close too; nothing is answered.

    Raises:
        HttpProblem: the answer is invalid for this request.
    """
    decision = decision_of(answer, request, hub.clock.now())
    try:
        return await hub.controller.covered_by(request, decision, who=person.name)
    except ValueError as error:
        raise _unprocessable(str(error)) from None


def _remembered(hub: Hub, request: ApprovalRequest) -> list[Remembered]:
    if request.decision is None or request.decision.remember == "none":
        return []
    return [each for each in hub.controller.memory.list() if each.request_id == request.id]


def decision_of(answer: AnswerModel, request: ApprovalRequest, now: float) -> ApprovalDecision:
    """Return the decision that an answer means for a request.

    Raises:
        HttpProblem: the answer is ambiguous or empty.
    """
    _check_answer(answer)
    approved = answer.approved if answer.outcome is None else _APPROVES[answer.outcome]
    remember, scope = _remember_options(answer, request)
    if remember == "none" and (scope, answer.uses, answer.until, answer.seconds) != (None, None, None, None):
        raise _unprocessable(
            "`scope`, `uses`, `until` and `seconds` say how to remember; set `remember` to session or always too"
        )
    try:
        return ApprovalDecision(
            approved=approved is True,
            note=answer.note,
            override_args=None if answer.args is None else json_codec.restore_types(answer.args, request.args),
            remember=remember,
            scope=scope,
            uses=answer.uses,
            until=answer.until if answer.seconds is None else now + answer.seconds,
        )
    except (TypeError, ValueError) as error:
        raise _unprocessable(str(error)) from None


def _check_answer(answer: AnswerModel) -> None:
    if (answer.outcome is None) == (answer.approved is None):
        raise _unprocessable("say either `outcome` or `approved`")
    if answer.until is not None and answer.seconds is not None:
        raise _unprocessable("say either `until` or `seconds`")
    if answer.outcome == "modify" and answer.args is None:
        raise _unprocessable("the outcome modify needs `args`: all arguments, as the call is to run")
    if answer.args is not None and (answer.outcome not in {None, "modify", "proceed_once"} or answer.approved is False):
        raise _unprocessable("`args` go only with a yes to this one call: modify, proceed_once or approved")
    if answer.outcome == "proceed_always" and answer.remember == "none":
        raise _unprocessable("the outcome proceed_always remembers, and `remember` says none")


def _remember_options(answer: AnswerModel, request: ApprovalRequest) -> tuple[Remember, ScopeKind | None]:
    """Return how an answer is remembered; `proceed_always` means the session, in the widest scope the rule offers."""
    if answer.outcome != "proceed_always":
        remember = answer.remember or "none"
        if remember != "none" and not request.scopes:
            raise _unprocessable(
                "this answer cannot be remembered: the rule that asks does not allow it; answer without that"
            )
        return remember, answer.scope
    if not request.scopes:
        return "none", None  # the call runs once, and the response shows that nothing is remembered
    widest = next((scope for scope in request.scopes if scope.kind == "tool"), request.scopes[0])
    return answer.remember or "session", answer.scope or widest.kind


async def _check_edited(request: ApprovalRequest, answer: AnswerModel) -> None:
    if answer.args is None:
        return
    problem = await asyncio.to_thread(schema_violation, answer.args, request.parameters)  # it names JSON types
    if problem is not None:
        raise _unprocessable(f"these arguments do not fit the tool: {problem}")


async def _close(
    hub: Hub, person: Principal, request: ApprovalRequest, decision: ApprovalDecision, channel: str
) -> Answered:
    try:
        return await hub.controller.answer_with_covered(
            request, decision, who=person.name, channel=channel, roles=person.token.roles
        )
    except NotEntitled as error:
        raise HttpProblem(HTTPStatus.FORBIDDEN, str(error)) from None
    except ApprovalBlocked as error:
        raise _unprocessable(error.reason) from None
    except ValueError as error:
        raise _unprocessable(str(error)) from None


def _has_answered(request: ApprovalRequest, who: str, decision: ApprovalDecision) -> bool:
    """Whether this person has given this answer to the request, now or before."""
    recorded = [*request.votes, *([request.decision] if request.decision else [])]
    return any(each.who == who and _is_same(each, decision, request) for each in recorded)


def _is_same(stored: ApprovalDecision, sent: ApprovalDecision, request: ApprovalRequest) -> bool:
    same_args = is_same_value(stored.override_args, sent.override_args)
    if (stored.approved, stored.note) != (sent.approved, sent.note) or not same_args:
        return False
    # A once-per-session request is remembered without `remember`. `until` is not compared: `seconds` count from now.
    is_implied = request.approval == "once_per_session" and sent.remember == "none"
    return is_implied or (stored.remember, stored.scope, stored.uses) == (sent.remember, sent.scope, sent.uses)


def _conflict(request: ApprovalRequest) -> HttpProblem:
    decision = request.decision
    answered_by = f" by {decision.who}" if decision is not None and decision.who else ""
    sentence = f"this answer was not taken: the request is {json_codec.state_text(request)}; it was closed{answered_by}"
    if request.status == "open":
        sentence = "this answer was not taken: you have given another one before, and the request is still open"
    return HttpProblem(HTTPStatus.CONFLICT, sentence, request=json_codec.request_to_dict(request))


def _unprocessable(sentence: str) -> HttpProblem:
    return HttpProblem(HTTPStatus.UNPROCESSABLE_ENTITY, f"{sentence}; nothing was decided")


def question_text(request: ApprovalRequest) -> str:
    """Return the question as one sentence: the `message` of the original REST form and of the WebSocket."""
    return request.description or f"Allow {request.tool} to execute?"
