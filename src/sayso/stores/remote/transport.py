"""HTTP transport to a hub: address check, bearer token, TLS, retries, and each failure as one sentence.

Tests: tests/stores/remote/test_store.py
"""

from __future__ import annotations

import ipaddress
import math
import ssl
import threading
import time
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any, TypeVar

import msgspec

try:
    import httpx2
except ImportError as error:
    raise ImportError("asking through a hub needs another library; run `pip install sayso[remote]`") from error

from sayso.core import tokens
from sayso.core.agent_protocol import MEDIA, UNKNOWN_REQUEST, AgentMessage
from sayso.errors import ConfigurationError, StoreError, UnknownRequest
from sayso.stores.retry import retry

T = TypeVar("T")

_SECONDS = 15.0  # for one attempt
_SHORT_PATIENCE = 2.0  # for all attempts, at a hub that has long been unreachable
_MOST_CONNECTIONS = 32
_NOT_TLS = frozenset({"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG"})
_TRY_AGAIN = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS})


class HubUnavailable(StoreError):
    """The hub is unreachable or not ready; a retry may succeed."""


class HubEndpoint:
    """Address of a hub with a bearer token: client options, and each failure as one sentence."""

    tls_advice = "name the file with its authority's certificate in SSL_CERT_FILE"

    def __init__(self, url: str, token: str, *, insecure: bool, tls: ssl.SSLContext | None = None) -> None:
        self.url = checked_address(url, insecure=insecure)
        if not (token.isascii() and token.isprintable() and " " not in token):
            raise ConfigurationError("the token for the hub has a line break or another odd character; copy it whole")
        self._headers = {"authorization": f"Bearer {token}"}
        self._tls = tls

    def __repr__(self) -> str:
        """Return the address, and never the token."""
        return f"Hub({self.url!r})"

    def client_options(self) -> dict[str, Any]:
        """Return the options of every HTTP client of this hub: no redirects, and no proxy that could read the token."""
        return {
            "headers": self._headers,
            "verify": self._tls or self.url.startswith("https:"),  # plain HTTP has nothing to check
            "follow_redirects": False,
            "trust_env": self.url.startswith("https:"),
        }

    def problem(self, response: httpx2.Response) -> StoreError | UnknownRequest:
        """Map a failed response, of the hub or of something in its place, to an error."""
        status, detail = response.status_code, _details(response)[1]
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR or status in _TRY_AGAIN:
            return HubUnavailable(f"the hub {self.url} cannot serve now ({status}{detail}); look at its log")
        if response.is_redirect:
            where = response.headers.get("location", "elsewhere")
            return StoreError(f"the hub {self.url} sends to {where!r}; give that address if it is right")
        if status == HTTPStatus.UNAUTHORIZED:
            return StoreError(
                f"the hub {self.url} does not take the token: it has expired, was revoked or is of another hub; "
                "make one with `sayso token create` and put it in SAYSO_TOKEN"
            )
        if status in {HTTPStatus.OK, HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED}:
            return StoreError(f"there is no sayso hub at {self.url} ({status}{detail}); check the address")
        return StoreError(f"the hub {self.url} refuses ({status}{detail})")

    def unreachable(self, error: httpx2.RequestError) -> StoreError:
        """Map an error of httpx to a `StoreError`."""
        # A header that cannot be sent is quoted by httpx, and that header is the token.
        is_unquotable = isinstance(error, httpx2.LocalProtocolError) or not str(error)
        detail = type(error).__name__ if is_unquotable else str(error)
        if _speaks_plain_http(error):
            return StoreError(
                f"what answers at {self.url} speaks http, not https; write http:// in the address, "
                "or let it serve https"
            )
        if _is_certificate_error(error):
            return StoreError(f"the hub {self.url} cannot be trusted: {detail}; {self.tls_advice}")
        if isinstance(error, httpx2.TransportError) and not isinstance(error, httpx2.UnsupportedProtocol):
            return HubUnavailable(
                f"the hub {self.url} cannot be reached ({detail}); check that it runs, and the network"
            )
        return StoreError(f"the hub {self.url} answers in a way that cannot be read: {detail}")


class HubAddress(HubEndpoint):
    """Endpoint with an agent's token. Each operation may be retried: the hub applies it once (idempotency key)."""

    tls_advice = f"{HubEndpoint.tls_advice}, or pass tls="

    def __init__(
        self, url: str, token: str, *, insecure: bool = False, tls: ssl.SSLContext | None = None, patience: float = 30.0
    ) -> None:
        super().__init__(url, _checked_token(token), insecure=insecure, tls=tls)
        self.patience = patience
        self._headers |= {"content-type": MEDIA, "accept": MEDIA}
        self._reached = time.monotonic()
        self._lock = threading.Lock()

    def client_options(self) -> dict[str, Any]:
        """Return the options of every client, with the time-outs and connection limits of an agent."""
        return super().client_options() | {
            "timeout": httpx2.Timeout(_SECONDS, connect=5.0, pool=None),
            "limits": httpx2.Limits(
                max_connections=_MOST_CONNECTIONS, max_keepalive_connections=_MOST_CONNECTIONS, keepalive_expiry=30.0
            ),
        }

    def address(self, operation: str) -> str:
        """Return the URL of an operation."""
        return f"{self.url}/agent/{operation}"

    def deadline(self) -> float:
        """Return when to give up retrying: later if the hub was reached recently."""
        return max(self._reached + self.patience, time.monotonic() + min(_SHORT_PATIENCE, self.patience))

    def check_response(self, response: httpx2.Response) -> bytes:
        """Return the body of a response that is OK, or raise the error it means."""
        if response.status_code == HTTPStatus.OK and response.headers.get("content-type") == MEDIA:
            with self._lock:
                self._reached = time.monotonic()
            return response.content
        raise self.problem(response)

    def decode(self, content: bytes, decoder: msgspec.msgpack.Decoder[T]) -> T:
        """Decode the body of a response."""
        try:
            return decoder.decode(content)
        except (msgspec.MsgspecError, ValueError) as error:
            raise StoreError(f"the hub {self.url} answers in a way that cannot be read: {error}") from error

    def problem(self, response: httpx2.Response) -> StoreError | UnknownRequest:
        """Map a failed response to an error; an unknown request is no failure of the hub."""
        if response.status_code == HTTPStatus.NOT_FOUND and _details(response)[0] == UNKNOWN_REQUEST:
            return UnknownRequest("the hub knows no such request of this agent")
        return super().problem(response)


