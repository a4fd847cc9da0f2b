"""Problem details (RFC 9457): every error becomes one sentence in JSON, with its HTTP status.

Tests: tests/server/test_middleware.py
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import Any

from sayso.core import json_codec
from sayso.core.ports import STORABLE_TEXT
from sayso.errors import CanonicalError, StoreError, UnknownRequest
from sayso.server.http.headers import SECURITY_HEADERS

try:
    from fastapi import FastAPI
    from fastapi.exceptions import RequestValidationError
    from pydantic import ValidationError
    from starlette.exceptions import HTTPException
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Match, Route
except ImportError as error:
    raise ImportError("the hub is not installed; run `pip install sayso[server]`") from error

_LOG = logging.getLogger("sayso.server")
MEDIA_TYPE = "application/problem+json"
_MOST_MISTAKES = 10
_LONGEST_DETAIL = 1000  # characters: a validator quotes a value that fits nowhere as a whole
_NOT_STORABLE = {  # as msgspec and pydantic put it, and in words
    f"matching regex {STORABLE_TEXT!r}": "without the character NUL, which a store cannot keep",
    f"match pattern '{STORABLE_TEXT}'": "be without the character NUL, which a store cannot keep",
}
_DETAILS = {
    HTTPStatus.NOT_FOUND: "there is nothing at this address",
    HTTPStatus.METHOD_NOT_ALLOWED: "this address does not take that method",
}


class HttpProblem(Exception):
    """An error with an HTTP status and a sentence; `facts` go into the body, and `retry_after` into a header, too."""

    def __init__(self, status: HTTPStatus, detail: str, **facts: Any) -> None:  # noqa: ANN401 - any JSON
        super().__init__(detail)
        self.status = status
        self.detail = detail if len(detail) <= _LONGEST_DETAIL else f"{detail[:_LONGEST_DETAIL]}…"
        self.facts = facts

    def as_dict(self) -> dict[str, Any]:
        """Return the problem as plain data."""
        return {"title": self.status.phrase, "status": self.status.value, "detail": self.detail, **self.facts}


HANDLED_ERRORS = (HttpProblem, RequestValidationError, CanonicalError, UnknownRequest, HTTPException, StoreError)


def problem_response(problem: HttpProblem, headers: Mapping[str, str] | None = None) -> Response:
    """Return the response for a problem."""
    all_headers = dict(headers or {})
    if problem.status == HTTPStatus.UNAUTHORIZED:
        all_headers["WWW-Authenticate"] = "Bearer"
    if "retry_after" in problem.facts:
        all_headers["Retry-After"] = str(problem.facts["retry_after"])
    return Response(json_codec.to_json(problem.as_dict()), problem.status, all_headers, MEDIA_TYPE)


def install(app: FastAPI) -> None:
    """Install the exception handlers of an application."""
    for kind in HANDLED_ERRORS:
        app.add_exception_handler(kind, handle_error)
    app.add_exception_handler(Exception, _handle_unexpected)


async def handle_error(request: Request, error: Exception) -> Response:
    """Exception handler for errors of the client or of the store."""
    headers = error.headers if isinstance(error, HTTPException) else None
    if isinstance(error, HTTPException) and error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        methods = _allowed_methods(request)
        headers = {"Allow": ", ".join(sorted(methods))} if methods else headers
    return problem_response(problem_for(error), headers)


def _allowed_methods(request: Request) -> set[str]:
    """Return the methods of an address: of all its routes, as Starlette names those of the first one only."""
    routes: Sequence[Route] = request.app.state.routes
    found = [each for each in routes if each.matches(request.scope)[0] is not Match.NONE]
    exact = [each for each in found if not each.param_convertors]
    return {method for each in exact or found for method in each.methods or ()}


def problem_for(error: Exception) -> HttpProblem:
    """Map an error to its problem."""
    match error:
        case HttpProblem():
            return error
        case RequestValidationError() | ValidationError():
            return _validation_problem(error.errors())
        case UnknownRequest():
            return unknown_request()
        case HTTPException():
            status = HTTPStatus(error.status_code)
            return HttpProblem(status, _DETAILS.get(status, str(error.detail)))
        case CanonicalError():
            return HttpProblem(HTTPStatus.UNPROCESSABLE_ENTITY, str(error))
        case StoreError():
            _LOG.warning("the store failed: %s", error)  # the client must not learn where the store is
            sentence = "the hub cannot read or write its store now; try again, and see its log"
            return HttpProblem(HTTPStatus.SERVICE_UNAVAILABLE, sentence, retry_after=1)
        case _:
            raise error


def unknown_request() -> HttpProblem:
    """Return the problem for an unknown id, or for a request that this person may not see."""
    return HttpProblem(HTTPStatus.NOT_FOUND, "no request has this id")


def _validation_problem(mistakes: Iterable[Any]) -> HttpProblem:
    """Name the invalid fields without their values, which may be long or secret."""
    errors = [
        {"place": ".".join(str(part) for part in each["loc"]), "message": in_words(str(each["msg"]))}
        for each in itertools.islice(mistakes, _MOST_MISTAKES)
    ]
    sentence = "; ".join(f"{each['place']}: {each['message']}" for each in errors)
    if [each["place"] for each in errors] == ["body"]:  # most often, the Content-Type is not JSON
        sentence += "; send a JSON object, with the header Content-Type: application/json"
    return HttpProblem(HTTPStatus.UNPROCESSABLE_ENTITY, sentence, errors=errors)


def in_words(message: str) -> str:
    """Return a message of a validator with words in the place of the pattern of storable texts."""
    for pattern, words in _NOT_STORABLE.items():
        message = message.replace(pattern, words)
    return message


async def _handle_unexpected(_: Request, __: Exception) -> Response:
    # Starlette sends this one outside of all middleware, so it has the security headers itself.
    sentence = "the hub failed at this; see its log"
    return problem_response(HttpProblem(HTTPStatus.INTERNAL_SERVER_ERROR, sentence), SECURITY_HEADERS)
