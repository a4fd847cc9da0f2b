"""RPC for `RemoteStore`: one store operation is one POST with a msgpack body.

Msgpack keeps the exact types of arguments. Agents in other languages use JSON; see `rest`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from sayso.core import agent_protocol as protocol
from sayso.core.approvers import Seen
from sayso.core.model import ApprovalDecision, ParkedRun
from sayso.core.msgpack_codec import pack_request, unpack_request
from sayso.errors import CanonicalError, StoreError
from sayso.server import identity
from sayso.server.http import problems
from sayso.server.http.problems import HttpProblem
from sayso.server.middleware import LARGEST_BODY
from sayso.server.routes.agents.operations import AgentOperations, map_errors

if TYPE_CHECKING:
    from sayso.core.model import ApprovalRequest
    from sayso.core.ports import QueuedWrite

_PAGE = 1000
_LARGEST_OF = {"park": 16_000_000, "append": 8_000_000}  # a parked run with its history; a batch of audit lines


class RpcOperations(AgentOperations):
    """Store operations that an agent may call; it cannot answer."""

    async def open(self, message: protocol.Open) -> bytes:
        """See `Store.open`."""
        try:
            request = unpack_request(message.request)
        except (StoreError, CanonicalError) as error:
            raise HttpProblem(HTTPStatus.UNPROCESSABLE_ENTITY, f"the request is refused: {error}") from error
        return self._packed(await self.open_request(request))

    async def find(self, message: protocol.Find) -> bytes | None:
        """See `Store.find`."""
        found = await self.store.find(self.namespace.prefix + message.session, message.key)
        return self._packed(found) if found and self.namespace.owns(found) else None

    async def with_call_id(self, message: protocol.FindCallId) -> list[bytes]:
        """Return the agent's own requests for calls with this id; see `Store.with_call_id`."""
        session = self.namespace.prefix + message.session
        return self._pack_own(await self.store.with_call_id(session, message.call_id, message.limit))

    async def get(self, message: protocol.Get) -> list[bytes]:
        """Return the agent's own requests with these ids."""
        found = [await self.store.get(each) for each in message.ids]
        return self._pack_own(each for each in found if each is not None)

    async def pending(self, message: protocol.GetPending) -> list[bytes]:
        """Return the agent's own open requests, filtered from pages of all open ones."""
        own: list[bytes] = []
        after = message.after
        while len(own) < message.limit and (found := await self.store.pending(_PAGE, after)):
            own += self._pack_own(found)
            after = found[-1].id
        return own[: message.limit]

    async def recent(self, message: protocol.GetRecent) -> list[bytes]:
        """Return the agent's own requests, filtered from pages of all, newest first."""
        own: list[bytes] = []
        before = message.before
        while len(own) < message.limit and (found := await self.store.recent(_PAGE, message.part, before)):
            own += self._pack_own(found)
            before = found[-1].id
        return own[: message.limit]

    async def changes(self, message: protocol.GetChanges) -> protocol.ChangesReply:
        """Return changes at once or, with `wait`, as a long poll."""
        if not message.wait:
            return await self.hub.agent_feed.wait_for_changes(self.namespace, message)
        with self.hub.connections.admit(self.token) as connection:
            return await self.hub.agent_feed.wait_for_changes(self.namespace, message, self.wait_until_gone(connection))

    async def mark_seen(self, message: protocol.MarkSeen) -> bytes:
        """Mark a request as viewed; the channel records that the agent reported it."""
        await self.own_request(message.id)
        channel = f"{message.channel} at {self.namespace.agent}"
        seen = Seen(who=message.who, channel=channel, at=self.hub.clock.now())
        return self._packed(await self.store.mark_seen(message.id, seen))

    async def close(self, message: protocol.Close) -> bytes:
        """Close a request without an answer; the message type allows no other status."""
        decision, now = None, self.hub.clock.now()
        if message.status == "withdrawn" and message.decided_at is not None:
            decision = ApprovalDecision(
                approved=False, note=message.note, decided_at=now, unattended=message.unattended
            )
        await self.own_request(message.id)
        return self._packed(await self.store.close(message.id, message.status, decision, now=now))

    async def claim(self, message: protocol.Claim) -> bool:
        """See `Store.claim`."""
        return await self.claim_request(message.id, message.attempt)

    async def spend(self, message: protocol.Spend) -> bool:
        """See `Store.spend`."""
        # A used-up decision is gone, but a retry with the same attempt must still get the same result.
        known = self.hub.agent_feed.may_spend(self.namespace, message.id)
        attempt = self.attempt_key("spend", message.id, message.attempt)
        return await self.store.spend(message.id if known else "", attempt=attempt)

    async def park(self, message: protocol.Park) -> None:
        """See `Store.park`."""
        run = None if message.run is None else self.namespace.run_to_store(message.run, self.hub.clock.now())
        if run is not None and run.id != message.name:
            raise HttpProblem(HTTPStatus.UNPROCESSABLE_ENTITY, "a run is parked under its own id, and no other name")
        name = self.namespace.state_name(message.name)
        await self._check_parked_limit(name, len(message.state))
        await self.store.park(name, message.state, run)

    async def _check_parked_limit(self, name: str, size: int) -> None:
        """Limit what an agent has parked: a loop or a stolen token must not fill the store."""
        number, used = await self.store.parked_size(self.namespace.prefix)
        most, room = self.hub.most_parked, self.hub.most_parked_bytes
        if number < most and used + size <= room:
            return
        before = await self.store.parked(name)  # a run that goes on may be parked again
        if before is None and number >= most:
            limit = f"has as many parked runs as one agent may have ({most})"
        elif used - len(before or b"") + size > room:
            limit = f"has parked as much as one agent may ({room // 1_000_000} MB)"
        else:
            return
        sentence = f"{self.namespace.agent} {limit}; resume some, or drop them with `sayso runs drop`"
        raise HttpProblem(HTTPStatus.FORBIDDEN, sentence)

    async def parked(self, message: protocol.GetParked) -> bytes | None:
        """See `Store.parked`."""
        return await self.store.parked(self.namespace.state_name(message.name))

    async def unpark(self, message: protocol.Unpark) -> bytes | None:
        """See `Store.unpark`."""
        attempt = self.attempt_key("unpark", message.name, message.attempt)
        return await self.store.unpark(self.namespace.state_name(message.name), attempt=attempt)

    async def runs(self, _: protocol.GetRuns) -> list[ParkedRun]:
        """Return the agent's own parked runs."""
        return [self.namespace.run_to_agent(each) for each in await self.store.runs() if self.namespace.parked(each)]

    async def append(self, message: protocol.Append) -> None:
        """See `Store.append`."""
        news: list[QueuedWrite] = []
        for each in message.news:
            if isinstance(each, bytes):
                news.append(await self.check_audit_line(each))
            else:
                await self.own_request_or_none(each[0])
                news.append(each)
        await self.store.append(news, attempt=self.attempt_key("append", "", message.attempt))

    def _packed(self, request: ApprovalRequest) -> bytes:
        return pack_request(self.namespace.to_agent(request))

    def _pack_own(self, found: Iterable[ApprovalRequest]) -> list[bytes]:
        return [self._packed(each) for each in found if self.namespace.owns(each)]


