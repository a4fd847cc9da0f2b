"""OpenAPI document: descriptions that the routes share, and JSON responses."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Any, cast

from starlette.responses import Response

from sayso.core import json_codec
from sayso.core.model import ApprovalRequest
from sayso.server.http import schemas
from sayso.server.http.problems import MEDIA_TYPE
from sayso.server.identity import COOKIE

_PROBLEM = {"schema": {"$ref": f"#/components/schemas/{schemas.ProblemModel.__name__}"}}

_SECURITY_SCHEMES = {
    "bearer": {"type": "http", "scheme": "bearer", "description": "A token from `sayso token create`."},
    "cookie": {
        "type": "apiKey",
        "in": "cookie",
        "name": COOKIE,
        "description": "Set by `POST /sign-in`; its name has the hub's port too, and over https begins with `__Host-`.",
    },
}

_TOKEN: list[dict[str, list[str]]] = [{name: []} for name in _SECURITY_SCHEMES]
WITHOUT_TOKEN_TOO = [*_TOKEN, {}]  # the empty one: who needs no token is said in the description

Responses = dict[int | str, dict[str, Any]]


def ok_response(model: Any) -> Responses:  # noqa: ANN401 - any type that pydantic can describe
    """Describe the response with status 200."""
    return {200: {"model": model}}


def problem_responses(*statuses: int) -> Responses:
    """Describe the problem responses of a route; every route can respond with 422."""
    all_statuses = sorted({*statuses, HTTPStatus.UNPROCESSABLE_ENTITY.value})
    return {each: {"description": HTTPStatus(each).phrase, "content": {MEDIA_TYPE: _PROBLEM}} for each in all_statuses}


def add_shared_parts(document: dict[str, Any]) -> None:
    """Add the shared schemas and security schemes; as dependencies, FastAPI would evaluate them with every request."""
    components = document.setdefault("components", {})
    components["securitySchemes"] = _SECURITY_SCHEMES
    components["schemas"][schemas.ProblemModel.__name__] = schemas.ProblemModel.model_json_schema()
    for unused in ("HTTPValidationError", "ValidationError"):
        components["schemas"].pop(unused, None)
    for methods in document["paths"].values():
        for operation in methods.values():
            if str(HTTPStatus.UNAUTHORIZED.value) in operation["responses"]:
                operation.setdefault("security", _TOKEN)


def published_names(part: Any) -> Any:  # noqa: ANN401 - a piece of the document
    """Return the document without the suffix `Model`, which the schemas have in code only."""
    match part:
        case dict():
            pieces = cast("dict[str, Any]", part)
            return {key.removesuffix("Model"): published_names(each) for key, each in pieces.items()}
        case list():
            return [published_names(each) for each in cast("list[Any]", part)]
        case str():
            return part.removesuffix("Model")
        case _:
            return part


async def request_response(request: ApprovalRequest, **more: object) -> Response:
    """Return a request as JSON, with more fields; a long one is serialised in another thread."""
    if json_codec.is_small_plain(request):
        return json_answer(json_codec.request_to_json(request, **more))
    return json_answer(await asyncio.to_thread(json_codec.request_to_json, request, **more))


def json_answer(text: str) -> Response:
    """Return a response with JSON that is serialised already."""
    return Response(text, media_type="application/json")
