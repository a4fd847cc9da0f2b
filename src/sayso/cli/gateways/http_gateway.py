"""The HTTP end of `sayso mcp`: where it listens, what it holds for the server, and how long it serves.

Tests: tests/adapters/mcp/test_http.py
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from sayso.adapters.mcp.http_relay import PATH, HttpRelay
from sayso.adapters.mcp.http_request import Admission
from sayso.adapters.mcp.upstream import Upstream
from sayso.cli.screen import say
from sayso.errors import ConfigurationError
from sayso.server.serve import bind, create_gateway_server, is_loopback

if TYPE_CHECKING:
    from sayso.adapters.mcp.relay import Relay

_ADDRESS = re.compile(r"\[?([0-9A-Za-z.:-]+?)\]?:([0-9]{1,5})")
_HEADER = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+)=([A-Za-z_][A-Za-z0-9_]*)")


class Listener(msgspec.Struct, frozen=True, kw_only=True):
    """Where the relay listens, whom it admits, and the server behind it."""

    host: str
    port: int
    token: str | None
    upstream: str
    headers: dict[str, str]
    pass_authorization: bool


def read_listener(
    address: str, upstream: str, *, header_env: Iterable[str], token_env: str | None, pass_authorization: bool
) -> Listener:
    """Return the checked options.

    Raises:
        ConfigurationError: says which one is wrong.
    """
    found = _ADDRESS.fullmatch(address)
    if found is None:
        raise ConfigurationError(f"{address!r} is no address to listen at; write --listen 127.0.0.1:8485")
    token = None if token_env is None else _variable(token_env)
    if token is None and not is_loopback(found[1]):
        raise ConfigurationError(
            f"at {found[1]} others could make calls with your credential; listen at 127.0.0.1, or name a token that "
            "clients must send with --token-env"
        )
    headers = dict(_read_header(each) for each in header_env)
    if pass_authorization and (token is not None or "authorization" in headers):
        raise ConfigurationError(
            "clients send one Authorization: with --pass-authorization it is the server's, so leave out --token-env "
            "and an Authorization in --header-env"
        )
    return Listener(
        host=found[1],
        port=int(found[2]),
        token=token,
        upstream=upstream,
        headers=headers,
        pass_authorization=pass_authorization,
    )


def _read_header(given: str) -> tuple[str, str]:
    found = _HEADER.fullmatch(given)
    if found is None:
        raise ConfigurationError("--header-env takes NAME=VARIABLE, such as Authorization=CRM_TOKEN, and no value")
    return found[1].lower(), _variable(found[2])


def _variable(name: str) -> str:
    value = os.environ.get(name, "")
    if not value or not value.isascii() or not value.isprintable():
        raise ConfigurationError(f"the environment variable {name} has no value that a header can carry; set it")
    return value


async def serve_http(relay: Relay, listener: Listener) -> int:
    """Serve clients until a signal."""
    upstream = Upstream(listener.upstream, listener.headers)
    admission = Admission(host=listener.host, token=listener.token)
    app = HttpRelay(relay, upstream, admission, pass_authorization=listener.pass_authorization)
    with bind(listener.host, listener.port) as listening:
        host, port = listening.getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host
        say(f"http://{shown}:{port}{PATH}")
        try:
            await create_gateway_server(app).serve(sockets=[listening])
        finally:
            await app.ended()
            await upstream.close()
    return 0
