"""Signing in with an account elsewhere: who comes back is who the provider vouches for, once."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from joserfc import jwt
from joserfc.jwk import OctKey, RSAKey

from sayso.errors import ConfigurationError
from sayso.server.hub import Hub
from sayso.server.oidc import Person, Provider, SignIn
from sayso.server.problems import Problem
from sayso.stores.sqlite import SqliteStore
from sayso.testing import FixedClock

pytestmark = pytest.mark.anyio

KEY, OTHER_KEY = (RSAKey.generate_key(2048, {"kid": "k1"}) for _ in range(2))


class Issuer:
    """A real HTTP server that speaks what a provider speaks."""

    def __init__(self) -> None:
        self.forged = ""
        self.claims: dict[str, Any] = {"email": "ann@example.org", "email_verified": True, "groups": ["ops", "a b"]}
        self.made: dict[str, Any] = {}
        self.key: Any = KEY
        self.header = {"alg": "RS256", "kid": "k1"}
        self.name = ""
        self.asked: dict[str, list[str]] = {}

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncGenerator[Issuer]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        try:
            yield self
        finally:
            server.close()
            await server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            length = next(
                (int(line[15:]) for line in head.split("\r\n") if line.lower().startswith("content-length:")), 0
            )
            body = parse_qs((await reader.readexactly(length)).decode())
            answer = json.dumps(self._answer(head.split(" ")[1], body))
            writer.write(
                f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(answer)}\r\n".encode()
            )
            writer.write(f"Connection: close\r\n\r\n{answer}".encode())
            await writer.drain()

    def _answer(self, path: str, body: dict[str, list[str]]) -> dict[str, Any]:
        if path == "/keys":
            return {"keys": [KEY.as_dict(private=False)]}
        if path == "/token":
            self.asked = body
            made = self.forged or jwt.encode(self.header, self.made, self.key)
            return {"access_token": "a", "token_type": "Bearer", "id_token": made}
        ends = {"authorization_endpoint": "/auth", "token_endpoint": "/token", "jwks_uri": "/keys"}
        return {"issuer": self.name or self.address, **{name: self.address + end for name, end in ends.items()}}


class Desk:
    """A browser that goes to the issuer and comes back."""

    def __init__(self, hub: Hub, issuer: Issuer, **settings: Any) -> None:
        self.issuer = issuer
        provider = Provider(issuer=issuer.address, client_id="sayso", **settings)
        self.sign_in = SignIn(hub, provider, url="https://hub.example")
        self.now = hub.clock.now()

    async def go(self) -> str:
        address, state = await self.sign_in.begin()
        self.sent = parse_qs(urlsplit(address).query)
        issuer, now = self.issuer, int(self.now)
        facts = {"iss": issuer.address, "aud": "sayso", "sub": "1", "iat": now, "exp": now + 60}
        issuer.made = {**facts, "nonce": self.sent["nonce"][0], **issuer.claims}
        return state

    async def visit(self) -> Person:
        return await self.sign_in.finish(await self.go(), "a-code")


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Hub]:
    store = SqliteStore(tmp_path / "sayso.db")
    yield Hub(store, clock=FixedClock())
    await store.aclose()


async def test_whoever_comes_back_is_known_by_their_proven_address_and_has_their_roles(hub: Hub) -> None:
    async with Issuer().serving() as issuer:
        desk = Desk(hub, issuer)
        person = await desk.visit()
        assert (person.name, person.roles) == ("ann@example.org", ("ops",))
        assert desk.sent["code_challenge_method"] == ["S256"]
        assert desk.sent["redirect_uri"] == ["https://hub.example/oidc/callback"]
        assert (issuer.asked["code"], "code_verifier" in issuer.asked) == (["a-code"], True)


async def test_a_sign_in_is_good_for_one_use_and_ten_minutes(hub: Hub) -> None:
    assert isinstance(hub.clock, FixedClock)
    async with Issuer().serving() as issuer:
        desk = Desk(hub, issuer)
        state = await desk.go()
        await desk.sign_in.finish(state, "a-code")
        for attempt in (state, "made-up"):
            with pytest.raises(Problem, match="used already or took too long"):
                await desk.sign_in.finish(attempt, "a-code")
        late = await desk.go()
        hub.clock.advance(601)
        with pytest.raises(Problem, match="took too long"):
            await desk.sign_in.finish(late, "a-code")


@pytest.mark.parametrize(
    "forged",
    [
        {"nonce": "another"},
        {"aud": "another-client"},
        {"iss": "https://evil.example"},
        {"exp": 5},
        {"azp": "another-client"},
    ],
    ids=lambda forged: next(iter(forged)),
)
async def test_an_answer_that_was_made_for_something_else_is_refused(hub: Hub, forged: dict[str, Any]) -> None:
    async with Issuer().serving() as issuer:
        issuer.claims |= forged
        with pytest.raises(Problem, match="did not confirm who you are"):
            await Desk(hub, issuer).visit()


@pytest.mark.parametrize("how", ["another key", "no signature", "a secret that everybody knows", "another name"])
async def test_an_answer_that_the_provider_did_not_sign_is_refused(hub: Hub, how: str) -> None:
    async with Issuer().serving() as issuer:
        if how == "another key":
            issuer.key = OTHER_KEY
        elif how == "another name":
            issuer.name = "https://evil.example"
        elif how == "a secret that everybody knows":
            issuer.key, issuer.header = OctKey.import_key(b"x" * 32), {"alg": "HS256", "kid": "k1"}
        else:
            issuer.forged = "eyJhbGciOiJub25lIn0.e30."
        with pytest.raises(Problem, match="did not confirm who you are"):
            await Desk(hub, issuer).visit()


@pytest.mark.parametrize(
    "claims", [{"email_verified": False}, {"email_verified": "true"}, {"email": "a b@x"}, {"email": ""}]
)
async def test_an_address_that_is_not_proven_signs_nobody_in(hub: Hub, claims: dict[str, Any]) -> None:
    async with Issuer().serving() as issuer:
        issuer.claims |= claims
        with pytest.raises(Problem, match="no proven mail address"):
            await Desk(hub, issuer).visit()


async def test_only_addresses_of_the_named_domains_sign_in(hub: Hub) -> None:
    async with Issuer().serving() as issuer:
        with pytest.raises(Problem, match="may not sign in here"):
            await Desk(hub, issuer, domains=("example.com",)).visit()
        assert (await Desk(hub, issuer, domains=("example.org",)).visit()).name == "ann@example.org"


async def test_a_provider_that_is_away_is_said(hub: Hub) -> None:
    async with Issuer().serving() as issuer:
        desk = Desk(hub, issuer)
    with pytest.raises(Problem, match="cannot be reached"):
        await desk.sign_in.begin()


def test_a_provider_without_https_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="must be an https address"):
        Provider(issuer="http://accounts.example", client_id="sayso")
