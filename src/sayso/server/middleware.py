"""ASGI middleware that guards every connection, streams and WebSockets too: host, CSRF, body and header checks."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection
from functools import lru_cache
from http import HTTPStatus
from itertools import accumulate
from urllib.parse import urlsplit

from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sayso.server.http import problems
from sayso.server.http.headers import SECURITY_HEADERS, header, path_of
from sayso.server.http.problems import HttpProblem
from sayso.server.hub import Hub
from sayso.server.identity import COOKIE, identify

LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]", "::1"})
LARGEST_BODY = 1_000_000
_LARGEST_ANONYMOUS = 16_000
_BODY_SECONDS = 20.0
_DEEPEST = 120
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_HEADERS = [(name.lower().encode(), value.encode()) for name, value in SECURITY_HEADERS.items()]
_BRACES_TO_BRACKETS = bytes.maketrans(b"{}", b"[]")
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_MOST_BRACKETS = 200_000
_nesting_step = (ord("\\")).__sub__  # 92 - 91 for [ is a level down (+1), 92 - 93 for ] a level up (-1)


class AttachHub:
    """Middleware that puts the hub into the scope, and starts its background tasks with the first connection."""

    def __init__(self, app: ASGIApp, hub: Hub) -> None:
        self._app = app
        self._hub = hub

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Attach the hub, and call the application."""
        if scope["type"] != "lifespan":
            self._hub.start_background()
            scope["sayso.hub"] = self._hub
        await self._app(scope, receive, send)


class SecurityHeaders:
    """Middleware that adds the security headers which a response does not have."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Call the application, and add headers to its response."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                present = {name for name, _ in message["headers"]}
                message["headers"] = [*message["headers"], *(each for each in _HEADERS if each[0] not in present)]
            await send(message)

        await self._app(scope, receive, send_with_headers if scope["type"] == "http" else send)


class RejectingMiddleware:
    """Base of the middleware that rejects a connection by raising a problem."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    def check(self, scope: Scope) -> None:
        """Raise a problem if this connection is rejected."""
        raise NotImplementedError

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Call the application, or respond with the problem."""
        if scope["type"] != "lifespan":
            try:
                self.check(scope)
            except HttpProblem as problem:
                await problems.problem_response(problem)(scope, receive, send)
                return
        await self._app(scope, receive, send)


class AllowedHosts(RejectingMiddleware):
    """Rejects a Host header that is not the hub's (DNS rebinding)."""

    def __init__(self, app: ASGIApp, names: Collection[str]) -> None:
        super().__init__(app)
        self._names = LOOPBACK | {name.lower() for name in names}

    def check(self, scope: Scope) -> None:
        """Check the Host header."""
        hosts = [value for name, value in scope["headers"] if name == b"host"]
        name = host_name(hosts[0].decode("latin-1")) if len(hosts) == 1 else ""  # of two, a proxy may use the other
        if name not in self._names and not _is_address(name):  # an IP address cannot be rebound
            sentence = f"this hub is not called {name!r}; serve it with `--host-name {name}` if it should be"
            raise HttpProblem(HTTPStatus.MISDIRECTED_REQUEST, sentence)


@lru_cache(maxsize=100)
def host_name(host: str) -> str:
    """Return the name in a Host header, without its port."""
    return re.sub(r":\d*$", "", host.strip().lower())


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True


class StorableAddress(RejectingMiddleware):
    """Rejects an address with NUL in its path or query: a store cannot look that up."""

    def check(self, scope: Scope) -> None:
        """Check the path and the query."""
        if "\0" in scope["path"] or b"%00" in scope["query_string"]:
            sentence = "the address contains the character NUL, which a store cannot keep"
            raise HttpProblem(HTTPStatus.UNPROCESSABLE_ENTITY, sentence)


