"""One HTTP request of an MCP client: admitted by host, origin and token, and read whole; and the answers to it.

Plain ASGI, since the relay has one address and three methods.

Tests: tests/adapters/mcp/test_http.py
"""

from __future__ import annotations

import asyncio
import hmac
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from http import HTTPStatus
from typing import Any

import msgspec

from sayso.adapters.mcp import messages

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_LARGEST = 16 * 1024 * 1024
_SECONDS = 20.0
_LOCAL = frozenset({"localhost", "127.0.0.1", "::1"})
_HOST = re.compile(r"(?:\[([0-9a-f:.]+)\]|([a-z0-9.-]+))(?::[0-9]{1,5})?")
_MAY_REPEAT = frozenset({"accept", "cookie", "via", "forwarded", "x-forwarded-for", "cache-control"})


class HttpRefusal(Exception):
    """A request that is answered without the server."""

    def __init__(self, status: int, why: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(why)
        self.status = status
        self.headers = headers or {}


class Admission(msgspec.Struct, frozen=True, kw_only=True):
    """Who may speak to the relay: clients with the token if there is one, else programs of this machine."""

    host: str = "127.0.0.1"  # at which the relay listens
    token: str | None = None

    def check(self, headers: Mapping[str, str]) -> None:
        """Refuse a web page, a name that is not this machine's (DNS rebinding), and a client without the token.

        Raises:
            HttpRefusal: it is not let in.
        """
        host = headers.get("host", "")
        if self.token is None and _name(host) not in {self.host, *_LOCAL}:
            raise HttpRefusal(HTTPStatus.MISDIRECTED_REQUEST, f"this relay is not called {host!r}")
        if "origin" in headers and headers["origin"].lower() not in {
            f"http://{host}".lower(),
            f"https://{host}".lower(),
        }:
            raise HttpRefusal(HTTPStatus.FORBIDDEN, "this came from a page of another origin")
        if headers.get("sec-fetch-site", "none") not in {"none", "same-origin"}:
            raise HttpRefusal(HTTPStatus.FORBIDDEN, "this came from a page of another site")
        given = headers.get("authorization", "")
        if self.token is not None and not hmac.compare_digest(given.encode(), f"Bearer {self.token}".encode()):
            challenge = {"www-authenticate": "Bearer"}
            raise HttpRefusal(HTTPStatus.UNAUTHORIZED, "this relay wants its own token as Authorization", challenge)


def _name(host: str) -> str:
    """Return the name in a Host header, without its port; an empty text for anything else."""
    found = _HOST.fullmatch(host.lower())
    return "" if found is None else (found[1] or found[2])


def read_headers(given: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Return headers by their names in small letters.

    Raises:
        HttpRefusal: one that decides something stands there twice.
    """
    found: dict[str, str] = {}
    for raw, value in given:
        name = raw.decode("latin-1").lower()
        if name in found and name not in _MAY_REPEAT:
            raise HttpRefusal(HTTPStatus.BAD_REQUEST, f"the header {name} stands in it twice")
        found[name] = value.decode("latin-1")
    return found


async def read_body(receive: Receive) -> bytes:
    """Return the body of a request.

    Raises:
        HttpRefusal: it is too large or too slow, or the client is gone.
    """
    found = bytearray()
    try:
        async with asyncio.timeout(_SECONDS):
            while True:
                message = await receive()
                found += message.get("body", b"")
                if message["type"] != "http.request" or len(found) > _LARGEST:
                    raise HttpRefusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a message may have {_LARGEST} bytes")
                if not message.get("more_body", False):
                    return bytes(found)
    except TimeoutError:
        raise HttpRefusal(HTTPStatus.REQUEST_TIMEOUT, "the body came too slowly") from None


async def disconnected(receive: Receive) -> None:
    """Wait until the client is gone."""
    while (await receive())["type"] != "http.disconnect":
        pass


class ClientAnswer:
    """The answer to one request: a body, or a stream of events that begins with the first of them."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.has_begun = False

    async def whole(self, status: int, body: bytes = b"", headers: Mapping[str, str] | None = None) -> None:
        """Send all of it."""
        kind = {"content-type": "application/json"} if body else {}
        await self._begin(status, {**kind, "content-length": str(len(body)), **(headers or {})})
        await self._send({"type": "http.response.body", "body": body})

    async def refuse(self, refusal: HttpRefusal) -> None:
        """Send an error of the protocol, which carries no id."""
        error = {"code": -32600, "message": f"refused by sayso: {refusal}"}
        body = messages.encode({"jsonrpc": "2.0", "id": None, "error": error})
        await self.whole(refusal.status, body, refusal.headers)

    async def open_stream(self, headers: Mapping[str, str] | None = None) -> None:
        """Begin a stream of events, unless it has begun."""
        if not self.has_begun:
            own = {"content-type": "text/event-stream", "cache-control": "no-cache, no-transform"}
            await self._begin(HTTPStatus.OK, {**own, **(headers or {})})

    async def event(self, data: bytes, *, event_id: str = "", retry: int | None = None) -> None:
        """Send one event."""
        head = f"id: {event_id}\n" if event_id else ""
        head += "" if retry is None else f"retry: {retry}\n"
        lines = data.strip().replace(b"\r", b"\n").split(b"\n")  # which in JSON are nothing but space
        body = b"".join(b"data: " + line + b"\n" for line in lines)
        await self._more(b"event: message\n" + head.encode() + body + b"\n")

    async def beat(self) -> None:
        """Send a comment, so that nobody on the way takes the stream for dead."""
        await self._more(b": waiting\n\n")

    async def end(self) -> None:
        """End the stream."""
        await self._send({"type": "http.response.body", "body": b""})

    async def _begin(self, status: int, headers: Mapping[str, str]) -> None:
        self.has_begun = True
        encoded = [(name.encode(), value.encode("latin-1", "replace")) for name, value in headers.items()]
        await self._send({"type": "http.response.start", "status": int(status), "headers": encoded})

    async def _more(self, part: bytes) -> None:
        await self._send({"type": "http.response.body", "body": part, "more_body": True})
