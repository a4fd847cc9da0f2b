"""OpenID Connect sign-in: authorization code flow with PKCE; state and nonce are single-use."""

from __future__ import annotations

import logging
import re
import secrets
from collections import deque
from http import HTTPStatus
from typing import Any, cast
from urllib.parse import urlsplit

import msgspec
from fastapi import APIRouter, FastAPI
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from sayso.core.tokens import EVERY_PROJECT
from sayso.errors import ConfigurationError
from sayso.server.http.problems import HttpProblem
from sayso.server.hub import Hub
from sayso.server.identity import address_of, cookie_name
from sayso.server.middleware import LOOPBACK
from sayso.server.routes.sign_in import cookie_options, mount_of, start_session

try:
    import httpx2
    from authlib.integrations.base_client.errors import OAuthError
    from authlib.integrations.httpx_client import AsyncOAuth2Client
    from joserfc import jwt
    from joserfc.errors import JoseError
    from joserfc.jwk import KeySet
except ImportError as error:
    raise ImportError("signing in by OpenID Connect is not installed; run `pip install sayso[oidc]`") from error

_LOG = logging.getLogger("sayso")
_ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
_STATE_SECONDS = 600.0
_LEEWAY_SECONDS = 60
_SECONDS = 15.0
_COOKIE = "sayso_oidc"
_ROLE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,99}")
_ADDRESS = re.compile(r"(?=.{3,100}$)[a-z0-9][a-z0-9._+-]*@[a-z0-9.-]+")
_ENDPOINTS = ("authorization_endpoint", "token_endpoint", "jwks_uri")


class Provider(msgspec.Struct, frozen=True, kw_only=True):
    """OpenID provider: issuer, client credentials, and the e-mail domains that may sign in."""

    issuer: str
    client_id: str
    client_secret: str = ""
    roles_claim: str = "groups"
    domains: tuple[str, ...] = ()  # of e-mail addresses; empty means all accounts of the issuer
    project: str = EVERY_PROJECT

    def __post_init__(self) -> None:
        """Reject an issuer without TLS."""
        if not _is_tls_or_local(self.issuer):
            raise ConfigurationError(f"the issuer {self.issuer!r} must be an https address")


class VerifiedPerson(msgspec.Struct, frozen=True, kw_only=True):
    """A person whose identity the provider has verified."""

    name: str
    roles: tuple[str, ...]


class _PendingSignIn(msgspec.Struct):
    """State of a sign-in until the browser returns from the provider."""

    nonce: str
    verifier: str
    at: float


class OidcSignIn:
    """Authorization code flow: redirects browsers to the provider, and verifies the ID token on their return."""

    def __init__(self, hub: Hub, provider: Provider, *, url: str) -> None:
        self._hub = hub
        self._provider = provider
        self._redirect_uri = f"{url.rstrip('/')}/oidc/callback"
        self._pending_states: deque[tuple[float, str]] = deque()  # start time and state of each, oldest first
        self.provider_host = urlsplit(provider.issuer).hostname or provider.issuer

    async def begin(self) -> tuple[str, str]:
        """Return the provider's URL for a browser, and the single-use state that it must bring back."""
        endpoints = await self._discover()  # first: if the provider cannot be reached, no state is stored
        await self._forget_expired()
        pending = _PendingSignIn(secrets.token_urlsafe(32), secrets.token_urlsafe(48), self._hub.clock.now())
        state = secrets.token_urlsafe(32)
        self._pending_states.append((pending.at, state))
        await self._hub.store.park(_state_key(state), msgspec.json.encode(pending))
        client = self._client()
        address, _ = client.create_authorization_url(
            endpoints["authorization_endpoint"], state=state, code_verifier=pending.verifier, nonce=pending.nonce
        )
        return cast("str", address), state

    async def _forget_expired(self) -> None:
        """Delete the states of browsers that never returned."""
        while self._pending_states and self._hub.clock.now() > self._pending_states[0][0] + _STATE_SECONDS:
            await self._hub.store.unpark(_state_key(self._pending_states.popleft()[1]))

    async def finish(self, state: str, code: str) -> VerifiedPerson:
        """Exchange the code, and return the verified person; state and code are single-use."""
        stored = await self._hub.store.unpark(_state_key(state))
        pending = None if stored is None else msgspec.json.decode(stored, type=_PendingSignIn)
        if pending is None or self._hub.clock.now() > pending.at + _STATE_SECONDS:
            raise HttpProblem(HTTPStatus.BAD_REQUEST, "this sign-in was used already or took too long; begin again")
        try:
            claims = await self._claims(code, pending)
        except (OAuthError, JoseError, KeyError, ValueError, TypeError) as error:
            raise _provider_problem(f"its answer was not valid ({type(error).__name__})") from error
        return self._person(claims)

    def _client(self) -> Any:  # noqa: ANN401 - Authlib's clients are not typed
        return AsyncOAuth2Client(
            self._provider.client_id,
            self._provider.client_secret or None,
            scope="openid email profile",
            redirect_uri=self._redirect_uri,
            code_challenge_method="S256",
            follow_redirects=False,
            timeout=_SECONDS,
        )

    async def _discover(self) -> dict[str, Any]:
        facts = await _get_json(f"{self._provider.issuer.rstrip('/')}/.well-known/openid-configuration")
        if facts.get("issuer") != self._provider.issuer:
            raise _provider_problem("it calls itself something else")
        if not all(isinstance(facts.get(each), str) and _is_tls_or_local(facts[each]) for each in _ENDPOINTS):
            raise _provider_problem("it names no https addresses to go to")
        return facts

    async def _claims(self, code: str, pending: _PendingSignIn) -> dict[str, Any]:
        endpoints = await self._discover()
        try:
            async with self._client() as client:
                token = await client.fetch_token(endpoints["token_endpoint"], code=code, code_verifier=pending.verifier)
        except httpx2.HTTPError as error:
            raise _provider_problem(f"it cannot be reached ({type(error).__name__})") from error
        keys = KeySet.import_key_set(cast("Any", await _get_json(endpoints["jwks_uri"])))
        claims = jwt.decode(token["id_token"], keys, algorithms=_ALGORITHMS).claims
        registry = jwt.JWTClaimsRegistry(
            now=int(self._hub.clock.now()),
            leeway=_LEEWAY_SECONDS,
            iss={"essential": True, "value": self._provider.issuer},
            aud={"essential": True, "value": self._provider.client_id},
            exp={"essential": True},
            sub={"essential": True},
            nonce={"essential": True, "value": pending.nonce},
        )
        registry.validate(claims)
        if claims.get("azp", self._provider.client_id) != self._provider.client_id:
            raise ValueError("the answer was made for somebody else")
        return claims

    def _person(self, claims: dict[str, Any]) -> VerifiedPerson:
        """Return the person of these claims, identified by a verified e-mail address."""
        address = str(claims.get("email")).lower()  # case-insensitive: else one person could count as two
        if not _ADDRESS.fullmatch(address) or claims.get("email_verified") is not True:
            raise HttpProblem(HTTPStatus.FORBIDDEN, "your account has no proven mail address to know you by")
        if self._provider.domains and address.rpartition("@")[2] not in self._provider.domains:
            raise HttpProblem(HTTPStatus.FORBIDDEN, f"{address} may not sign in here")
        roles: object = claims.get(self._provider.roles_claim, [])
        names = [each for each in cast("list[object]", roles) if isinstance(each, str)] if type(roles) is list else []
        return VerifiedPerson(name=address, roles=tuple(each for each in names if _ROLE.fullmatch(each)))


