"""The relay over streamable HTTP, as an ASGI application: judges calls, filters listings, and passes all else.

Each POST carries one message. The stream of GET, sessions and resumption are of the protocol before 2026.

Tests: tests/adapters/mcp/test_http.py
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Coroutine, Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, TypeVar

from sayso.adapters.mcp import mcp_headers, messages
from sayso.adapters.mcp.http_exchange import HttpExchange
from sayso.adapters.mcp.http_request import ClientAnswer, HttpRefusal, disconnected, read_body, read_headers
from sayso.adapters.mcp.messages import MessageError
from sayso.errors import ConfigurationError, StoreError, ToolError

if TYPE_CHECKING:
    from sayso.adapters.mcp.http_request import Admission, Receive, Scope, Send
    from sayso.adapters.mcp.relay import Relay
    from sayso.adapters.mcp.upstream import ServerEvent, Upstream, UpstreamAnswer

T = TypeVar("T")

PATH = "/mcp"
_METHODS = ("POST", "GET", "DELETE")
_BEAT_SECONDS = 15.0
_MOST_SESSIONS = 1000  # whose clients' names are known


class HttpRelay:
    """Stands between clients and one server over HTTP."""

    def __init__(self, relay: Relay, upstream: Upstream, admission: Admission, *, pass_authorization: bool) -> None:
        """Serve clients that are admitted; their own `Authorization` goes on only if that is wanted."""
        self._relay = relay
        self._upstream = upstream
        self._admission = admission
        self._pass_authorization = pass_authorization
        self._calls: dict[tuple[str, str], tuple[HttpExchange, asyncio.Task[bytes | None]]] = {}
        self._names: dict[str, str] = {}  # of clients, by session
        self._requests: set[asyncio.Task[Any]] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; a client that goes away cancels what it has asked for."""
        if scope["type"] != "http" or (task := asyncio.current_task()) is None:
            return
        self._requests.add(task)
        try:
            await self._answer(scope, receive, ClientAnswer(send))
        finally:
            self._requests.discard(task)

    async def ended(self) -> None:
        """Wait until all requests have ended, which the server has cancelled: their questions are withdrawn then."""
        if self._requests:
            await asyncio.wait(self._requests)

    async def _answer(self, scope: Scope, receive: Receive, answer: ClientAnswer) -> None:
        try:
            headers = self._admit(scope)
            body = await read_body(receive) if scope["method"] == "POST" else b""
            await _while_connected(self._serve(scope["method"], headers, body, answer), receive)
        except HttpRefusal as refusal:
            await answer.refuse(refusal)
        except (ConfigurationError, MessageError, StoreError, ToolError) as error:
            status = HTTPStatus.BAD_REQUEST if isinstance(error, MessageError) else HTTPStatus.BAD_GATEWAY
            if not answer.has_begun:
                await answer.refuse(HttpRefusal(status, str(error)))

    def _admit(self, scope: Scope) -> dict[str, str]:
        headers = read_headers(scope["headers"])
        self._admission.check(headers)
        if scope["path"] != PATH:
            raise HttpRefusal(HTTPStatus.NOT_FOUND, f"the server is at {PATH}")
        if scope["method"] not in _METHODS:
            allowed = {"allow": ", ".join(_METHODS)}
            raise HttpRefusal(HTTPStatus.METHOD_NOT_ALLOWED, f"use one of {allowed['allow']}", allowed)
        return headers

    async def _serve(self, method: str, headers: Mapping[str, str], body: bytes, answer: ClientAnswer) -> None:
        if method != "POST":
            await self._pass(method, headers, None, answer)
            return
        message, line = messages.read_client_message(body)
        mcp_headers.check(headers, message)
        key = messages.id_text(message.get("id"))
        if message.get("method") != messages.CALL:
            if message.get("method") == "notifications/cancelled" and self._cancel(headers, message):
                await answer.whole(HTTPStatus.ACCEPTED)
            else:
                await self._pass(method, headers, message, answer, line)
        elif key is None:
            raise HttpRefusal(HTTPStatus.BAD_REQUEST, "a call without an id: nobody could get its result")
        else:
            await self._judge(headers, key, message, answer)

    def _forwarded(self, headers: Mapping[str, str], method: str = "POST") -> dict[str, str]:
        found = mcp_headers.forwarded(headers, method)
        if self._pass_authorization and "authorization" in headers:
            found["authorization"] = headers["authorization"]
        return found

    # A call.

    async def _judge(self, headers: Mapping[str, str], key: str, message: dict[str, Any], answer: ClientAnswer) -> None:
        session = headers.get(mcp_headers.SESSION, "")
        place = session, key
        if session and place in self._calls:
            raise HttpRefusal(HTTPStatus.BAD_REQUEST, f"another request has the id {key}")
        passed = self._forwarded(headers)
        whose = hashlib.sha256(passed.get("authorization", "").encode()).hexdigest()
        exchange = HttpExchange(
            self._upstream, self._relay.listing, passed, whose=whose, client=self._names.get(session, "")
        )
        task = asyncio.create_task(self._relay.answer(message, exchange))
        if session:
            self._calls[place] = exchange, task
        try:
            await self._tell(exchange, task, answer)
        finally:
            self._calls.pop(place, None)
            task.cancel()
            await asyncio.wait([task])

    async def _tell(self, exchange: HttpExchange, task: asyncio.Task[bytes | None], answer: ClientAnswer) -> None:
        """Send the client what comes before the response, and then that: as a stream, if there is anything before."""
        while not (task.done() and exchange.outgoing.empty()):
            line = await _next_line(exchange.outgoing, task)
            if line is None and task.done():
                continue
            await answer.open_stream()
            await (answer.beat() if line is None else answer.event(line))
        response = None if task.cancelled() else task.result()
        if answer.has_begun:
            if response is not None:
                await answer.event(response)
            await answer.end()
        elif response is None:
            await answer.whole(HTTPStatus.ACCEPTED)
        else:
            await answer.whole(self._status(exchange), response, self._challenge(exchange.challenge))

    def _status(self, exchange: HttpExchange) -> int:
        """Return the status of a response: clients act on a lost session, and on a 401 that is meant for them."""
        kept = {HTTPStatus.BAD_REQUEST, HTTPStatus.NOT_FOUND}
        if self._pass_authorization:
            kept |= {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}
        return exchange.status if exchange.status in kept else HTTPStatus.OK

    def _challenge(self, given: str) -> dict[str, str]:
        return {"www-authenticate": given} if given and self._pass_authorization else {}

    def _cancel(self, headers: Mapping[str, str], message: Mapping[str, Any]) -> bool:
        """Cancel a call of the client's session; true if the server has not got it."""
        key = messages.id_text(messages.part(message, "params", "requestId")) or ""
        exchange, task = self._calls.get((headers.get(mcp_headers.SESSION, ""), key), (None, None))
        if exchange is None or task is None:
            return False
        task.cancel()
        return not exchange.has_reached_server

    # Everything else.

    async def _pass(
        self,
        method: str,
        headers: Mapping[str, str],
        message: Mapping[str, Any] | None,
        answer: ClientAnswer,
        body: bytes | None = None,
    ) -> None:
        """Pass a message and the server's answer to it."""
        passed = {**self._forwarded(headers, method), **mcp_headers.routing(message or {})}
        async with self._upstream.send(method, passed, body) as found:
            if found.status == HTTPStatus.UNAUTHORIZED and not self._pass_authorization:
                sentence = "the server does not take the relay's credential (401); give it with --header-env"
                raise HttpRefusal(HTTPStatus.BAD_GATEWAY, sentence)
            if message is not None and message.get("method") == "initialize":
                self._note_name(found.headers.get(mcp_headers.SESSION, ""), messages.client_name(message.get("params")))
            session, request = headers.get(mcp_headers.SESSION, ""), message or {}
            if found.is_stream:
                await self._pass_stream(found, answer, session, request)
            else:
                whole = await found.body()
                told = {**found.headers, **self._challenge(found.challenge)}
                seen = await self._seen(whole, session, request) if whole else b""
                await answer.whole(found.status, _no_message(found.status) if seen is None else seen, told)

    def _note_name(self, session: str, name: str) -> None:
        if session and len(self._names) >= _MOST_SESSIONS:
            del self._names[next(iter(self._names))]
        if session:
            self._names[session] = name

    async def _pass_stream(
        self, found: UpstreamAnswer, answer: ClientAnswer, session: str, request: Mapping[str, Any]
    ) -> None:
        """Pass the events of a stream; that of a listing cannot be resumed, for it was changed on the way."""
        events: asyncio.Queue[ServerEvent] = asyncio.Queue(1)

        async def read() -> None:
            async for event in found.events():
                await events.put(event)

        reading = asyncio.create_task(read())
        await answer.open_stream(found.headers)
        try:
            while not (reading.done() and events.empty()):
                event = await _next_line(events, reading)
                if event is not None:
                    event_id = "" if request.get("method") == messages.LIST else event.id
                    data = await self._seen(event.data, session, request) if event.data else b""
                    if data is not None:
                        await answer.event(data, event_id=event_id, retry=event.retry)
                elif not reading.done():
                    await answer.beat()
            reading.result()
            await answer.end()
        finally:
            reading.cancel()
            await asyncio.wait([reading])

    async def _seen(self, data: bytes, session: str, request: Mapping[str, Any]) -> bytes | None:
        """Return a message of the server as the client gets it: a listing without blocked tools, wherever it comes.

        None for what is no message, and for the answer to another request than the one that is answered.
        """
        message = messages.read_object(data)
        if message.get("method") == messages.CHANGED:
            self._relay.listing.expire()
        is_response = not isinstance(message.get("method"), str)
        if not message or (is_response and not self._may_answer(message, session, request)):
            return None
        if isinstance(messages.part(message, "result", "tools"), list):
            return await self._relay.listing.filtered(data)
        return data

    def _may_answer(self, message: Mapping[str, Any], session: str, request: Mapping[str, Any]) -> bool:
        """Whether a response may reach the client: a lenient one must not take it for that of a call."""
        key = message.get("id")
        if request:
            return messages.id_text(key) == messages.id_text(request.get("id")) or (key is None and "error" in message)
        waiting = (json.loads(of) for where, of in self._calls if where == session)
        return key is not None and messages.loose_id(key) not in map(messages.loose_id, waiting)


def _no_message(status: int) -> bytes:
    """Return the error in the place of a body that is no message."""
    why = f"the server has answered with status {status} and no message that can be passed on"
    return messages.encode({"jsonrpc": "2.0", "id": None, "error": {"code": -32603, "message": why}})


async def _while_connected(work: Coroutine[Any, Any, None], receive: Receive) -> None:
    """Run work until it is done, or the client is gone."""
    working, leaving = asyncio.create_task(work), asyncio.create_task(disconnected(receive))
    try:
        await asyncio.wait([working, leaving], return_when=asyncio.FIRST_COMPLETED)
    finally:
        working.cancel()
        leaving.cancel()
        await asyncio.wait([working, leaving])
    if not working.cancelled():
        working.result()


async def _next_line(queue: asyncio.Queue[T], task: asyncio.Task[Any]) -> T | None:
    """Return what comes next; None if the task ends before, or nothing comes for a while."""
    getting = asyncio.create_task(queue.get())
    try:
        await asyncio.wait([getting, task], timeout=_BEAT_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        return getting.result() if getting.done() else None
    finally:
        getting.cancel()
