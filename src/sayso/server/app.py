"""The hub as an ASGI application: to be served alone, or mounted in an application of your own."""

from __future__ import annotations

from fastapi import FastAPI

from sayso.server import agents, people, problems
from sayso.server.hub import Hub


def create_app(hub: Hub) -> FastAPI:
    """Return the application of a hub."""
    app = FastAPI(title="sayso hub", docs_url=None, redoc_url=None)  # both would load scripts from elsewhere
    app.state.hub = hub
    app.add_exception_handler(problems.Problem, problems.answer)
    app.include_router(people.routes)
    app.include_router(agents.routes)
    return app
