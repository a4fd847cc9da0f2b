"""WebSocket route in the original message form: requests are pushed as they are asked, answers come back by id.

Tests: tests/server/services/test_events.py
"""

from __future__ import annotations

import asyncio
import contextlib
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Any

import anyio
from fastapi import APIRouter, Path, WebSocket
from pydantic import ValidationError
from starlette.websockets import WebSocketDisconnect

from sayso.core import json_codec
from sayso.errors import CanonicalError, StoreError, UnknownRequest
from sayso.server.http import problems
from sayso.server.http.problems import HttpProblem
from sayso.server.http.schemas import AnswerModel
from sayso.server.http.strict_json import read_object
from sayso.server.identity import Principal, hub_of, person
from sayso.server.middleware import LARGEST_BODY, is_deep
from sayso.server.routes.answering import AnswerOutcome, question_text, submit_answer
from sayso.server.routes.sse import PATIENCE_SECONDS, cancel_when_closing

if TYPE_CHECKING:
    from sayso.core.model import ApprovalRequest
    from sayso.server.hub import Hub
    from sayso.server.services.connections import ClientConnection
    from sayso.server.services.events import EventBatch

routes = APIRouter()

_PAGE = 100
_CLOSE_SECONDS = 2.0
_CLOSED_BY_HUB = 4401  # the token is no longer valid, or the hub stops
_TRY_AGAIN = 1013


@routes.websocket("/ws/{client_id}")
async def serve_websocket(socket: WebSocket, client_id: Annotated[str, Path(max_length=100)]) -> None:  # noqa: ARG001 - the client's name for a connection; the token identifies the person
    """Push open requests to a front end, and receive its answers."""
    hub = hub_of(socket)
    try:
        principal = await person(socket)
        with hub.connections.admit(principal.token) as connection, hub.events.subscribed():
            await socket.accept()
            await _WebSocketSession(hub, principal, socket).run(connection)
    except HttpProblem as problem:
        await socket.send_denial_response(problems.problem_response(problem))


class _WebSocketSession:
    """Session of one front end."""

    def __init__(self, hub: Hub, principal: Principal, socket: WebSocket) -> None:
        self._hub = hub
        self._person = principal
        self._socket = socket
        self._sent_open: set[str] = set()  # open requests that were pushed

    async def run(self, connection: ClientConnection) -> None:
        """Send and receive until the client disconnects or the connection must close."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._send_events, tasks.cancel_scope)
            tasks.start_soon(cancel_when_closing, connection, tasks.cancel_scope)
            await self._receive_answers()
            tasks.cancel_scope.cancel()
        # It may be closed already, or too slow even for a close frame.
        with contextlib.suppress(RuntimeError, WebSocketDisconnect, TimeoutError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self._socket.close(_CLOSED_BY_HUB if connection.must_close.is_set() else _TRY_AGAIN)

    async def _send_events(self, scope: anyio.CancelScope) -> None:
        """Push the open requests, then all changes; a front end that is too slow is disconnected."""
        with contextlib.suppress(TimeoutError, StoreError, WebSocketDisconnect):
            point = await self._hub.events.start_point()
            await self._send_open_requests()
            while True:
                batch = await self._hub.events.next_batch(point)
                for request, message in batch.cached("messages", _messages):
                    await self._send_request(request, message)
                point = batch.point
        scope.cancel()

    async def _send_open_requests(self) -> None:
        after = ""
        while page := await self._hub.store.pending(_PAGE, after):
            for each in page:
                await self._send_request(each, _message(each, json_codec.request_to_json(each)))
            after = page[-1].id

    async def _send_request(self, request: ApprovalRequest, message: str) -> None:
        """Push a request once while it is open, and once when it is closed."""
        is_open, was_sent = request.status == "open", request.id in self._sent_open
        if is_open is was_sent or not self._person.token.is_for(request.project):
            return
        if is_open:
            self._sent_open.add(request.id)
        else:
            self._sent_open.discard(request.id)
        await self._send(message)

    async def _receive_answers(self) -> None:
        while True:
            message = await self._socket.receive()
            if message["type"] == "websocket.disconnect":
                return
            try:
                await self._send(json_codec.to_json(await self._answer(message.get("text") or "")))
            except (TimeoutError, WebSocketDisconnect):
                return

    async def _send(self, text: str) -> None:
        with self._hub.deadlines.within(PATIENCE_SECONDS):
            await self._socket.send_text(text)

    async def _answer(self, text: str) -> dict[str, Any]:
        """Handle one message, and reply with its result."""
        message: dict[str, Any] = {}
        try:
            message = _read_message(text)
            outcome = await self._submit_answer(message)
        except (HttpProblem, UnknownRequest, StoreError, CanonicalError, ValidationError) as error:
            problem = problems.problem_for(error).as_dict()
            return {"type": "approval_result", "id": message.get("id"), "ok": False, "problem": problem}
        return {"type": "approval_result", "id": outcome.request.id, "ok": True, "status": outcome.request.status}

    async def _submit_answer(self, message: dict[str, Any]) -> AnswerOutcome:
        facts = dict(message)
        kind, request_id = facts.pop("type", None), facts.pop("id", None)
        if kind != "approval_response" or not isinstance(request_id, str):
            sentence = "a message is an approval_response, with the id of a request"
            raise HttpProblem(HTTPStatus.UNPROCESSABLE_ENTITY, sentence)
        answer = AnswerModel.model_validate(facts)
        principal = await person(self._socket)  # again: the token may have been revoked since the last message
        return await submit_answer(self._hub, principal, request_id, answer, channel="websocket")


def _messages(batch: EventBatch) -> list[tuple[ApprovalRequest, str]]:
    return [(event.request, _message(event.request, event.text)) for event in batch.events]


def _message(request: ApprovalRequest, text: str) -> str:
    """Return the message about a request, from its JSON."""
    if request.status == "open":
        head = json_codec.to_json({"type": "approval_request", "message": question_text(request)})
        return f"{head[:-1]}, {text[1:]}"
    head = json_codec.to_json({"type": "approval_closed", "id": request.id, "status": request.status})
    return f'{head[:-1]}, "request": {text}}}'


def _read_message(text: str) -> dict[str, Any]:
    if len(text) > LARGEST_BODY or is_deep(text.encode(errors="replace")):
        raise HttpProblem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "the message is too large, or nested too deep")
    return read_object(text)
