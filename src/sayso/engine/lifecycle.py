"""The request lifecycle: a request is closed by an answer, by expiry or by withdrawal.

Tests: tests/engine/test_controller.py
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from sayso.core.approvers import same_person
from sayso.core.decide import also_closes, asks_for, audit_step, close, is_overdue
from sayso.core.model import ApprovalDecision
from sayso.engine.clock import RequestDeadlines
from sayso.errors import ApprovalBlocked, NotEntitled, StoreError, UnknownRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from sayso.core.model import ApprovalRequest, Remembered, Status
    from sayso.core.ports import Clock, Store
    from sayso.engine.journal import Journal
    from sayso.engine.remembered import ApprovalMemory
    from sayso.policy.policy import Policy

_LOG = logging.getLogger("sayso")
_WITHDRAW_SECONDS = 5.0


class Answered(NamedTuple):
    """A request after an answer, and the other requests that its remembered decision has answered too."""

    request: ApprovalRequest
    others: list[ApprovalRequest]


@dataclass(kw_only=True, eq=False, repr=False)
class RequestLifecycle:
    """State transitions of requests, first writer wins; an answer and its remembered decision are one transaction."""

    policy: Policy
    memory: ApprovalMemory
    store: Store
    clock: Clock
    journal: Journal
    _listeners: list[Callable[[str], None]] = field(default_factory=list["Callable[[str], None]"], init=False)
    _withdrawals: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]], init=False)
    deadlines: RequestDeadlines = field(init=False)  # of what was asked here, is waited for, or is open at this hub

    def __post_init__(self) -> None:
        self.deadlines = RequestDeadlines(self.clock)

    def add_listener(self, on_closed: Callable[[str], None]) -> None:
        """Call this with the id of every request that is found closed, here or by another process."""
        self._listeners.append(on_closed)

    async def answer(
        self,
        request: str | ApprovalRequest,
        decision: ApprovalDecision,
        *,
        who: str | None = None,
        channel: str | None = None,
        roles: Collection[str] | None = None,
    ) -> Answered:
        """Close a request with a decision; see `ApprovalController.answer`."""
        request = await self.get(request) if isinstance(request, str) else request
        now = self.clock.now()
        decision = replace(decision, who=who or decision.who, channel=channel or decision.channel, decided_at=now)
        _check_entitled(request, decision, roles, now)
        decision = _with_implied_memory(request, decision)
        await self._check_edited(request, decision)
        remembered = self._to_remember(request, decision, now)
        together = remembered if self.memory.belongs_to(self.store) else ()
        closed = await self._close(request, _status_after(decision), decision, together)
        if remembered and closed.decision == decision:
            self.memory.note_args(request, remembered)
            if not together:
                self.memory.add(*remembered)
            return Answered(closed, await self._answer_covered(request, remembered))
        return Answered(closed, [])

    async def covered_by(
        self, request: ApprovalRequest, decision: ApprovalDecision, *, who: str
    ) -> list[ApprovalRequest]:
        """Return the other open requests that this decision would answer now; see `ApprovalController.covered_by`."""
        now = self.clock.now()
        decision = _with_implied_memory(request, replace(decision, who=who, decided_at=now))
        remembered = self._to_remember(request, decision, now)
        after = close(request, _status_after(decision), decision, now)
        if not remembered or request.status != "open" or after.decision != decision:
            return []  # the yes of somebody else is missing too, and only the last one is remembered
        return await self._covered(request, remembered, now)

    async def withdraw(self, request_id: str, reason: str, *, unattended: bool = False) -> ApprovalRequest:
        """Close a request whose answer is no longer needed, or about which nobody can be asked."""
        note = ApprovalDecision(approved=False, note=reason, decided_at=self.clock.now(), unattended=unattended)
        return await self._close(await self.get(request_id), "withdrawn", note)

    async def withdraw_quietly(self, request_id: str, reason: str) -> None:
        """Withdraw a request, if it exists, while its run is being cancelled; wait only briefly."""
        import anyio  # noqa: PLC0415 - rarely needed, so not loaded with the rest

        # A task of its own continues if the store is slow, or the waiter is cancelled once more.
        withdrawal = asyncio.create_task(self._withdraw_if_there(request_id, reason))
        self._withdrawals.add(withdrawal)
        withdrawal.add_done_callback(self._withdrawals.discard)
        with anyio.move_on_after(_WITHDRAW_SECONDS, shield=True):
            await asyncio.shield(withdrawal)

    async def _withdraw_if_there(self, request_id: str, reason: str) -> None:
        with contextlib.suppress(StoreError, UnknownRequest):
            await self.withdraw(request_id, reason)

    async def expire(self, request: ApprovalRequest) -> ApprovalRequest:
        """Close an overdue request."""
        return await self._close(request, "expired", None)

    def is_over(self, request: ApprovalRequest) -> bool:
        """Whether the time of an open request has passed, by the clock or in monotonic time."""
        past = request.status == "open" and self.deadlines.is_past(request.id)
        return past or is_overdue(request, self.clock.now())

    async def get(self, request_id: str) -> ApprovalRequest:
        """Return a request, or raise `UnknownRequest`."""
        request = await self.store.get(request_id)
        if request is None:
            raise UnknownRequest(f"no request has the id {request_id!r}")
        return request

    async def pending(self) -> list[ApprovalRequest]:
        """Return the open requests, and close the overdue ones."""
        found = await self.store.pending()
        late = [each for each in found if self.is_over(each)]
        for request in late:
            await self.expire(request)
        return [request for request in found if request not in late]

    async def wait(self, request: ApprovalRequest, seconds: float | None) -> ApprovalRequest:
        """Wait until the request is closed or expires, at most this many seconds; return its current state."""
        if request.status != "open":
            return request
        deadline = self.deadlines.begin(request)
        ends = [] if request.expires_at is None else [request.expires_at, self.deadlines.as_time(deadline)]
        if seconds is not None:
            ends.append(self.clock.now() + seconds)
        try:
            async with self.clock.until(min(ends)) if ends else contextlib.nullcontext():
                closed = await self.store.closed(request.id)
        except TimeoutError:
            closed = await self.get(request.id)
            if self.is_over(closed):
                closed = await self.expire(closed)
            if closed.status == "open":
                return closed
        self._notify_closed(request.id)  # perhaps by another process: the channels here can stop
        return await self._without_late_yes(closed)

    async def _without_late_yes(self, closed: ApprovalRequest) -> ApprovalRequest:
        """Return a closed request; use up a yes that came after its deadline, where the store's clock was set back."""
        if closed.status == "approved" and self.deadlines.is_past_unnoticed(closed.id):
            await self.store.claim(closed.id, now=self.clock.now())
            closed = replace(closed, status="expired", decision=None)
        self.deadlines.end(closed.id)
        return closed

    async def _close(
        self,
        request: ApprovalRequest,
        status: Status,
        decision: ApprovalDecision | None,
        remember: Sequence[Remembered] = (),
    ) -> ApprovalRequest:
        if status == "approved" and self.deadlines.is_past(request.id):
            status, decision, remember = "expired", None, ()
        closed = await self.store.close(request.id, status, decision, now=self.clock.now(), remember=remember)
        if closed.status == "open":
            if closed.votes != request.votes:
                self.journal.notify_step(closed, "voted")
            return closed
        self._notify_closed(request.id)
        if request.status == "open" and (closed.decision == decision or closed.status == "expired"):
            self.deadlines.end(request.id)
            self.journal.notify_step(closed, audit_step(closed))
        return closed

    def _notify_closed(self, request_id: str) -> None:
        for listener in self._listeners:
            listener(request_id)

    async def _check_edited(self, request: ApprovalRequest, decision: ApprovalDecision) -> None:
        if decision.override_args is None:
            return
        call = replace(request.call(), args=decision.override_args)
        call.digest()  # what cannot be bound to an approval must not get one by being edited in
        verdict = await self.policy.judge_async(call)
        if verdict.approval == "blocked":
            raise ApprovalBlocked(call.tool, f"the edited arguments cannot run: {verdict.reason}", cause="blocked")
        if not asks_for(request, verdict.approvers):
            raise NotEntitled(
                f"the edited arguments need {verdict.approvers}, whom this request does not ask; refuse it with a note"
            )

    def _to_remember(self, request: ApprovalRequest, decision: ApprovalDecision, now: float) -> list[Remembered]:
        if decision.remember == "none" or decision.unattended:
            return []
        if not request.scopes:
            _LOG.warning("the answer to %s is not remembered: its rule does not allow that", request.id)
            return []
        limits = [limit for limit in (request.remember_max, self.policy.remember_max) if limit is not None]
        return self.memory.build(request, decision, now=now, longest=min(limits, default=None))

    async def _answer_covered(
        self, answered: ApprovalRequest, remembered: Sequence[Remembered]
    ) -> list[ApprovalRequest]:
        """Answer the open requests that the new remembered decision covers; return those that took the answer."""
        given = replace(remembered[0].decision, remember="none", scope=None, uses=None, until=None)
        taken: list[ApprovalRequest] = []
        for other in await self._covered(answered, remembered, self.clock.now()):
            closed = await self._close(other, "approved" if given.approved else "denied", given)
            if given in (closed.decision, *closed.votes):
                taken.append(closed)
        return taken

    async def _covered(
        self, answered: ApprovalRequest, remembered: Sequence[Remembered], now: float
    ) -> list[ApprovalRequest]:
        if remembered[0].uses_left is not None:
            return []
        keys = {each.scope.key for each in remembered}
        waiting = await self.store.pending()
        return [other for other in waiting if also_closes(remembered[0], keys, answered, other, now)]


