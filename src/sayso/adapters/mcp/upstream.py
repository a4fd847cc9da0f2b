"""The server's end over HTTP: sends messages, and reads answers that are one message or a stream of events.

Tests: tests/adapters/mcp/test_http.py
"""

from __future__ import annotations

import contextlib
import ipaddress
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Mapping
from http import HTTPStatus
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any, NamedTuple

try:
    import httpx2
except ImportError as error:
    raise ImportError("servers over HTTP need another library; run `pip install sayso[remote]`") from error

from sayso.errors import ConfigurationError, ToolError

EVENTS = "text/event-stream"
LARGEST = 64 * 1024 * 1024  # of a message: a server's answer may hold a whole file
_CONNECT_SECONDS = 15.0
_ACCEPTED = f"application/json, {EVENTS}"
_RETURNED = ("mcp-session-id", "mcp-protocol-version", "allow", "retry-after")
_PLAIN = {"accept": _ACCEPTED, "accept-encoding": "identity", "user-agent": "sayso"}


class ServerEvent(NamedTuple):
    """One message of a stream, with the id by which the stream can be resumed after it."""

    data: bytes
    id: str = ""
    retry: int | None = None  # milliseconds


class UpstreamAnswer:
    """An answer of the server, whose body has yet to be read."""

    def __init__(self, response: httpx2.Response) -> None:
        self._response = response
        self.status = response.status_code
        self.kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        self.headers = {name: response.headers[name] for name in _RETURNED if name in response.headers}
        self.challenge = response.headers.get("www-authenticate", "")

    @property
    def is_stream(self) -> bool:
        """Whether it is a stream of events."""
        return self.kind == EVENTS and self.status == HTTPStatus.OK

    async def body(self) -> bytes:
        """Return the whole body.

        Raises:
            ToolError: it is too large, or its end is missing.
        """
        found = bytearray()
        with _told("it broke off its answer, so whether the call has run is not known"):
            async for part in self._response.aiter_bytes():
                found += part
                if len(found) > LARGEST:
                    raise ToolError(
                        f"The server's answer has more than {LARGEST} bytes. Whether it has run is not known."
                    )
        return bytes(found)

    async def events(self) -> AsyncIterator[ServerEvent]:
        """Yield the events of a stream.

        Raises:
            ToolError: the stream has broken off, or an event is too large.
        """
        with _told("its stream has broken off, so whether the call has run is not known"):
            async for event in httpx2.EventSource(self._response, max_event_size=LARGEST):
                yield ServerEvent(event.data.encode(), event.id or "", event.retry)


class Upstream:
    """One server over HTTP, with the credential that the relay holds for it."""

    def __init__(self, url: str, credentials: Mapping[str, str]) -> None:
        self._url = _checked_url(url)
        options: dict[str, Any] = {
            "verify": self._url.startswith("https:"),  # plain HTTP has nothing to check
            "trust_env": self._url.startswith("https:"),
            "follow_redirects": False,
            "timeout": httpx2.Timeout(None, connect=_CONNECT_SECONDS),
            "headers": {**_PLAIN, **credentials},
            "cookies": CookieJar(DefaultCookiePolicy(allowed_domains=[])),  # else one client would go on as another
        }
        self._shared = httpx2.AsyncClient(**options, limits=httpx2.Limits(max_connections=None))
        # A connection of its own for each call: one that was kept may be dead, and then nobody knows what it carried.
        self._fresh = httpx2.AsyncClient(
            **options, limits=httpx2.Limits(max_connections=None, max_keepalive_connections=0)
        )

    @contextlib.asynccontextmanager
    async def send(
        self, method: str, headers: Mapping[str, str], body: bytes | None = None, *, fresh: bool = False
    ) -> AsyncGenerator[UpstreamAnswer]:
        """Send a request, and give its answer.

        Raises:
            ToolError: says whether the server can have got the request.
        """
        client = self._fresh if fresh else self._shared
        own = {} if body is None else {"content-type": "application/json"}
        with _told("it has not answered, so whether the call has run is not known"):
            request = client.build_request(method, self._url, headers={**headers, **own}, content=body)
            response = await client.send(request, stream=True)
        try:
            yield UpstreamAnswer(response)
        finally:
            await response.aclose()

    async def close(self) -> None:
        """Close all connections."""
        await self._shared.aclose()
        await self._fresh.aclose()


@contextlib.contextmanager
def _told(what: str) -> Generator[None]:
    try:
        yield
    except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
        raise ToolError(f"The server cannot be reached ({_words(error)}). Nothing was sent.") from None
    except (httpx2.HTTPError, httpx2.SSEError, httpx2.StreamError) as error:
        raise ToolError(f"The server has failed ({_words(error)}): {what}.") from None


def _words(error: Exception) -> str:
    """Name an error without its text if that could quote a header: one of them is the credential."""
    return type(error).__name__ if isinstance(error, httpx2.LocalProtocolError) else str(error) or type(error).__name__


def _checked_url(given: str) -> str:
    """Return the address of a server to which a credential may be sent.

    Raises:
        ConfigurationError: it is none, or the credential could be read on the way.
    """
    try:
        url = httpx2.URL(given)
    except httpx2.InvalidURL as error:
        raise ConfigurationError(f"{given!r} is no address of a server: {error}") from None
    if url.scheme not in {"http", "https"} or not url.host or url.userinfo or url.fragment:
        raise ConfigurationError(f"{given!r} is no address of a server; use one such as 'https://crm.example.com/mcp'")
    if url.scheme == "http" and not _is_this_machine(url.host):
        raise ConfigurationError(f"{given!r} can be read and changed by anybody on the way; use https://")
    return str(url)


def _is_this_machine(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
