"""Authentication: bearer token or session cookie, and the principal that it identifies."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, cast

import msgspec
from fastapi import Depends
from starlette.requests import HTTPConnection

from sayso.core import tokens
from sayso.core.model import ApprovalRequest
from sayso.core.tokens import Token, TokenKind
from sayso.server.http import problems
from sayso.server.http.headers import header
from sayso.server.http.problems import HttpProblem
from sayso.server.hub import Hub

COOKIE = "sayso_session"


class Principal(msgspec.Struct, frozen=True, kw_only=True):
    """An authenticated client: its token and its address."""

    token: Token
    address: str = ""

    @property
    def name(self) -> str:
        """The token's name, which is recorded as `who` or as `asked_by`."""
        return self.token.name

    async def request(self, hub: Hub, request_id: str) -> ApprovalRequest:
        """Return a request of the principal's project; any other is unknown to it."""
        request = await hub.get(request_id)
        if not self.token.is_for(request.project):
            raise problems.unknown_request()
        return request


def hub_of(connection: HTTPConnection) -> Hub:
    """Return the hub of this connection."""
    return cast("Hub", connection.scope["sayso.hub"])


def address_of(connection: HTTPConnection) -> str:
    """Return the address that a connection comes from."""
    return connection.client.host if connection.client else "unknown"


def cookie_name(connection: HTTPConnection, base: str = COOKIE) -> str:
    """Return the name of a cookie of this hub, by default of the session cookie.

    A browser sends the cookies of a host to all of its ports, so the name has the port; over https it has the
    prefix `__Host-`, so that no other host of the domain can set it; the prefix requires a hub at the root.
    """
    port = connection.headers.get("host", "").rpartition(":")[2]
    name = f"{base}_{port}" if port.isdigit() else base
    scope = connection.scope
    return f"__Host-{name}" if scope["scheme"] in {"https", "wss"} and not scope.get("root_path") else name


async def identify(connection: HTTPConnection) -> Principal:
    """Authenticate a connection by its bearer token or, in a signed-in browser, by its session cookie."""
    hub = hub_of(connection)
    scheme, _, text = (header(connection.scope, b"authorization") or "").partition(" ")
    if not text or scheme.lower() != "bearer":
        text = connection.cookies.get(cookie_name(connection), "")
    token_id = tokens.parse_token_id(text)
    token = None if token_id is None else await hub.store.token(token_id)
    address = address_of(connection)
    if token is None or not tokens.is_valid(token, text, hub.clock.now()):
        if text:
            hub.throttle.count_failure(address)
        raise HttpProblem(HTTPStatus.UNAUTHORIZED, "this needs a valid token; make one with `sayso token create`")
    connection.scope["sayso.who"] = token.name  # for the log
    return Principal(token=token, address=address)


def require_kind(principal: Principal, *kinds: TokenKind) -> Principal:
    """Return the principal if its token has one of these kinds."""
    if principal.token.kind not in kinds:
        sentence = f"a token of the kind {principal.token.kind} cannot do this; it takes one of: {', '.join(kinds)}"
        raise HttpProblem(HTTPStatus.FORBIDDEN, sentence)
    return principal


async def agent(connection: HTTPConnection) -> Principal:
    """Authenticate an agent."""
    return require_kind(await identify(connection), "agent")


async def person(connection: HTTPConnection) -> Principal:
    """Authenticate a person."""
    return require_kind(await identify(connection), "approver", "session")


async def anybody(connection: HTTPConnection) -> Principal:
    """Authenticate an agent or a person."""
    return require_kind(await identify(connection), "agent", "approver", "session")


async def _current_hub(connection: HTTPConnection) -> Hub:  # async, or FastAPI would run it in a thread
    return hub_of(connection)


Agent = Annotated[Principal, Depends(agent)]
Person = Annotated[Principal, Depends(person)]
Anybody = Annotated[Principal, Depends(anybody)]
TheHub = Annotated[Hub, Depends(_current_hub)]