def _status_after(decision: ApprovalDecision) -> Status:
    """Return the status of a request with this answer; where no person has answered, it is withdrawn."""
    return "approved" if decision.approved else "withdrawn" if decision.unattended else "denied"


def _with_implied_memory(request: ApprovalRequest, decision: ApprovalDecision) -> ApprovalDecision:
    """Return a yes to a `once_per_session` request as one that is remembered for the session."""
    forced = decision.approved and request.approval == "once_per_session" and decision.override_args is None
    if not forced or decision.remember != "none":
        return decision
    # It is remembered for the tool where the rule says so, else for this call: a prefix or a folder is wider than the
    # call that was shown, so only the person can choose it.
    for_tool = any(scope.kind == "tool" for scope in request.scopes)
    return replace(decision, remember="session", scope="tool" if for_tool else None)


def _check_entitled(
    request: ApprovalRequest, decision: ApprovalDecision, roles: Collection[str] | None, now: float
) -> None:
    """Refuse an answer by the requester, and a yes by a person without the role; the hub has checked `roles`."""
    problem = is_requester_text(request, decision.who)
    if problem is None and decision.approved:
        problem = not_entitled_text(request, decision.who, roles, now)
    if problem is not None:
        raise NotEntitled(problem)
    wanted = request.approvers
    if decision.approved and wanted is not None and wanted.count > 1 and decision.override_args is not None:
        raise ValueError("several people have to say yes to the same arguments, so they cannot be edited")


def is_requester_text(request: ApprovalRequest, who: str | None) -> str | None:
    """Return that this person may give no answer at all, as the requester; else None."""
    is_requester = bool(request.asked_by) and same_person(who, request.asked_by)
    return f"whoever asks cannot answer, and {who} asked this" if is_requester else None


def not_entitled_text(
    request: ApprovalRequest, who: str | None, roles: Collection[str] | None, now: float
) -> str | None:
    """Return why a yes of this person does not count now, or None; `roles` are None where nobody has verified them."""
    wanted = request.approvers
    if wanted is None or not wanted.needs_identity:
        return None
    if roles is None or not who:
        return f"its rule asks for {wanted}; answer through a hub, which knows who they are"
    if not wanted.entitles(roles, now - request.asked_at):
        return f"its rule asks for {wanted}, and {who} is not in that role"
    return None
