"""A way past FastAPI for what is sent most: it would take longer to read that than the hub takes to do it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING

import msgspec
from starlette.requests import Request

from sayso.server.http import problems
from sayso.server.http.headers import header, path_of

if TYPE_CHECKING:
    from starlette.responses import Response
    from starlette.types import ASGIApp, Receive, Scope, Send

LONGEST_ID = 100


class Way(msgspec.Struct, frozen=True, kw_only=True):
    """What answers POST requests to one folder: it is given the request, and the name in the folder."""

    folder: str
    endpoint: Callable[[Request, str], Awaitable[Response]]
    media: str = ""  # takes bodies of this kind only, or of any

    def takes(self, scope: Scope) -> bool:
        """Whether this request is one for here."""
        is_kind = not self.media or header(scope, b"content-type") == self.media
        return is_kind and scope["method"] == "POST" and not scope["query_string"]


class Swift:
    """Takes what comes without a query; all else is for FastAPI's route of the same address."""

    def __init__(self, app: ASGIApp, ways: Iterable[Way]) -> None:
        """Take the ways, and where all else goes."""
        self._app = app
        self._ways = {way.folder: way for way in ways}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or pass on."""
        folder, _, name = path_of(scope).rpartition("/") if scope["type"] == "http" else ("", "", "")
        way = self._ways.get(folder)
        if way is None or not 0 < len(name) <= LONGEST_ID or not way.takes(scope):
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        try:
            response = await way.endpoint(request, name)
        except problems.HANDLED_ERRORS as error:
            response = await problems.handle_error(request, error)
        await response(scope, receive, send)
