"""The hub inside somebody's own application, which runs no lifespan for it."""

import asyncio
from collections.abc import Generator
from pathlib import Path

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount, Route
from tests.server.served import Served, following

from sayso.server.app import create_app
from sayso.server.hub import Hub
from sayso.server.listening import bind
from sayso.stores.sqlite import SqliteStore


async def own(_: Request) -> Response:
    return PlainTextResponse("mine")


class Mounted(Served):
    """A hub under a prefix of another application."""

    async def _serve(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.store = SqliteStore(self.file, synchronous="NORMAL")
        taken = bind("127.0.0.1", 0)
        self.port = taken.getsockname()[1]
        self.hub = Hub(self.store)
        routes = [
            Mount("/inbox", create_app(self.hub, allowed_hosts=["team.example"])),
            Route("/own", own),
        ]
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


@pytest.fixture
def mounted(tmp_path: Path) -> Generator[Mounted]:
    hub = Mounted(tmp_path)
    hub.start()
    yield hub
    hub.stop()


def test_a_mounted_hub_follows_its_store_from_the_first_request_on(mounted: Mounted) -> None:
    request = mounted.ask()
    with mounted.person() as ann, following(ann, after=0) as events:
        assert [next(events)[0], next(events)[2]["id"]] == ["hello", request.id]
        assert ann.post(f"/approvals/{request.id}", json={"approved": True}).status_code == 200
        assert next(events)[2]["status"] == "approved"
        due = mounted.ask(expires_at=mounted.hub.clock.now() + 0.05)
        assert [next(events)[2]["status"] for _ in range(2)] == ["open", "expired"]
        assert mounted.get(due).status == "expired"


def test_a_mounted_hub_guards_itself_and_leaves_the_rest_alone(mounted: Mounted) -> None:
    with mounted.client() as client:
        own = client.get(mounted.url.replace("/inbox", "/own"))
        assert (own.text, "content-security-policy" in own.headers) == ("mine", False)
        assert "content-security-policy" in client.get("/healthz").headers
        assert client.get("/healthz", headers={"Host": "team.example"}).status_code == 200
        assert client.get("/healthz", headers={"Host": "evil.example"}).status_code == 421


def test_the_cookie_of_a_mounted_hub_is_for_its_prefix_alone(mounted: Mounted) -> None:
    with mounted.client() as browser:
        answer = browser.post("/sign-in", json={"code": mounted.token("link")})
        assert "Path=/inbox" in answer.headers["set-cookie"]
        assert browser.get("/me").json()["name"] == "ann"
