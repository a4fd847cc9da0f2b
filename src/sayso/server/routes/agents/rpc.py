"""What remote agents do: ask, wait for the answer, use it up, and tell what came of it.

`RemoteStore` speaks the packed form, in which arguments keep their exact types: one operation of a store is one POST.
Other languages speak the plain one; see `agent_plain`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import msgspec
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from sayso.core import agent_protocol as words
from sayso.core.approvers import Seen
from sayso.core.model import ApprovalDecision
from sayso.core.msgpack_codec import pack_request, unpack_request
from sayso.errors import CanonicalError, StoreError
from sayso.server import identity
from sayso.server.http.fast_path import Way
from sayso.server.http.problems import Problem
from sayso.server.middleware import LARGEST_BODY
from sayso.server.routes.agents import rest
from sayso.server.routes.agents.operations import AgentWork, explained

if TYPE_CHECKING:
    from sayso.core.model import ApprovalRequest

routes = APIRouter()
routes.include_router(rest.routes)

_PAGE = 1000
_LARGEST_OF = {"park": 16_000_000, "append": 8_000_000}  # the history of a run; many lines of the audit


class Operations(AgentWork):
    """Every operation of a store, as far as it is open to an agent; what only people do is not here."""

    async def open(self, message: words.Open) -> bytes:
        """See `Store.open`."""
        try:
            request = unpack_request(message.request)
        except (StoreError, CanonicalError) as error:
            raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, f"the request is refused: {error}") from error
        return self._packed(await self.ask(request))

    async def find(self, message: words.Find) -> bytes | None:
        """See `Store.find`."""
        found = await self.store.find(self.space.prefix + message.session, message.key)
        return self._packed(found) if found and self.space.owns(found) else None

    async def get(self, message: words.Get) -> list[bytes]:
        """Return those that are there."""
        found = [await self.store.get(each) for each in message.ids]
        return self._all(each for each in found if each is not None)

    async def pending(self, message: words.Pending) -> list[bytes]:
        """Read page after page of all that is open, until enough of it is the agent's own."""
        mine: list[bytes] = []
        after = message.after
        while len(mine) < message.limit and (found := await self.store.pending(_PAGE, after)):
            mine += self._all(found)
            after = found[-1].id
        return mine[: message.limit]

    async def recent(self, message: words.Recent) -> list[bytes]:
        """Read page after page of all requests, until enough of them are the agent's own."""
        mine: list[bytes] = []
        before = message.before
        while len(mine) < message.limit and (found := await self.store.recent(_PAGE, message.part, before)):
            mine += self._all(found)
            before = found[-1].id
        return mine[: message.limit]

    async def changes(self, message: words.Changes) -> words.Told:
        """Answer at once or, if the agent waits, when there is something to tell."""
        if not message.wait:
            return await self.hub.desk.follow(self.space, message)
        with self.hub.connections.admitted(self.token) as connection:
            return await self.hub.desk.follow(self.space, message, self.gone(connection))

    async def see(self, message: words.See) -> bytes:
        """Note it, together with the fact that it is the agent who says so."""
        await self.own(message.id)
        seen = Seen(who=message.who, channel=f"{message.channel} at {self.space.agent}", at=message.at)
        return self._packed(await self.store.see(message.id, seen))

    async def close(self, message: words.Close) -> bytes:
        """End a request without an answer: the message has no word for any other end."""
        decision = None
        if message.status == "withdrawn" and message.decided_at is not None:
            decision = ApprovalDecision(approved=False, note=message.note, decided_at=message.decided_at)
        await self.own(message.id)
        return self._packed(await self.store.close(message.id, message.status, decision, now=message.now))

    async def claim(self, message: words.Claim) -> bool:
        """See `Store.claim`."""
        return await self.use(message.id, message.now, message.attempt)

    async def spend(self, message: words.Spend) -> bool:
        """See `Store.spend`."""
        # One that was spent to the end is not known any more, but who tries again must still hear that it was theirs.
        known = self.hub.desk.may_spend(self.space, message.id)
        attempt = self.attempt("spend", message.id, message.attempt)
        return await self.store.spend(message.id if known else "", attempt=attempt)

    async def park(self, message: words.Park) -> None:
        """See `Store.park`."""
        await self.store.park(self.space.prefix + message.name, message.state)

    async def parked(self, message: words.Parked) -> bytes | None:
        """See `Store.parked`."""
        return await self.store.parked(self.space.prefix + message.name)

    async def unpark(self, message: words.Unpark) -> bytes | None:
        """See `Store.unpark`."""
        attempt = self.attempt("unpark", message.name, message.attempt)
        return await self.store.unpark(self.space.prefix + message.name, attempt=attempt)

    async def append(self, message: words.Append) -> None:
        """See `Store.append`."""
        news: list[words.News] = []
        for each in message.news:
            if isinstance(each, bytes):
                news.append(await self.line(each))
            else:
                await self.not_of_others(each[0])
                news.append(each)
        await self.store.append(news, attempt=self.attempt("append", "", message.attempt))

    def _packed(self, request: ApprovalRequest) -> bytes:
        return pack_request(self.space.outward(request))

    def _all(self, found: Iterable[ApprovalRequest]) -> list[bytes]:
        return [self._packed(each) for each in found if self.space.owns(each)]


_Operation = tuple[type[words.Message], Callable[[Operations, Any], Awaitable[object]]]
_OPERATIONS: dict[str, _Operation] = {
    "open": (words.Open, Operations.open),
    "find": (words.Find, Operations.find),
    "get": (words.Get, Operations.get),
    "pending": (words.Pending, Operations.pending),
    "recent": (words.Recent, Operations.recent),
    "changes": (words.Changes, Operations.changes),
    "see": (words.See, Operations.see),
    "close": (words.Close, Operations.close),
    "claim": (words.Claim, Operations.claim),
    "spend": (words.Spend, Operations.spend),
    "park": (words.Park, Operations.park),
    "parked": (words.Parked, Operations.parked),
    "unpark": (words.Unpark, Operations.unpark),
    "append": (words.Append, Operations.append),
}


async def operate(request: Request, operation: str) -> Response:
    """Do what `sayso.stores.remote.RemoteStore` asks for; the form is its own, and changes with its version."""
    agent = await identity.agent(request)
    _check_version(request.headers.get("content-type", ""))
    if operation not in _OPERATIONS:
        raise Problem(HTTPStatus.NOT_FOUND, f"agents cannot {operation[:50]!r} here")
    kind, work = _OPERATIONS[operation]
    doing = Operations(request, agent)
    body = await doing.body(_LARGEST_OF.get(operation, LARGEST_BODY))
    try:
        message = msgspec.msgpack.decode(body, type=kind)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, f"this is no message to {operation!r}: {error}") from error
    with explained():
        answer = await work(doing, message)
    return Response(msgspec.msgpack.encode(answer), media_type=words.MEDIA)


# Nobody but `RemoteStore` of the same version speaks it, so no document tells of it, and FastAPI can be left out.
packed = Way(folder="/agent", endpoint=operate)


def _check_version(media: str) -> None:
    if media == words.MEDIA:
        return
    if media.startswith(words.FAMILY):
        sentence = f"this hub speaks {words.MEDIA}, not {media[:100]}; bring both to the same version of sayso"
        raise Problem(HTTPStatus.UPGRADE_REQUIRED, sentence)
    raise Problem(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"this takes {words.MEDIA}; other languages use POST /requests")