_Operation = tuple[type[protocol.AgentMessage], Callable[[RpcOperations, Any], Awaitable[object]]]
_OPERATIONS: dict[str, _Operation] = {
    "open": (protocol.Open, RpcOperations.open),
    "find": (protocol.Find, RpcOperations.find),
    "with_call_id": (protocol.FindCallId, RpcOperations.with_call_id),
    "get": (protocol.Get, RpcOperations.get),
    "pending": (protocol.GetPending, RpcOperations.pending),
    "recent": (protocol.GetRecent, RpcOperations.recent),
    "changes": (protocol.GetChanges, RpcOperations.changes),
    "see": (protocol.MarkSeen, RpcOperations.mark_seen),
    "close": (protocol.Close, RpcOperations.close),
    "claim": (protocol.Claim, RpcOperations.claim),
    "spend": (protocol.Spend, RpcOperations.spend),
    "park": (protocol.Park, RpcOperations.park),
    "parked": (protocol.GetParked, RpcOperations.parked),
    "unpark": (protocol.Unpark, RpcOperations.unpark),
    "runs": (protocol.GetRuns, RpcOperations.runs),
    "append": (protocol.Append, RpcOperations.append),
}


async def _handle_operation(request: Request) -> Response:
    """Endpoint of `sayso.stores.remote.RemoteStore`; the protocol is private, and versioned by its media type."""
    agent = await identity.agent(request)
    operation: str = request.path_params["operation"]
    _check_version(request.headers.get("content-type", ""))
    if operation not in _OPERATIONS:
        raise HttpProblem(HTTPStatus.NOT_FOUND, f"agents cannot {operation[:50]!r} here")
    kind, handle = _OPERATIONS[operation]
    operations = RpcOperations(request, agent)
    body = await operations.read_body(_LARGEST_OF.get(operation, LARGEST_BODY))
    try:
        message = msgspec.msgpack.decode(body, type=kind)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        sentence = f"this is no message to {operation!r}: {problems.in_words(str(error))}"
        raise HttpProblem(HTTPStatus.UNPROCESSABLE_ENTITY, sentence) from error
    with map_errors():
        answer = await handle(operations, message)
    return Response(msgspec.msgpack.encode(answer), media_type=protocol.MEDIA)


# A plain Starlette route, in no OpenAPI document: only `RemoteStore` of the same version uses it.
operation_route = Route("/agent/{operation}", _handle_operation, methods=["POST"])


def _check_version(media: str) -> None:
    if media == protocol.MEDIA:
        return
    if media.startswith(protocol.FAMILY):
        sentence = f"this hub speaks {protocol.MEDIA}, not {media[:100]}; bring both to the same version of sayso"
        raise HttpProblem(HTTPStatus.UPGRADE_REQUIRED, sentence)
    raise HttpProblem(
        HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"this takes {protocol.MEDIA}; other languages use POST /requests"
    )
