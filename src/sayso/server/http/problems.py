"""Errors as problem details: what is wrong, in one sentence, as JSON that every client can read."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any

from sayso.core import json_codec
from sayso.errors import CanonicalError, StoreError, UnknownRequest
from sayso.server.http.headers import SAFE

try:
    from fastapi import FastAPI
    from fastapi.exceptions import RequestValidationError
    from pydantic import ValidationError
    from starlette.exceptions import HTTPException
    from starlette.requests import Request
    from starlette.responses import Response
except ImportError as error:
    raise ImportError("the hub is not installed; run `pip install sayso[server]`") from error

_LOG = logging.getLogger("sayso.server")
KIND = "application/problem+json"
_MOST_MISTAKES = 10
_WORDS = {
    HTTPStatus.NOT_FOUND: "there is nothing at this address",
    HTTPStatus.METHOD_NOT_ALLOWED: "this address does not take that method",
}


class Problem(Exception):
    """A request to the hub that cannot be done; `facts` go into the answer beside the sentence."""

    def __init__(self, status: HTTPStatus, detail: str, **facts: Any) -> None:  # noqa: ANN401 - whatever helps
        """Take the status, the sentence, and what else helps; `retry_after` is told as a header too."""
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.facts = facts

    def told(self) -> dict[str, Any]:
        """Return the problem as plain data."""
        return {"title": self.status.phrase, "status": self.status.value, "detail": self.detail, **self.facts}


KNOWN = (Problem, RequestValidationError, CanonicalError, UnknownRequest, HTTPException, StoreError)


def response(problem: Problem, headers: Mapping[str, str] | None = None) -> Response:
    """Return the answer for a problem."""
    told = dict(headers or {})
    if problem.status == HTTPStatus.UNAUTHORIZED:
        told["WWW-Authenticate"] = "Bearer"
    if "retry_after" in problem.facts:
        told["Retry-After"] = str(problem.facts["retry_after"])
    return Response(json_codec.to_json(problem.told()), problem.status, told, KIND)


def install(app: FastAPI) -> None:
    """Let every error of an application be told so."""
    for kind in KNOWN:
        app.add_exception_handler(kind, answer)
    app.add_exception_handler(Exception, _unexpected)


async def answer(_: Request, error: Exception) -> Response:
    """Return the answer for an error that is somebody's mistake, or the store's."""
    headers = error.headers if isinstance(error, HTTPException) else None
    return response(of(error), headers)


def of(error: Exception) -> Problem:
    """Return the problem that an error is."""
    match error:
        case Problem():
            return error
        case RequestValidationError() | ValidationError():
            return _misshapen(error.errors())
        case UnknownRequest():
            return unknown()
        case HTTPException():
            status = HTTPStatus(error.status_code)
            return Problem(status, _WORDS.get(status, str(error.detail)))
        case CanonicalError():
            return Problem(HTTPStatus.UNPROCESSABLE_ENTITY, str(error))
        case StoreError():
            _LOG.warning("the store failed: %s", error)  # nobody else has to know where it is
            sentence = "the hub cannot read or write its store now; try again, and see its log"
            return Problem(HTTPStatus.SERVICE_UNAVAILABLE, sentence, retry_after=1)
        case _:
            raise error


def unknown() -> Problem:
    """Return the problem for an id that no request has, or none that this person may know of."""
    return Problem(HTTPStatus.NOT_FOUND, "no request has this id")


def _misshapen(mistakes: Iterable[Any]) -> Problem:
    """Name what does not fit, but not what was sent: it may be long, or a secret."""
    told = [
        {"place": ".".join(str(part) for part in each["loc"]), "message": str(each["msg"])}
        for each in itertools.islice(mistakes, _MOST_MISTAKES)
    ]
    sentence = "; ".join(f"{each['place']}: {each['message']}" for each in told)
    if [each["place"] for each in told] == ["body"]:  # most often, the whole of it was not taken for JSON
        sentence += "; send a JSON object, with the header Content-Type: application/json"
    return Problem(HTTPStatus.UNPROCESSABLE_ENTITY, sentence, errors=told)


async def _unexpected(_: Request, __: Exception) -> Response:
    # This one is answered outside of all guards, so it brings their headers itself.
    sentence = "the hub failed at this; see its log"
    return response(Problem(HTTPStatus.INTERNAL_SERVER_ERROR, sentence), SAFE)
