"""Answers from a web front end: a browser's approvals, stored as answers of the signed-in person.

PydanticAI's adapters (`VercelAIAdapter`, `AGUIAdapter`) read the answers from what the browser sent; here they are
checked and stored, because only an approval in the store counts. Whether the call in the browser's history is the one
that was asked about, the guard decides when the call is made.

A browser names the call by its id alone, and some providers use an id again. An old yes, which a browser still has in
its history or sends once more, must not answer the new question. So a yes counts only if one call with this id waits in
the history, and if the history has as many calls with this id as the session has questions about it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from pydantic_ai.messages import BaseToolReturnPart, ModelMessage, ToolCallPart
from pydantic_ai.tools import DeferredToolResults, ToolApproved, ToolDenied

from sayso.adapters.kit import WebUser
from sayso.core.canonical import freeze, is_same_value
from sayso.core.decide import refusal
from sayso.core.model import ApprovalDecision, ApprovalRequest, Denied
from sayso.engine.controller import ApprovalController
from sayso.errors import ConfigurationError

_CHANNEL = "web"
_ABANDONED = "the conversation went on without an answer"
_NOTHING_ASKED = "nobody was asked about this call in this session, so an approval of it cannot count"
_AMBIGUOUS = "its call id was used before in this conversation, so it is not certain which call the approval means"
_ANSWERED_OTHERWISE = "it was answered before, with other arguments than these"


async def accept_answers(
    results: DeferredToolResults | None,
    messages: Sequence[ModelMessage],
    *,
    controller: ApprovalController,
    session: str,
    who: str,
    roles: Collection[str] = (),
) -> DeferredToolResults | None:
    """Give the answers of a signed-in person to the controller, and return the results to resume the run with.

    A no stays a no. A yes becomes a plain `True`, which the guard checks against the store, or a denial where it
    cannot count. Questions of calls in the history that have neither a result nor an answer are withdrawn.

    Args:
        results: what the browser answered: `adapter.deferred_tool_results`.
        messages: the history that the browser sent: `adapter.messages`.
        controller: that of the agent's `Approvals`.
        session: the session of the run, as `session_of` of the agent's `Approvals` returns it.
        who: the person, whom the host has authenticated.
        roles: their roles, which the host has verified.

    Raises:
        NotEntitled: the person may not give this answer; the question stays open.
        ApprovalBlocked: the edited arguments are blocked; the question stays open.
        ValueError: no approval can be bound to the edited arguments; the question stays open.
    """
    if not session or not who:
        raise ConfigurationError("an answer needs a session and a person: pass session=… and who=…")
    calls = _count_calls(messages)
    answers = _Answers(controller, session, WebUser(who, roles), calls)
    approvals = {} if results is None else results.approvals
    accepted = {call_id: await answers.answer(call_id, answer) for call_id, answer in approvals.items()}
    for call_id in +calls.waiting:
        if results is None or call_id not in {*accepted, *results.calls}:
            await answers.abandon(call_id)
    return None if results is None else replace(results, approvals=accepted)


class _Calls(NamedTuple):
    """How many calls of a history have each id, and how many of these wait for a result."""

    made: Counter[str]
    waiting: Counter[str]
    tools: dict[str, str]  # the tool of the newest call with each id


def _count_calls(messages: Sequence[ModelMessage]) -> _Calls:
    calls = _Calls(Counter(), Counter(), {})
    for part in (part for message in messages for part in message.parts):
        if isinstance(part, ToolCallPart):
            calls.made[part.tool_call_id] += 1
            calls.waiting[part.tool_call_id] += 1
            calls.tools[part.tool_call_id] = part.tool_name
        elif isinstance(part, BaseToolReturnPart):
            calls.waiting[part.tool_call_id] -= 1
    return calls


@dataclass(frozen=True)
class _Answers:
    """The answers of a person to the questions of one session."""

    controller: ApprovalController
    session: str
    person: WebUser
    calls: _Calls

    async def answer(self, call_id: str, answer: bool | ToolApproved | ToolDenied) -> Any:  # noqa: FBT001, ANN401 - PydanticAI's own types
        """Store the answer to the question about a call, and return the result for that call."""
        # An agent inside a tool may ask about another call under the same id, which the person was not shown.
        found = await self.controller.store.with_call_id(self.session, call_id)
        asked = [each for each in found if each.tool_name == self.calls.tools.get(call_id)]
        still_open = [each for each in asked if each.status == "open"]
        if answer is True or isinstance(answer, ToolApproved):
            edited = None if answer is True else answer.override_args
            return await self._approve(call_id, asked, edited)
        note = answer.message if isinstance(answer, ToolDenied) and answer != ToolDenied() else None
        for each in asked:
            await self.controller.adapter.void(each)
        denied = [await self._give(each, ApprovalDecision(approved=False, note=note)) for each in still_open]
        return ToolDenied(refusal(denied[0]).message) if denied and denied[0].status == "denied" else answer

    async def _approve(
        self, call_id: str, asked: list[ApprovalRequest], edited: dict[str, Any] | None
    ) -> bool | ToolDenied:
        if not asked:
            return _refused(_NOTHING_ASKED)
        request = asked[0]
        if request.status == "open":
            if self.calls.waiting[call_id] != 1 or self.calls.made[call_id] < len(asked):
                return _refused(_AMBIGUOUS)
            request = await self._give(request, ApprovalDecision(approved=True, override_args=edited))
        taken = None if request.decision is None else request.decision.override_args
        if edited is not None and request.status == "approved" and not is_same_value(taken, freeze(edited)):
            return _refused(_ANSWERED_OTHERWISE)
        return True  # the guard knows whether it was a yes, and to which arguments

    async def _give(self, request: ApprovalRequest, decision: ApprovalDecision) -> ApprovalRequest:
        who, roles = self.person
        return await self.controller.answer(request, decision, who=who, channel=_CHANNEL, roles=roles)

    async def abandon(self, call_id: str) -> None:
        """Withdraw the questions about a call that the conversation has left behind, and use up their approvals."""
        for each in await self.controller.store.with_call_id(self.session, call_id):
            await self.controller.adapter.void(each)
            if each.status == "open":
                await self.controller.withdraw(each.id, _ABANDONED)


def _refused(reason: str) -> ToolDenied:
    return ToolDenied(Denied(cause="forged", reason=reason).message)
