"""Talking to a hub as a person with a token: what is sent, and what is wrong when nothing good comes back."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from http import HTTPStatus
from typing import Any, cast

from sayso.core import json_codec
from sayso.engine import settings
from sayso.errors import ConfigurationError, StoreError, UnknownRequest
from sayso.stores.remote.transport import checked_address

try:
    import httpx2
except ImportError as error:
    raise ImportError("talking to a hub is not installed; run `pip install sayso[remote]`") from error

_SECONDS = 30.0
_QUIET_SECONDS = 60.0  # a stream that says nothing for so long is dead: the hub says something every 15


class HubReply(dict[str, Any]):
    """What a hub tells; that it does not tell something that every hub does is a `StoreError`."""

    def __missing__(self, name: str) -> Any:  # noqa: ANN401 - nothing is returned
        """Say that this is no hub, or one of another version."""
        raise StoreError(f"the hub tells nothing of {name!r}; check its address, and whether it is of this version")


class HubClient:
    """A hub, and the token of whoever looks into it."""

    def __init__(self, url: str, token: str) -> None:
        """Take the address of the hub, and an approver's token."""
        self.address = checked_address(url, insecure=settings.is_insecure())
        if not token:
            raise ConfigurationError("a hub wants to know who you are: put an approver's token into SAYSO_TOKEN")
        self._client = httpx2.AsyncClient(
            base_url=self.address,
            headers={"authorization": f"Bearer {token}"},
            timeout=_SECONDS,
            follow_redirects=False,
            trust_env=self.address.startswith("https:"),  # else a proxy could read the token
        )

    async def get(self, path: str, **query: Any) -> HubReply:  # noqa: ANN401 - as httpx takes them
        """Return what the hub tells."""
        return (await self.send("GET", path, query=query))[1]

    async def send(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, *, query: Mapping[str, Any] | None = None
    ) -> tuple[int, HubReply]:
        """Send something, and return the status with what the hub says; where nothing is changed, only what is well."""
        content = None if body is None else json_codec.to_json(body)
        headers = {} if body is None else {"content-type": "application/json"}
        try:
            answer = await self._client.request(
                method, path, params=dict(query or {}), content=content, headers=headers
            )
        except httpx2.HTTPError as error:
            raise self._unreachable(error) from error
        facts = self._read_reply(answer)
        self._check(answer.status_code, facts, reading=method == "GET")
        return answer.status_code, facts

    async def lines(self, path: str) -> AsyncIterator[str]:
        """Yield the lines of a stream, for as long as the hub tells."""
        try:
            async with self._client.stream("GET", path, timeout=_QUIET_SECONDS) as stream:
                if stream.status_code != HTTPStatus.OK:
                    await stream.aread()
                    self._check(stream.status_code, self._read_reply(stream))
                async for line in stream.aiter_lines():
                    yield line
        except httpx2.HTTPError as error:
            raise self._unreachable(error) from error

    async def aclose(self) -> None:
        """Let go of the hub."""
        await self._client.aclose()

    def _unreachable(self, error: Exception) -> StoreError:
        return StoreError(f"the hub {self.address} cannot be reached ({type(error).__name__}); try again")

    def _check(self, status: int, facts: Mapping[str, Any], *, reading: bool = True) -> None:
        if status == HTTPStatus.UNAUTHORIZED:
            raise StoreError(f"the hub {self.address} does not take this token; put a valid one into SAYSO_TOKEN")
        if status == HTTPStatus.NOT_FOUND:
            raise UnknownRequest("the hub has no such request")
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR or (reading and status >= HTTPStatus.BAD_REQUEST):
            raise StoreError(f"the hub {self.address} says: {facts.get('detail', status)}")

    def _read_reply(self, answer: httpx2.Response) -> HubReply:
        """Read an answer; a page or a redirection comes from something else, perhaps in front of the hub."""
        try:
            facts: object = answer.json() if answer.content and not answer.is_redirect else {}
        except ValueError:
            facts = None
        if answer.is_redirect or not isinstance(facts, dict):
            raise StoreError(f"{self.address} does not answer as a hub does ({answer.status_code}); check the address")
        return HubReply(cast("dict[str, Any]", facts))
