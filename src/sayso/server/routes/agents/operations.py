"""Operations of agents that RPC and REST share: always on the agent's own requests, and never an answer.

Tests: tests/server/routes/agents/test_rpc.py
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Generator
from http import HTTPStatus
from typing import TYPE_CHECKING

import msgspec
from starlette.requests import ClientDisconnect, Request

from sayso.core import audit
from sayso.core.agent_protocol import LONGEST_LINE, UNKNOWN_REQUEST
from sayso.errors import UnknownRequest
from sayso.server.http.problems import HttpProblem
from sayso.server.identity import Principal, hub_of
from sayso.server.middleware import is_deep
from sayso.server.routes.agents.namespace import LATEST, AgentNamespace

if TYPE_CHECKING:
    from sayso.core.model import ApprovalDecision, ApprovalRequest
    from sayso.server.services.connections import ClientConnection

_STEPS = frozenset({"allowed", "stopped", "returned", "raised"})  # the hub itself records the others
_BODY_SECONDS = 60.0
_ENCODER = msgspec.json.Encoder()


class AgentOperations:
    """Operations of one authenticated agent."""

    def __init__(self, request: Request, agent: Principal) -> None:
        self.hub = hub_of(request)
        self.store = self.hub.store
        self.namespace = AgentNamespace(agent.token.project, agent.token.name)  # from the token, never from the body
        self.token = agent.token
        self._request = request

    async def read_body(self, most: int) -> bytes:
        """Read the body, with limits on size and time."""
        received = bytearray()
        try:
            with self.hub.deadlines.within(_BODY_SECONDS):
                async for chunk in self._request.stream():
                    received += chunk
                    if len(received) > most:
                        sentence = f"this is larger than {most} bytes; ask about less at once"
                        raise HttpProblem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, sentence)
        except TimeoutError as error:
            raise HttpProblem(HTTPStatus.REQUEST_TIMEOUT, "the body came too slowly") from error
        except ClientDisconnect as error:
            raise HttpProblem(HTTPStatus.BAD_REQUEST, "the connection ended in the middle of the request") from error
        return bytes(received)

    async def wait_until_gone(self, connection: ClientConnection) -> None:
        """Wait until the client disconnects or the connection must close; the body must have been read."""
        ends = [asyncio.ensure_future(self._disconnected()), asyncio.ensure_future(connection.must_close.wait())]
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in ends:
                each.cancel()

    async def _disconnected(self) -> None:
        while (await self._request.receive())["type"] != "http.disconnect":
            pass

    async def open_request(self, request: ApprovalRequest) -> ApprovalRequest:
        """Open a request, or return the one with the same session and key (idempotent)."""
        asked = self.namespace.to_store(request, self.hub.clock.now())
        existing = await self.store.get(asked.id)
        if existing is not None and (existing.session, existing.key) != (asked.session, asked.key):
            raise HttpProblem(HTTPStatus.CONFLICT, "the request is refused: its id names another request")
        await self._check_open_limit(asked)
        opened: ApprovalRequest | None = None
        self.hub.open_requests.reserve(asked)
        try:
            opened = await self.store.open(asked)
            return opened
        finally:
            if opened is None or (opened.id, opened.status) != (asked.id, "open"):
                self.hub.open_requests.release(asked)

    async def _check_open_limit(self, asked: ApprovalRequest) -> None:
        """Limit the open requests of an agent: a loop or a stolen token must not bury those of others."""
        most = self.hub.most_open
        if self.hub.open_requests.count_of((asked.project, asked.asked_by)) < most:
            return
        if await self.store.find(asked.session, asked.key) is None:  # an existing request does not count again
            sentence = f"{self.namespace.agent} has as many open questions as one agent may have ({most})"
            raise HttpProblem(HTTPStatus.FORBIDDEN, f"{sentence}; let people answer some, or withdraw them")

    async def own_request(self, request_id: str) -> ApprovalRequest:
        """Return one of the agent's own requests; any other is unknown to it."""
        request = await self.store.get(request_id)
        if request is None or not self.namespace.owns(request):
            raise UnknownRequest(f"no request has the id {request_id!r}")
        return request

    async def claim_request(self, request_id: str, attempt: str) -> bool:
        """Claim an approval, which works once; a retry with the same attempt gets the same result."""
        await self.own_request(request_id)
        key = self.attempt_key("claim", request_id, attempt)
        return await self.store.claim(request_id, now=self.hub.clock.now(), attempt=key)

    def attempt_key(self, operation: str, about: str, attempt: str) -> str:
        """Return the idempotency key of an attempt, in the namespace of the agent, the operation and its object."""
        return f"{self.namespace.prefix}{operation}/{about}/{attempt}" if attempt else ""

    async def check_audit_line(self, sent: bytes) -> bytes:
        """Validate an agent's audit line, and set time, project, agent and decision from the hub's own data."""
        if len(sent) > LONGEST_LINE:
            sentence = f"a line of the audit may have {LONGEST_LINE} bytes, and not more"
            raise HttpProblem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, sentence)
        try:
            line = msgspec.json.decode(sent, type=audit.EntryBody)
        except (msgspec.MsgspecError, RecursionError, ValueError) as error:
            raise HttpProblem(HTTPStatus.UNPROCESSABLE_ENTITY, f"this is no line of the audit: {error}") from error
        if line.step not in _STEPS:
            raise HttpProblem(HTTPStatus.FORBIDDEN, f"an agent cannot tell that something was {line.step!r}")
        if not 0 <= line.at < LATEST:
            raise HttpProblem(HTTPStatus.UNPROCESSABLE_ENTITY, "this is no line of the audit: its time is not a time")
        request = await self.own_request_or_none(line.request_id)
        found = self._decision_behind(line, request)
        line.at, line.agent_at = self.hub.clock.now(), line.at  # retention goes by `at`
        line.project, line.asked_by = self.namespace.project, self.namespace.agent
        line.session = self.namespace.prefix + line.session
        line.who, line.channel, line.decided_at = (found.who, found.channel, found.decided_at) if found else (None,) * 3
        if is_deep(sent):
            line.args = line.final_args = line.result = "nested too deep to be kept"
        return _ENCODER.encode(line)

    def _decision_behind(self, line: audit.EntryBody, request: ApprovalRequest | None) -> ApprovalDecision | None:
        """Return the recorded decision behind a line; the agent's own claim is not trusted."""
        known = [] if request is None or request.decision is None else [*request.votes, request.decision]
        if line.remembered_id is not None:
            remembered = self.hub.controller.memory.list()
            known += [
                each.decision for each in remembered if each.id == line.remembered_id and self.namespace.sees(each)
            ]
        return next((each for each in reversed(known) if each.who == line.who), None)

    async def own_request_or_none(self, request_id: str | None) -> ApprovalRequest | None:
        """Return the request that a write is about, if it exists; raises if it belongs to another agent."""
        request = None if request_id is None else await self.store.get(request_id)
        if request is not None and not self.namespace.owns(request):
            raise HttpProblem(HTTPStatus.FORBIDDEN, "this is about a request that somebody else has asked")
        return request


@contextlib.contextmanager
def map_errors() -> Generator[None]:
    """Map `UnknownRequest` to a problem that `RemoteStore` recognises."""
    try:
        yield
    except UnknownRequest as error:
        sentence = "no request of this agent has that id"
        raise HttpProblem(HTTPStatus.NOT_FOUND, sentence, kind=UNKNOWN_REQUEST) from error
