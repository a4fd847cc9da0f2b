"""Who is at the other end of a connection, by the token that it carries."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, cast

import msgspec
from fastapi import Depends
from starlette.requests import HTTPConnection

from sayso import tokens
from sayso.server.hub import Hub
from sayso.server.problems import Problem
from sayso.tokens import Token, TokenKind

COOKIE = "sayso_session"


class Principal(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody whom the hub knows."""

    token: Token

    @property
    def name(self) -> str:
        """Who it is: what is written down as `who`, or as `asked_by`."""
        return self.token.name


def hub_of(connection: HTTPConnection) -> Hub:
    """Return the hub that this connection has reached."""
    return cast("Hub", connection.app.state.hub)


async def identify(connection: HTTPConnection) -> Principal:
    """Return who this is, by the bearer token or, in a browser that has signed in, by its cookie."""
    hub = hub_of(connection)
    scheme, _, text = connection.headers.get("authorization", "").partition(" ")
    if not text or scheme.lower() != "bearer":
        text = connection.cookies.get(COOKIE, "")
    token_id = tokens.id_of(text)
    token = None if token_id is None else await hub.store.token(token_id)
    if token is None or not tokens.is_valid(token, text, hub.clock.now()):
        raise Problem(HTTPStatus.UNAUTHORIZED, "this needs a valid token; make one with `sayso token create`")
    return Principal(token=token)


def _only(principal: Principal, *kinds: TokenKind) -> Principal:
    if principal.token.kind not in kinds:
        sentence = f"a token of the kind {principal.token.kind} cannot do this; it takes one of: {', '.join(kinds)}"
        raise Problem(HTTPStatus.FORBIDDEN, sentence)
    return principal


async def _agent(connection: HTTPConnection) -> Principal:
    return _only(await identify(connection), "agent")


async def _person(connection: HTTPConnection) -> Principal:
    return _only(await identify(connection), "approver", "session")


Agent = Annotated[Principal, Depends(_agent)]
Person = Annotated[Principal, Depends(_person)]
