"""The relay of lines: tells by their ids which messages of the two sides belong together, and passes most unread.

Tests: tests/adapters/mcp/test_relay.py
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sayso.adapters.mcp import messages
from sayso.adapters.mcp.messages import MessageError
from sayso.adapters.mcp.relay import CallAbandoned
from sayso.errors import ConfigurationError, StoreError, ToolError

if TYPE_CHECKING:
    from sayso.adapters.mcp.outlet import Outlet
    from sayso.adapters.mcp.relay import Relay

_LOG = logging.getLogger("sayso")
_GONE = "The server ended before it answered. Whether the call has run is not known."


class LineRelay:
    """Stands between one client and one server, each with one stream of messages; the exchange of all its calls."""

    def __init__(self, relay: Relay, *, client: Outlet, server: Outlet) -> None:
        self._relay = relay
        self._client = client
        self._server = server
        self._calls: dict[str, asyncio.Task[None]] = {}  # by the client's id, until they are answered
        self._answers: dict[str, asyncio.Future[bytes]] = {}  # of requests at the server that are read here
        self._passed: dict[str, str] = {}  # methods of the client's other requests, by id, until they are answered
        self.client_name = ""
        self.whose = ""

    # What the client says.

    async def from_client(self, line: bytes) -> None:
        """Take a line of the client."""
        try:
            message, line = messages.read_client_message(line)
        except MessageError as error:
            await self._refuse(str(error))
            return
        method, key = message.get("method"), messages.id_text(message.get("id"))
        if method == messages.CALL and key is None:
            _LOG.warning("a call without an id did not reach the server: nobody could get its result")
            return
        if method is not None and key is not None and self._is_taken(key):
            await self._refuse(f"another request has the id {key}")
            return
        if method == messages.CALL and key is not None:
            self._begin(key, message)
            return
        if method == "notifications/cancelled" and self._cancel(message):
            return  # the server has never heard of it
        if method == "initialize":
            self.client_name = messages.client_name(message.get("params"))
        if method is not None and key is not None:
            self._passed[key] = method
        await self._server.send(line)

    def _is_taken(self, key: str) -> bool:
        return any(key in each for each in (self._calls, self._answers, self._passed))

    async def _refuse(self, why: str) -> None:
        error = {"code": -32600, "message": f"refused by sayso: {why}"}
        await self._client.send_message({"jsonrpc": "2.0", "id": None, "error": error})

    def _begin(self, key: str, message: dict[str, Any]) -> None:
        task = asyncio.create_task(self._call(message))
        self._calls[key] = task
        task.add_done_callback(lambda _: self._calls.pop(key, None))

    async def _call(self, message: dict[str, Any]) -> None:
        response = await self._relay.answer(message, self)
        if response is not None:
            await self._client.send(response)

    def _cancel(self, message: Mapping[str, Any]) -> bool:
        """Cancel a request; true if the server has not got it."""
        key = messages.id_text(messages.part(message, "params", "requestId")) or ""
        self._passed.pop(key, None)
        answer = self._answers.get(key)
        if answer is not None and not answer.done():
            answer.set_exception(CallAbandoned())
            return False
        task = self._calls.get(key)
        return task is not None and task.cancel()

    async def client_gone(self) -> None:
        """Withdraw the questions of all calls that wait: nobody wants their results any more."""
        waiting = [task for key, task in self._calls.items() if key not in self._answers]
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)

    # What the server says.

    async def from_server(self, line: bytes) -> None:
        """Take a line of the server."""
        head = messages.read_server_head(line)
        if head is None and (batch := messages.read_batch(line)):
            for each in batch:
                await self.from_server(each)
            return
        if head is None or (head.method is None and not head.id):
            _LOG.warning("the server has written a line that is no message; it was dropped")
            return
        if head.method is None and bytes(head.id) != b"null":
            await self._take_response(messages.response_id(head) or "", line)
            return
        if head.method is None and "result" in messages.read_object(line):
            return  # some clients take null for the id of their first request
        if head.method == messages.CHANGED:
            self._relay.listing.expire()
        await self._client.send(line)

    async def _take_response(self, key: str, line: bytes) -> None:
        answer = self._answers.get(key)
        if answer is not None and not answer.done():
            answer.set_result(line)
        elif key not in self._passed:  # a lenient client could take it for the answer to another request
            _LOG.warning("the server has answered a request that it did not have; the answer was dropped")
        elif self._passed.pop(key) == messages.LIST:
            await self._client.send(await self._listed(key, line))
        else:
            await self._client.send(line)

    async def _listed(self, key: str, line: bytes) -> bytes:
        """Return a listing as the client gets it; one that cannot be read or compared is an error."""
        try:
            return await self._relay.listing.filtered(line)
        except (ConfigurationError, StoreError, ToolError, ValueError, RecursionError) as error:
            return messages.error_line(key, f"sayso cannot show the server's tools: {error}")

    async def server_gone(self) -> None:
        """Answer all calls: those that wait do not run any more, and of the others nobody knows."""
        for answer in list(self._answers.values()):
            if not answer.done():
                answer.set_exception(ToolError(_GONE))
        await self.client_gone()
        await asyncio.gather(*self._calls.values(), return_exceptions=True)

    # The exchange of a call.

    async def tell(self, message: object) -> None:
        """Send the client a message."""
        await self._client.send_message(message)

    async def ask(self, request: Mapping[str, Any], schema: Mapping[str, Any] | None = None) -> bytes:  # noqa: ARG002 - lines have no headers
        """Send a request and return the server's response; it does not reach the client."""
        key = messages.id_text(request["id"]) or ""
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._answers[key] = answer
        try:
            await self._server.send(messages.encode(request))
            return await answer
        finally:
            del self._answers[key]
