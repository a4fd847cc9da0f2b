"""The exchange of one request over HTTP: the server's stream in, the client's response or stream out.

The ids of its events stay here: else a client could fetch the result of a call from another stream. So it is the relay
that resumes a stream which the server has closed before the answer.

Tests: tests/adapters/mcp/test_http.py
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from sayso.adapters.mcp import mcp_headers, messages
from sayso.errors import ToolError

if TYPE_CHECKING:
    from sayso.adapters.mcp.tool_listing import Listing
    from sayso.adapters.mcp.upstream import Upstream, UpstreamAnswer

_LOST = "The server has ended its stream before the answer. Whether the call has run is not known."
_UNAUTHORIZED = "The server does not take the credential (status 401), so it was not executed."
_NO_RESULT = "The server has answered with status {status} and no result. Whether the call has run is not known."
_MOST_RESUMED = 5  # times that a stream is resumed
_LONGEST_PAUSE = 5.0  # seconds before that, whatever the server wishes
_WAITING_LINES = 32


class HttpExchange:
    """One request of a client, which is answered here, and its way to the server."""

    def __init__(
        self, upstream: Upstream, listing: Listing, headers: Mapping[str, str], *, whose: str = "", client: str = ""
    ) -> None:
        """Exchange for a request of which these headers go on to the server."""
        self._upstream = upstream
        self._listing = listing
        self._headers = headers
        self.whose = whose
        self.client_name = client
        self.outgoing: asyncio.Queue[bytes] = asyncio.Queue(_WAITING_LINES)  # beside the response
        self.has_reached_server = False
        self.status: int = HTTPStatus.OK
        self.challenge = ""

    async def tell(self, message: object) -> None:
        """Send the client a message beside the response."""
        await self.outgoing.put(messages.encode(message))

    async def ask(self, request: Mapping[str, Any], schema: Mapping[str, Any] | None = None) -> bytes:
        """Send the server a request on a connection of its own, and return its response."""
        is_call = request["method"] == messages.CALL
        self.has_reached_server = self.has_reached_server or is_call
        headers = {**self._headers, **mcp_headers.routing(request, schema)}
        async with self._upstream.send("POST", headers, messages.encode(request), fresh=True) as answer:
            self.status, self.challenge = answer.status, answer.challenge
            if not answer.is_stream:
                return _read_answer(await answer.body(), request["id"], answer.status)
            stream = _AnswerStream(request["id"], self._listing, self.outgoing if is_call else None)
            response = await stream.read(answer)
        return await self._resume(stream) if response is None else response

    async def _resume(self, stream: _AnswerStream) -> bytes:
        """Return the response from streams that go on where the last one has ended.

        Raises:
            ToolError: it does not come.
        """
        for _ in range(_MOST_RESUMED):
            if not stream.last_id:
                break
            await asyncio.sleep(stream.pause)
            headers = {**self._headers, mcp_headers.LAST_EVENT: stream.last_id}
            async with self._upstream.send("GET", headers, fresh=True) as answer:
                response = await stream.read(answer) if answer.is_stream else None
            if response is not None:
                return response
        raise ToolError(_LOST)


class _AnswerStream:
    """The server's stream in answer to one request, over all connections that it takes."""

    def __init__(self, key: object, listing: Listing, outgoing: asyncio.Queue[bytes] | None) -> None:
        self._key = messages.id_text(key)
        self._listing = listing
        self._outgoing = outgoing
        self.last_id = ""
        self.pause = 1.0

    async def read(self, answer: UpstreamAnswer) -> bytes | None:
        """Return the response, when it comes; the client gets what comes before. None if the stream ends without it."""
        async for event in answer.events():
            self.last_id = event.id or self.last_id
            self.pause = self.pause if event.retry is None else min(event.retry / 1000, _LONGEST_PAUSE)
            head = messages.read_server_head(event.data) if event.data else None
            if head is not None and messages.response_id(head) == self._key:
                return event.data
            if head is not None and head.method is not None:  # another response is to nobody's request
                await self._pass_on(head.method, event.data)
        return None

    async def _pass_on(self, method: str, data: bytes) -> None:
        if method == messages.CHANGED:
            self._listing.expire()
        if self._outgoing is not None:
            await self._outgoing.put(data)


def _read_answer(body: bytes, key: object, status: int) -> bytes:
    """Return the one message of an answer, with the id of the request, which an error may lack.

    Raises:
        ToolError: there is none.
    """
    response = messages.read_object(body)
    if messages.id_text(response.get("id")) == messages.id_text(key):
        return body
    if isinstance(response.get("error"), dict) and response.get("id") is None:
        return messages.encode({**response, "id": key})
    raise ToolError(_UNAUTHORIZED if status == HTTPStatus.UNAUTHORIZED else _NO_RESULT.format(status=status))