class SameOrigin(RejectingMiddleware):
    """CSRF protection: rejects cross-origin requests, also over WebSocket, which has no same-origin policy."""

    def check(self, scope: Scope) -> None:
        """Check the headers Origin and Sec-Fetch-Site."""
        if scope["type"] == "http" and scope["method"] in _SAFE_METHODS:
            return
        origin, site = header(scope, b"origin"), header(scope, b"sec-fetch-site")
        if origin is not None and not _is_same_origin(origin, header(scope, b"host") or "", scope["scheme"]):
            raise HttpProblem(HTTPStatus.FORBIDDEN, "this came from a page of another origin")
        if site not in {None, "same-origin", "none"}:
            raise HttpProblem(HTTPStatus.FORBIDDEN, "this came from a page of another site")
        if origin is None and site is None and any(COOKIE.encode() in each for each in _cookies(scope)):
            sentence = "a signed-in browser must send an Origin header; this request has none (CSRF protection)"
            raise HttpProblem(HTTPStatus.FORBIDDEN, sentence)


def _cookies(scope: Scope) -> list[bytes]:
    return [value for name, value in scope["headers"] if name == b"cookie"]  # HTTP/2 may have split them


def _is_same_origin(origin: str, host: str, scheme: str) -> bool:
    """Whether an origin is the hub's; over https, a page loaded by http may have been forged in transit."""
    try:
        page = urlsplit(origin)
    except ValueError:
        return False
    return page.netloc.lower() == host.lower() and (page.scheme == "https" or scheme in {"http", "ws"})


class BodyLimits:
    """Middleware that reads each body before its route runs, with limits on size, time and nesting."""

    def __init__(self, app: ASGIApp, hub: Hub) -> None:
        self._app = app
        self._hub = hub

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Call the application with the body, or respond with the problem."""
        if scope["type"] != "http" or scope["method"] in _SAFE_METHODS or _is_agent_rpc(scope):
            await self._app(scope, receive, send)
            return
        try:
            body = await self._read_body(scope, receive)
        except HttpProblem as problem:
            await problems.problem_response(problem, {"Connection": "close"})(scope, receive, send)
            return
        if body is not None:
            scope["sayso.body"] = body
            await self._app(scope, _replay(body, receive), send)

    async def _read_body(self, scope: Scope, receive: Receive) -> bytes | None:
        declared = header(scope, b"content-length") or "0"
        if declared.isdigit() and int(declared) > LARGEST_BODY:
            raise self._too_large()
        try:
            with self._hub.deadlines.within(_BODY_SECONDS):
                body = await self._receive(scope, receive)
        except TimeoutError:
            raise HttpProblem(HTTPStatus.REQUEST_TIMEOUT, "the body came too slowly") from None
        if body is not None and is_deep(body):
            raise HttpProblem(
                HTTPStatus.UNPROCESSABLE_ENTITY, f"the body is nested more than {_DEEPEST} levels deep, or not closed"
            )
        return body

    async def _receive(self, scope: Scope, receive: Receive) -> bytes | None:
        """Receive a body; a long one needs a valid token, or anonymous clients could exhaust the memory."""
        body, is_authenticated = bytearray(), False
        while True:
            message = await receive()
            if message["type"] != "http.request":
                return None  # the client has disconnected
            body += message.get("body", b"")
            if len(body) > LARGEST_BODY:
                raise self._too_large()
            if len(body) > _LARGEST_ANONYMOUS and not is_authenticated:
                await identify(HTTPConnection(scope))
                is_authenticated = True
            if not message.get("more_body", False):
                return bytes(body)

    def _too_large(self) -> HttpProblem:
        return HttpProblem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a body may have {LARGEST_BODY} bytes, and not more")


def _is_agent_rpc(scope: Scope) -> bool:
    """Whether this is an RPC of an agent, which is not JSON and has limits of its own."""
    return path_of(scope).startswith("/agent/")


def _replay(body: bytes, receive: Receive) -> Receive:
    replayed = False

    async def replay() -> Message:
        nonlocal replayed
        if replayed:
            return await receive()
        replayed = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


def is_deep(body: bytes) -> bool:
    """Whether JSON is nested too deep, or has too many parts; its syntax is checked later.

    Every step runs in C, because a body may have a megabyte.
    """
    if body.count(b"[") + body.count(b"{") <= _DEEPEST:
        return False
    outside = body.replace(rb"\\", b"").replace(rb"\"", b"").split(b'"')[::2]
    brackets = b"".join(outside).translate(_BRACES_TO_BRACKETS, _NOT_BRACKETS)
    return len(brackets) > _MOST_BRACKETS or max(accumulate(map(_nesting_step, brackets)), default=0) > _DEEPEST
