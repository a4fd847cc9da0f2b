"""Inbox of a hub, over REST and server-sent events, with an approver's token."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from http import HTTPStatus

from sayso.client.hub_http import HubClient, HubReply, path_of
from sayso.client.inbox import WAITING, AnswerResult, Barrier, SearchPage, check_edit, find_barrier
from sayso.core import json_codec
from sayso.core.approvers import Seen
from sayso.core.canonical import thaw
from sayso.core.filters import RequestFilter
from sayso.core.model import ApprovalDecision, ApprovalRequest
from sayso.errors import StillOpen, StoreError

_PAGE = 500
_LARGEST_PAGE = 1000  # which a hub sends


class HubInbox:
    """Client of the inbox of a hub; the token identifies the approver."""

    def __init__(self, url: str, token: str) -> None:
        self._hub = HubClient(url, token)
        self._me: HubReply | None = None  # fetched once: the name and roles of a token do not change
        self._received: list[tuple[int, ApprovalRequest]] = []
        self._partial: list[ApprovalRequest] = []  # of a change whose last event is still to come
        self._point: int | None = None
        self._updated = asyncio.Event()
        self._listener: asyncio.Task[None] | None = None

    async def pending(self, wanted: RequestFilter = WAITING) -> list[ApprovalRequest]:
        """Return the open requests that match, oldest first."""
        found: list[ApprovalRequest] = []
        after: str | None = ""
        while after is not None:
            page = await self._list(wanted, status="pending", limit=_PAGE, after=after)
            found += page.found
            after = page.following
        return found

    async def search(self, wanted: RequestFilter, limit: int = 100, before: str = "") -> SearchPage:
        """Return a page of the requests that match, newest first."""
        return await self._list(wanted, status=wanted.status, limit=min(limit, _LARGEST_PAGE), before=before)

    async def _list(self, wanted: RequestFilter, **where: object) -> SearchPage:
        query = {
            "tool": wanted.tool,
            "agent": wanted.agent,
            "q": wanted.text,
            "who": wanted.who,
            "id": wanted.id_part,
            "since": wanted.since,
            "until": wanted.until,
            **where,
        }
        page = await self._hub.get(
            "/approvals", **{name: each for name, each in query.items() if each not in {"", None}}
        )
        found = [json_codec.request_from_dict(each) for each in page["items"]]
        return SearchPage(found=found, following=page["next"], searched=page["searched"])

    async def answer(self, request: ApprovalRequest, decision: ApprovalDecision) -> AnswerResult:
        """Answer a request; see `Inbox`."""
        if request.status != "open":
            return AnswerResult(request=request, accepted=False)
        await check_edit(request, decision)
        terms = {"scope": decision.scope, "uses": decision.uses, "until": decision.until}
        body = {
            "approved": decision.approved,
            "note": decision.note,
            "remember": decision.remember,
            **{name: value for name, value in terms.items() if value is not None},
            **({} if decision.override_args is None else {"args": thaw(decision.override_args)}),
        }
        status, facts = await self._hub.send("POST", path_of("approvals", request.id), body)
        if status == HTTPStatus.CONFLICT:
            return AnswerResult(request=json_codec.request_from_dict(facts["request"]), accepted=False)
        if status != HTTPStatus.OK:
            raise StillOpen(str(facts.get("detail", f"the hub says {status}")))
        remembered = [json_codec.remembered_from_dict(each) for each in facts["remembered"]]
        return AnswerResult(
            request=json_codec.request_from_dict(facts),
            accepted=True,
            remembered=remembered,
            also_answered=facts.get("also_answered", []),  # an older hub does not say it
        )

    async def barrier(self, request: ApprovalRequest, who: str) -> Barrier | None:
        """Return why an answer would not count now, for the person and the roles of the token."""
        del who
        me = await self._get_me()
        return find_barrier(request, me["name"], me["roles"], time.time())

    async def approver_name(self, who: str) -> str:
        """Return the name of the token."""
        del who
        return (await self._get_me())["name"]

    async def _get_me(self) -> HubReply:
        if self._me is None:
            self._me = await self._hub.get("/me")
        return self._me

    async def mark_seen(self, request_id: str, seen: Seen) -> ApprovalRequest:
        """Mark a request as viewed; the hub adds name and time."""
        del seen
        await self._hub.send("POST", path_of("approvals", request_id, "seen"), {})
        return json_codec.request_from_dict(await self._hub.get(path_of("approvals", request_id)))

    async def changes(self, after: int | None = None) -> tuple[int, list[ApprovalRequest]]:
        """Return the changes after a point, of those received since the subscription began."""
        while self._point is None:
            await self._wait_for_update()
        if after is None:
            return self._point, []
        self._received = [each for each in self._received if each[0] > after]
        found = {request.id: request for _, request in self._received}
        return self._point, list(found.values())

    async def changed(self, after: int) -> None:
        """Wait for a change after that point."""
        while self._point is None or self._point <= after:
            await self._wait_for_update()

    async def aclose(self) -> None:
        """Cancel the subscription and close all connections."""
        if self._listener is not None:
            self._listener.cancel()
            with contextlib.suppress(asyncio.CancelledError, StoreError):
                await self._listener
        await self._hub.aclose()

    async def _wait_for_update(self) -> None:
        """Wait for an event, or raise the error that ended the subscription."""
        listening = self._listener or asyncio.ensure_future(self._listen())
        self._listener, update = listening, asyncio.ensure_future(self._updated.wait())
        try:
            await asyncio.wait({listening, update}, return_when=asyncio.FIRST_COMPLETED)
            if listening.done():
                listening.result()
                raise StoreError(f"the hub {self._hub.address} tells of nothing any more; try again")
            self._updated.clear()
        finally:
            update.cancel()

    async def _listen(self) -> None:
        try:
            async for event in self._hub.events("/events"):
                if event.event == "hello":
                    self._point = json.loads(event.data)["point"]
                elif event.event == "request":
                    self._receive(int(event.id), json_codec.request_from_dict(json.loads(event.data)))
                self._updated.set()
        except (ValueError, KeyError, TypeError) as error:
            raise StoreError(
                f"the hub {self._hub.address} tells what cannot be read; is it of this version?"
            ) from error

    def _receive(self, point: int, request: ApprovalRequest) -> None:
        """Buffer an event; of a batch, only the last event carries the new point."""
        self._partial.append(request)
        if self._point is None or point > self._point:
            self._received += [(point, each) for each in self._partial]
            self._partial = []
            self._point = point
