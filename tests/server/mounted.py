"""A hub inside somebody's own application, under a prefix."""

import asyncio
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount, Route
from tests.server.served import Served

from sayso.server.app import create_app
from sayso.server.hub import Hub
from sayso.server.routes.oidc import Provider, install
from sayso.server.serve import bind
from sayso.stores.sqlite import SqliteStore


async def own(_: Request) -> Response:
    return PlainTextResponse("mine")


class Mounted(Served):
    """A hub under a prefix of another application; with a provider, people may sign in with their accounts."""

    def __init__(self, place: Path, provider: Provider | None = None) -> None:
        super().__init__(place)
        self._provider = provider

    async def _serve(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.store = SqliteStore(self.file, synchronous="NORMAL")
        taken = bind("127.0.0.1", 0)
        self.port = taken.getsockname()[1]
        self.hub = Hub(self.store)
        inbox = create_app(self.hub, allowed_hosts=["team.example"])
        if self._provider is not None:
            install(inbox, self._provider, url=self.url)
        routes = [Mount("/inbox", inbox), Route("/own", own)]
        self.ended = asyncio.Event()
        outer = uvicorn.Server(uvicorn.Config(Starlette(routes=routes), log_config=None, lifespan="off"))
        self._running.set()
        serving = asyncio.ensure_future(outer.serve(sockets=[taken]))
        await self.ended.wait()
        self.hub.rest()
        outer.should_exit = True
        await serving
        await self.hub.aclose()
        await self.store.aclose()

    def start(self) -> None:
        self._thread.start()
        assert self._running.wait(20)

    def stop(self) -> None:
        self.loop.call_soon_threadsafe(self.ended.set)
        self._thread.join(20)
        assert not self._thread.is_alive()

    @property
    def url(self) -> str:
        return f"{super().url}/inbox"