class AsyncHubTransport:
    """Asynchronous transport, for one event loop."""

    def __init__(self, hub: HubAddress) -> None:
        self.hub = hub
        self._client = httpx2.AsyncClient(**hub.client_options())

    async def send_once(self, operation: str, message: AgentMessage, *, extra_seconds: float = 0.0) -> bytes:
        """Make one attempt; a long poll adds `extra_seconds` to its time-out."""
        timeout = httpx2.Timeout(_SECONDS + extra_seconds, connect=5.0, pool=None)
        body = msgspec.msgpack.encode(message)
        try:
            return self.hub.check_response(
                await self._client.post(self.hub.address(operation), content=body, timeout=timeout)
            )
        except httpx2.RequestError as error:
            raise self.hub.unreachable(error) from None  # the sentence has the detail

    async def send_with_retry(self, operation: str, message: AgentMessage, *, patience: float = math.inf) -> bytes:
        """Retry with back-off until there is a reply, or until the deadline."""
        until = min(self.hub.deadline(), time.monotonic() + patience)
        return await retry(lambda: self.send_once(operation, message), retry_on=HubUnavailable, deadline=lambda: until)

    async def aclose(self) -> None:
        """Close all connections."""
        await self._client.aclose()


class HubTransport:
    """Synchronous transport, for one thread without an event loop: it also works at interpreter exit."""

    def __init__(self, hub: HubAddress) -> None:
        self.hub = hub
        self._client = httpx2.Client(**hub.client_options())

    def send_once(self, operation: str, message: AgentMessage) -> bytes:
        """Make one attempt."""
        try:
            return self.hub.check_response(
                self._client.post(self.hub.address(operation), content=msgspec.msgpack.encode(message))
            )
        except httpx2.RequestError as error:
            raise self.hub.unreachable(error) from None  # the sentence has the detail

    def close(self) -> None:
        """Close all connections."""
        self._client.close()


def checked_address(url: str, *, insecure: bool) -> str:
    """Validate the address of a hub to which a token may be sent, and return it.

    Raises:
        ConfigurationError: the address is invalid; the message names the reason.
    """
    try:
        parts = httpx2.URL(url)
    except httpx2.InvalidURL as error:
        raise ConfigurationError(f"{url!r} is no address of a hub: {error}") from error
    if parts.scheme not in {"http", "https"} or not parts.host:
        raise ConfigurationError(f"{url!r} is no address of a hub; use one such as 'https://hub.example.com'")
    if parts.userinfo or parts.query or parts.fragment:
        raise ConfigurationError("the address of a hub has no name, password, ? or #; the token goes in SAYSO_TOKEN")
    if parts.scheme == "http" and not insecure and not _is_loopback(parts.host):
        raise ConfigurationError(
            f"{url!r} would send the token where anybody on the way can read it; use https://, or say that this is "
            "meant with SAYSO_INSECURE=1 or insecure=True"
        )
    return str(parts).rstrip("/")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _checked_token(token: str) -> str:
    if not token:
        raise ConfigurationError("a hub asks for a token; make one with `sayso token create` and put it in SAYSO_TOKEN")
    if tokens.parse_token_id(token) is None:
        raise ConfigurationError("the token for the hub is no token of sayso, or only a part of one; copy it whole")
    if not token.startswith("sayso_agent_"):
        raise ConfigurationError("the token for the hub is not an agent's; an agent must not carry one that can answer")
    return token


def _details(response: httpx2.Response) -> tuple[str, str]:
    """Return kind and detail of a problem response (RFC 9457)."""
    try:
        problem = msgspec.json.decode(response.content, type=dict[str, Any])
    except (msgspec.MsgspecError, ValueError):
        return "", ""
    detail = problem.get("detail")
    return str(problem.get("kind", "")), f": {detail[:500]}" if isinstance(detail, str) else ""


def _is_certificate_error(error: BaseException) -> bool:
    return any(isinstance(each, ssl.SSLCertVerificationError) for each in _chain(error))


def _speaks_plain_http(error: BaseException) -> bool:
    """Whether the TLS handshake got an answer that is not TLS; versions of OpenSSL name it differently."""
    return any(isinstance(each, ssl.SSLError) and each.reason in _NOT_TLS for each in _chain(error))


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
