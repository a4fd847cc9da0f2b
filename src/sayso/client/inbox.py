"""Inbox of approvers: the open requests and the answers to them, in a store or at a hub."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Protocol

import msgspec

from sayso.core.approvers import Seen, same_person
from sayso.core.canonical import thaw
from sayso.core.model import ApprovalDecision, ApprovalRequest, AuditEntry, Remembered
from sayso.core.ports import Store
from sayso.engine.clock import clock_of
from sayso.engine.controller import ApprovalController
from sayso.engine.lifecycle import is_requester_text, not_entitled_text
from sayso.errors import ApprovalBlocked, NotEntitled, StillOpen


class AnswerResult(msgspec.Struct, frozen=True, kw_only=True):
    """Result of an answer: whether it was accepted, the decisions remembered, and the other requests it closed."""

    request: ApprovalRequest
    accepted: bool
    remembered: list[Remembered] = []
    also_answered: list[str] = []


class Barrier(msgspec.Struct, frozen=True, kw_only=True):
    """Reason why a yes of this person would not count; `also_no`, why they can give no answer at all."""

    reason: str
    also_no: bool = False


def find_barrier(request: ApprovalRequest, who: str, roles: Collection[str] | None, now: float) -> Barrier | None:
    """Return why an answer of this person would not count now; `roles` are None where nobody has verified them."""
    if reason := is_requester_text(request, who):
        return Barrier(reason=reason, also_no=True)
    if who and any(vote.approved and same_person(vote.who, who) for vote in request.votes):
        return Barrier(reason="you have said yes; somebody else has to say yes as well")
    reason = not_entitled_text(request, who, roles, now)
    return None if reason is None else Barrier(reason=reason)


class Inbox(Protocol):
    """Protocol of an inbox. Every failure is a `StoreError`, in one sentence."""

    async def pending(self) -> list[ApprovalRequest]:
        """Return the open requests, oldest first; overdue ones are closed."""
        ...

    async def recent(self, limit: int = 100, part: str = "") -> list[ApprovalRequest]:
        """Return the newest requests, open or not, newest first; `part` filters by prefix or suffix of the id."""
        ...

    async def answer(self, request: ApprovalRequest, decision: ApprovalDecision) -> AnswerResult:
        """Answer a request.

        Raises:
            UnknownRequest: the request was deleted.
            StillOpen: the answer was refused, with the reason; arguments that violate the schema are not even sent.
        """
        ...

    async def barrier(self, request: ApprovalRequest, who: str) -> Barrier | None:
        """Return why an answer of this person would not count now; a hub knows the person by the token."""
        ...

    async def mark_seen(self, request_id: str, seen: Seen) -> ApprovalRequest:
        """Mark a request as viewed (presence), and return its current state."""
        ...

    async def changes(self, after: int | None = None) -> tuple[int, list[ApprovalRequest]]:
        """Return the changes after a point, and the point they reach; see `Store.changes`."""
        ...

    async def changed(self, after: int) -> None:
        """Wait for a change after that point."""
        ...

    async def aclose(self) -> None:
        """Close the store or the connections."""
        ...


async def check_edit(request: ApprovalRequest, decision: ApprovalDecision) -> None:
    """Validate edited arguments by the JSON Schema of the request, before an answer is sent.

    Raises:
        StillOpen: the arguments violate the schema; the message gives the reason.
    """
    if decision.override_args is None or not request.parameters:
        return
    from sayso.channels.edit_schema import schema_violation  # noqa: PLC0415 - slow to load, and only an edit needs it

    problem = await asyncio.to_thread(schema_violation, thaw(decision.override_args), request.parameters)
    if problem is not None:
        raise StillOpen(f"these arguments do not fit the tool: {problem}")


class StoreInbox:
    """Inbox over a local store."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._steps: list[AuditEntry] = []
        self._answering = asyncio.Lock()  # `_steps` belongs to one answer at a time
        self._controller = ApprovalController(mode="defer", store=store, hooks=[self._steps.append])

    async def pending(self) -> list[ApprovalRequest]:
        """Return the open requests, oldest first."""
        return await self._controller.pending()

    async def recent(self, limit: int = 100, part: str = "") -> list[ApprovalRequest]:
        """Return the newest requests, newest first."""
        return await self.store.recent(limit, part)

    async def answer(self, request: ApprovalRequest, decision: ApprovalDecision) -> AnswerResult:
        """Answer a request; see `Inbox`."""
        if request.status != "open":
            return AnswerResult(request=request, accepted=False)
        if decision.remember != "none" and not request.scopes:
            raise StillOpen("this answer cannot be remembered: the rule that asks does not allow it")
        await check_edit(request, decision)
        async with self._answering:
            return await self._answer(request, decision)

    async def _answer(self, request: ApprovalRequest, decision: ApprovalDecision) -> AnswerResult:
        self._steps.clear()
        try:
            closed = await self._controller.answer(request.id, decision)
        except ApprovalBlocked as error:
            raise StillOpen(error.reason) from None
        except (NotEntitled, ValueError) as error:
            raise StillOpen(str(error)) from None
        moved = [each.request.id for each in self._steps if each.request is not None and each.step != "expired"]
        return AnswerResult(
            request=closed,
            accepted=closed.id in moved,
            remembered=[each for each in self._controller.memory.list() if each.request_id == closed.id],
            also_answered=[each for each in moved if each != closed.id],
        )

    async def barrier(self, request: ApprovalRequest, who: str) -> Barrier | None:
        """Return why an answer of this person would not count now; a store verifies no roles."""
        return find_barrier(request, who, None, clock_of(self.store).now())

    async def mark_seen(self, request_id: str, seen: Seen) -> ApprovalRequest:
        """Mark a request as viewed."""
        return await self.store.mark_seen(request_id, seen)

    async def changes(self, after: int | None = None) -> tuple[int, list[ApprovalRequest]]:
        """Return the changes after a point."""
        return await self.store.changes(after)

    async def changed(self, after: int) -> None:
        """Wait for a change after that point."""
        await self.store.changed(after)

    async def aclose(self) -> None:
        """Close the store."""
        await self.store.aclose()