async def _get_json(address: str) -> dict[str, Any]:
    try:
        async with httpx2.AsyncClient(timeout=_SECONDS, follow_redirects=False) as client:
            answer = await client.get(address)
        answer.raise_for_status()
        facts = answer.json()
    except (httpx2.HTTPError, ValueError) as error:
        raise _provider_problem(f"{urlsplit(address).hostname} cannot be reached ({type(error).__name__})") from error
    if not isinstance(facts, dict):
        raise _provider_problem("its answer was not valid")
    return cast("dict[str, Any]", facts)


def install(app: FastAPI, provider: Provider, *, url: str) -> None:
    """Add the routes of OpenID sign-in to an application; `url` is the hub's public address."""
    hub: Hub = app.state.hub
    sign_in = OidcSignIn(hub, provider, url=url)
    app.state.accounts = sign_in.provider_host
    router = APIRouter(include_in_schema=False)

    @router.get("/oidc/start")
    async def start(request: Request) -> Response:  # pyright: ignore[reportUnusedFunction] - it is a route
        try:
            hub.throttle.count_sign_in(address_of(request))
            address, state = await sign_in.begin()
        except HttpProblem as problem:
            return _refusal_redirect(request, problem)
        answer = RedirectResponse(address, HTTPStatus.SEE_OTHER)
        # Binds the state to this browser (login CSRF): else a forged link could sign a person in as another.
        name, options = cookie_name(request, _COOKIE), cookie_options(request, "lax")
        answer.set_cookie(name, state, max_age=int(_STATE_SECONDS), **options)
        return answer

    @router.get("/oidc/callback")
    async def callback(request: Request) -> Response:  # pyright: ignore[reportUnusedFunction] - as above
        try:
            person = await sign_in.finish(*_returned_state(request))
        except HttpProblem as problem:
            return _refusal_redirect(request, problem)
        answer = RedirectResponse(_home(request), HTTPStatus.SEE_OTHER)
        answer.delete_cookie(cookie_name(request, _COOKIE), **cookie_options(request, "lax"))
        await start_session(request, answer, hub, name=person.name, project=provider.project, roles=person.roles)
        return answer

    app.include_router(router)


def _returned_state(request: Request) -> tuple[str, str]:
    """Return state and code of a returning browser, if its cookie has the same state."""
    state, code = (request.query_params.get(each, "") for each in ("state", "code"))
    if not state or request.cookies.get(cookie_name(request, _COOKIE)) != state:
        raise HttpProblem(HTTPStatus.BAD_REQUEST, "this browser did not begin to sign in here; begin again")
    if not code:
        raise HttpProblem(HTTPStatus.UNAUTHORIZED, "the provider did not sign them in")
    return state, code


def _refusal_redirect(request: Request, problem: HttpProblem) -> Response:
    """Redirect to the sign-in page, which has a sentence for the status; the reason is logged."""
    _LOG.warning("somebody did not sign in by their account: %s", problem.detail)
    return RedirectResponse(f"{_home(request)}sign-in?refused={problem.status.value}", HTTPStatus.SEE_OTHER)


def _home(request: Request) -> str:
    return f"{mount_of(request).rstrip('/')}/"


def _state_key(state: str) -> str:
    return f"oidc\0{state}"


def _is_tls_or_local(address: str) -> bool:
    """Whether an address uses TLS, or is on this machine."""
    parts = urlsplit(address)
    return parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in LOOPBACK)


def _provider_problem(why: str) -> HttpProblem:
    return HttpProblem(HTTPStatus.BAD_GATEWAY, f"the sign-in provider did not confirm who you are: {why}; try again")
