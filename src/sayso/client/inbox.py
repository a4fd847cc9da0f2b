"""Inbox of approvers: the open requests and the answers to them, in a store or at a hub."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Protocol

import msgspec

from sayso.core.approvers import Seen, same_person
from sayso.core.canonical import thaw
from sayso.core.filters import RequestFilter, candidates
from sayso.core.model import ApprovalDecision, ApprovalRequest, AuditEntry, Remembered
from sayso.core.ports import Store
from sayso.engine.clock import clock_of
from sayso.engine.controller import ApprovalController
from sayso.engine.lifecycle import is_requester_text, not_entitled_text
from sayso.errors import ApprovalBlocked, NotEntitled, StillOpen

WAITING = RequestFilter(status="pending")
_PAGE = 500
_MOST_PER_PAGE = 10_000  # requests read for one page, as at a hub
_MOST_SEARCHED = 1_000_000


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


class SearchPage(msgspec.Struct, frozen=True, kw_only=True):
    """Page of a search: the requests found, the cursor for the next page, and how many requests were read for it."""

    found: list[ApprovalRequest]
    following: str | None
    searched: int


class Inbox(Protocol):
    """Protocol of an inbox. Every failure is a `StoreError`, in one sentence."""

    async def pending(self, wanted: RequestFilter = WAITING) -> list[ApprovalRequest]:
        """Return the open requests that match, oldest first; overdue ones are closed."""
        ...

    async def search(self, wanted: RequestFilter, limit: int = 100, before: str = "") -> SearchPage:
        """Return a page of the requests that match, open or not, newest first; see `search_history`."""
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

    async def approver_name(self, who: str) -> str:
        """Return the name under which this person answers and is seen; a hub knows the person by the token."""
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


async def search_history(
    inbox: Inbox, wanted: RequestFilter, limit: int, on_progress: Callable[[int], None] = lambda _: None
) -> SearchPage:
    """Return the newest requests that match, however old, newest first; a million requests are read at most.

    A search that takes long calls `on_progress` with the number of requests read so far. If `following` is set, there
    may be more.
    """
    found, searched = list[ApprovalRequest](), 0
    following: str | None = ""
    while following is not None and len(found) < limit and searched < _MOST_SEARCHED:
        if searched:
            on_progress(searched)
        page = await inbox.search(wanted, min(limit - len(found), _PAGE), following)
        found, following, searched = found + page.found, page.following, searched + page.searched
    return SearchPage(found=found, following=following, searched=searched)


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
        self._clock = clock_of(store, None)
        self._steps: list[AuditEntry] = []
        self._answering = asyncio.Lock()  # `_steps` belongs to one answer at a time
        self._controller = ApprovalController(mode="defer", store=store, hooks=[self._steps.append])

    async def pending(self, wanted: RequestFilter = WAITING) -> list[ApprovalRequest]:
        """Return the open requests that match, oldest first."""
        now = self._clock.now()
        return [each for each in await self._controller.pending() if wanted.matches(each, now)]

    async def search(self, wanted: RequestFilter, limit: int = 100, before: str = "") -> SearchPage:
        """Return a page of the requests that match, newest first."""
        found, searched, now = list[ApprovalRequest](), 0, self._clock.now()
        async for batch in candidates(self.store, wanted, before):
            for each in batch:
                searched += 1
                if wanted.matches(each, now):
                    found.append(each)
                if len(found) >= limit:
                    return SearchPage(found=found, following=each.id, searched=searched)
            if searched >= _MOST_PER_PAGE:
                return SearchPage(found=found, following=batch[-1].id, searched=searched)
        return SearchPage(found=found, following=None, searched=searched)

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

    async def approver_name(self, who: str) -> str:
        """Return the name that the person gave; a store verifies none."""
        return who

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
