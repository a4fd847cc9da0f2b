"""Errors as problem details: what is wrong, in one sentence, as JSON that every client can read."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from sayso import plain

try:
    from starlette.requests import Request
    from starlette.responses import Response
except ImportError as error:
    raise ImportError("the hub is not installed; run `pip install sayso[server]`") from error


class Problem(Exception):
    """A request to the hub that cannot be done; `facts` go into the answer beside the sentence."""

    def __init__(self, status: HTTPStatus, detail: str, **facts: Any) -> None:  # noqa: ANN401 - whatever helps
        """Take the status, the sentence, and what else helps."""
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.facts = facts


async def answer(_: Request, problem: Exception) -> Response:
    """Return the answer for a problem."""
    if not isinstance(problem, Problem):
        raise problem
    facts = {"title": problem.status.phrase, "status": problem.status.value, "detail": problem.detail, **problem.facts}
    headers = {"WWW-Authenticate": "Bearer"} if problem.status == HTTPStatus.UNAUTHORIZED else {}
    return Response(plain.to_json(facts), problem.status, headers, "application/problem+json")
