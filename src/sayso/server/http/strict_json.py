"""Strict JSON parser for bodies and messages: no duplicate keys, no NaN, no other encoding than UTF-8.

Tests: tests/server/routes/test_answering.py
"""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine
from http import HTTPStatus
from typing import Any

from fastapi import HTTPException, Request, Response
from fastapi.routing import APIRoute

from sayso.core.canonical import parse_args, thaw
from sayso.errors import CanonicalError

_JSON_MEDIA = re.compile(r"application/([^/]+\+)?json")


def read_object(text: str | bytes) -> dict[str, Any]:
    """Parse one JSON object, without duplicate keys and without NaN or Infinity.

    Raises:
        CanonicalError: why it is invalid.
    """
    try:
        return thaw(parse_args(text if isinstance(text, str) else text.decode()))
    except UnicodeDecodeError as error:
        raise CanonicalError("the body is not UTF-8") from error


def is_json_media(media: str) -> bool:
    """Whether a Content-Type is JSON, with or without parameters."""
    return _JSON_MEDIA.fullmatch(media.partition(";")[0].strip().lower()) is not None


class _StrictRequest(Request):
    async def json(self) -> dict[str, Any]:
        try:
            return read_object(await self.body())
        except CanonicalError as error:
            # An HTTPException: FastAPI would replace the sentence of any other error.
            raise HTTPException(HTTPStatus.UNPROCESSABLE_ENTITY, str(error)) from error


class StrictRoute(APIRoute):
    """FastAPI route whose JSON body is parsed strictly."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return FastAPI's handler, with a request that parses strictly."""
        handle = super().get_route_handler()

        async def handle_strictly(request: Request) -> Response:
            return await handle(_StrictRequest(request.scope, request.receive))

        return handle_strictly
