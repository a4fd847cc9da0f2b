"""REST client of a hub for approvers: JSON requests, event stream, and errors as sentences.

Tests: tests/cli/test_hub.py
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from http import HTTPStatus
from typing import Any, cast
from urllib.parse import quote

from sayso.core import json_codec
from sayso.engine import settings
from sayso.errors import ConfigurationError, StoreError, UnknownRequest
from sayso.stores.remote.transport import HubEndpoint

try:
    import httpx2
except ImportError as error:
    raise ImportError("talking to a hub is not installed; run `pip install sayso[remote]`") from error

_SECONDS = 30.0
_QUIET_SECONDS = 60.0  # a silent stream is dead: the hub sends a heartbeat every 15


class HubReply(dict[str, Any]):
    """JSON body of a reply; a missing field, which every hub sends, raises `StoreError`."""

    def __missing__(self, name: str) -> Any:  # noqa: ANN401 - never returns
        """Raise: the reply is not from a hub, or from one of another version."""
        raise StoreError(f"the hub tells nothing of {name!r}; check its address, and whether it is of this version")


def path_of(*parts: str) -> str:
    """Return a path whose parts, which may come from an agent, cannot lead elsewhere."""
    # A client resolves dots before it sends a path, quoted or not.
    return "".join(f"/{'%2E' * len(part) if part in {'.', '..'} else quote(part, safe='')}" for part in parts)


class HubClient:
    """REST client with an approver's bearer token."""

    def __init__(self, url: str, token: str) -> None:
        self._endpoint = HubEndpoint(url, token, insecure=settings.is_insecure())
        self.address = self._endpoint.url
        if not token:
            raise ConfigurationError("a hub wants to know who you are: put your token into SAYSO_TOKEN")
        self._client = httpx2.AsyncClient(base_url=self.address, timeout=_SECONDS, **self._endpoint.client_options())

    async def get(self, path: str, **query: Any) -> HubReply:  # noqa: ANN401 - query values as httpx accepts them
        """Return the body of a reply that is OK."""
        return (await self.send("GET", path, query=query))[1]

    async def send(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, *, query: Mapping[str, Any] | None = None
    ) -> tuple[int, HubReply]:
        """Send a request, and return status and body; a 4xx is raised for GET; other methods return it."""
        content = None if body is None else json_codec.to_json(body)
        headers = {} if body is None else {"content-type": "application/json"}
        try:
            answer = await self._client.request(
                method, path, params=dict(query or {}), content=content, headers=headers
            )
        except httpx2.RequestError as error:
            raise self._endpoint.unreachable(error) from error
        return answer.status_code, self._checked_reply(answer, reading=method == "GET")

    async def events(self, path: str) -> AsyncIterator[httpx2.ServerSentEvent]:
        """Yield the server-sent events of a stream, until the hub ends it."""
        try:
            async with self._client.stream("GET", path, timeout=_QUIET_SECONDS) as stream:
                if stream.status_code != HTTPStatus.OK:
                    await stream.aread()
                    self._checked_reply(stream, reading=True)
                async for event in httpx2.EventSource(stream, max_event_size=None):
                    yield event
        except httpx2.SSEError as error:
            raise StoreError(f"{self.address} sends no events of a hub; is its address right? ({error})") from error
        except httpx2.RequestError as error:
            raise self._endpoint.unreachable(error) from error

    async def aclose(self) -> None:
        """Close all connections."""
        await self._client.aclose()

    def _checked_reply(self, answer: httpx2.Response, *, reading: bool) -> HubReply:
        """Decode a reply; an HTML page or a redirect comes from something else, such as a proxy."""
        status, facts = answer.status_code, _json_object(answer)
        if facts is None or answer.is_redirect or status == HTTPStatus.UNAUTHORIZED:
            raise self._endpoint.problem(answer)
        if status == HTTPStatus.NOT_FOUND:
            raise UnknownRequest("the hub has no such request")
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR or (reading and status >= HTTPStatus.BAD_REQUEST):
            raise self._endpoint.problem(answer)
        return HubReply(facts)


def _json_object(answer: httpx2.Response) -> dict[str, Any] | None:
    try:
        facts: object = answer.json() if answer.content else {}
    except ValueError:
        return None
    return cast("dict[str, Any]", facts) if isinstance(facts, dict) else None
