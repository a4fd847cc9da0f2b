"""The hub as an ASGI application (FastAPI), to be served alone or mounted in an application of your own.

Tests: tests/server/test_mounting.py
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any

from fastapi import FastAPI
from starlette.routing import Route

from sayso.server import openapi
from sayso.server.http import problems
from sayso.server.http.logs import AccessLog
from sayso.server.hub import Hub
from sayso.server.middleware import AllowedHosts, AttachHub, BodyLimits, SameOrigin, SecurityHeaders, StorableAddress
from sayso.server.routes import approvals, audit_and_remembered, health, page, runs, sign_in, websocket
from sayso.server.routes.agents import rest, rpc


def create_app(hub: Hub, *, allowed_hosts: Collection[str] = ()) -> FastAPI:
    """Return the application of a hub.

    Args:
        hub: the hub that its routes use.
        allowed_hosts: accepted names in the Host header, besides those of this machine.
    """

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[None]:
        hub.start_background()
        yield
        await hub.aclose()

    app = _Application(
        title="sayso hub",
        version=version("sayso"),
        docs_url=None,  # these two would load scripts from a CDN
        redoc_url=None,
        # FastAPI would record whole URLs, and a sign-in link has its code in the URL; the hub has spans of its own.
        telemetry={"tracing": False, "metrics": False, "logs": False},
        lifespan=lifespan,
        routes=[rpc.operation_route, approvals.answer_route],  # matched first, without FastAPI: the two hottest routes
    )
    app.state.hub = hub
    app.state.accounts = None  # the name of the OpenID provider; set by `oidc.install`
    problems.install(app)
    parts = (approvals, audit_and_remembered, runs, sign_in, websocket, rest, health, page)
    for part in parts:
        app.include_router(part.routes)
    app.state.routes = [each for part in parts for each in part.routes.routes if isinstance(each, Route)]
    # The last one added is the outermost.
    app.add_middleware(BodyLimits, hub=hub)
    app.add_middleware(SameOrigin)
    app.add_middleware(StorableAddress)
    app.add_middleware(AllowedHosts, names=allowed_hosts)
    app.add_middleware(AccessLog)
    app.add_middleware(SecurityHeaders)
    app.add_middleware(AttachHub, hub=hub)
    return app


class _Application(FastAPI):
    """FastAPI application whose OpenAPI document has shared parts: the schema of problems, and the security schemes."""

    def openapi(self) -> dict[str, Any]:
        """Return the OpenAPI document."""
        if self.openapi_schema is None:
            document = super().openapi()
            openapi.add_shared_parts(document)
            self.openapi_schema = openapi.published_names(document)
        return super().openapi()
