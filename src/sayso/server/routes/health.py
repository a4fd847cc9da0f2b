"""Health checks (liveness, readiness) and the Prometheus endpoint.

Tests: tests/server/routes/test_approvals.py, tests/server/routes/test_health.py
"""

from __future__ import annotations

from http import HTTPStatus

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from sayso.core import json_codec
from sayso.server.http import schemas
from sayso.server.http.problems import HttpProblem
from sayso.server.identity import TheHub, address_of, person
from sayso.server.middleware import LOOPBACK, host_name
from sayso.server.openapi import WITHOUT_TOKEN_TOO, json_answer, ok_response, problem_responses

routes = APIRouter()


@routes.head("/healthz", responses=ok_response(schemas.HealthModel))
@routes.get("/healthz", responses=ok_response(schemas.HealthModel))
async def healthz() -> Response:
    """Say that the hub runs."""
    return json_answer(json_codec.to_json({"status": "ok"}))


@routes.head("/readyz", responses=ok_response(schemas.HealthModel) | problem_responses(503))
@routes.get("/readyz", responses=ok_response(schemas.HealthModel) | problem_responses(503))
async def readyz(hub: TheHub) -> Response:
    """Say whether the hub can read and write its store, and follows it."""
    await hub.store.flush()
    await hub.store.pending(1)
    if hub.connections.draining or not hub.ready.is_set():
        raise HttpProblem(HTTPStatus.SERVICE_UNAVAILABLE, "the hub is about to stop, or has just begun", retry_after=1)
    return json_answer(json_codec.to_json({"status": "ok"}))


@routes.get(
    "/metrics",
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}}
    | problem_responses(401, 403, 404, 429, 503),
    openapi_extra={"security": WITHOUT_TOKEN_TOO},
    response_class=Response,
)
async def metrics(request: Request, hub: TheHub) -> Response:
    """Return numbers for Prometheus: to people with a token and, unless the hub is told otherwise, to this machine."""
    if hub.metrics_for == "nobody":
        raise HttpProblem(HTTPStatus.NOT_FOUND, "this hub tells nobody its metrics")
    if hub.metrics_for == "token" or not _is_from_here(request):
        await person(request)
    return Response(hub.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


def _is_from_here(request: Request) -> bool:
    # A proxy on this machine connects from a loopback address, but forwards another Host or a forwarding header.
    name = host_name(request.headers.get("host", ""))
    return address_of(request) in LOOPBACK and name in LOOPBACK and "x-forwarded-for" not in request.headers
