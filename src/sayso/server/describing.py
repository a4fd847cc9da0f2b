"""What routes say about themselves in the OpenAPI document, and how they write what they tell."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from starlette.responses import Response

from sayso.server import shapes
from sayso.server.problems import KIND

_PROBLEM = {"schema": {"$ref": f"#/components/schemas/{shapes.Problem.__name__}"}}

Responses = dict[int | str, dict[str, Any]]


def told(shape: Any) -> Responses:  # noqa: ANN401 - whatever pydantic can describe
    """Describe what is told when all is well."""
    return {200: {"model": shape}}


def refusals(*statuses: int) -> Responses:
    """Describe what can be wrong; every route can be sent something that does not fit it."""
    known = sorted({*statuses, HTTPStatus.UNPROCESSABLE_ENTITY.value})
    return {each: {"description": HTTPStatus(each).phrase, "content": {KIND: _PROBLEM}} for each in known}


def json_answer(text: str) -> Response:
    """Return JSON that is written already."""
    return Response(text, media_type="application/json")
