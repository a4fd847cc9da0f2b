"""A real hub on a real port, real agents on its SQLite file, and people at real browsers."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import Callable, Coroutine, Generator, Iterable
from pathlib import Path
from typing import Any, TypeVar

import anyio
import uvicorn
from fastapi import FastAPI
from playwright.async_api import Browser, ConsoleMessage, Locator, Page, expect

from sayso import ApprovalController, ApprovalRequest, Policy, guard
from sayso.core import tokens
from sayso.core.model import new_id
from sayso.server.app import create_app
from sayso.server.hub import Hub
from sayso.stores.sqlite import SqliteStore

T = TypeVar("T")

SCREENSHOTS = Path(__file__).resolve().parents[2] / ".screenshots"
WAIT = 20.0  # seconds, after which a test that waits has failed
# What the network says about an answer that is a refusal; the page tells people about it.
REFUSAL = "Failed to load resource"


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        """Leave Ctrl-C to pytest."""
        yield


class Person:
    """Somebody at a browser; whatever goes wrong inside it is kept."""

    def __init__(self, name: str, page: Page) -> None:
        self.name = name
        self.page = page
        self.troubles: list[str] = []
        page.on("pageerror", lambda error: self.troubles.append(str(error)))
        page.on("console", self._note)

    def _note(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"} and not message.text.startswith(REFUSAL):
            self.troubles.append(message.text)

    def together(self, name: str) -> Locator:
        """Return a button that answers all that are selected."""
        return self.page.get_by_role("group", name="Answer those that are selected").get_by_role("button", name=name)

    def button(self, name: str) -> Locator:
        return self.page.get_by_role("button", name=name, exact=True)

    @property
    def rows(self) -> Locator:
        return self.page.locator(".list .row")

    @property
    def notice(self) -> Locator:
        return self.page.locator("#notice")

    async def opens(self, tool: str) -> None:
        """Choose the request to run a tool, and have it in full."""
        await self.page.locator(".row-link", has_text=tool).first.click()
        await expect(self.page.locator("article h2 .tool")).to_have_text(tool)
        await self.settles()

    async def settles(self) -> None:
        """Let the time pass in which an answer would not count."""
        await expect(self.page.locator(".actions")).to_have_attribute("data-settled", "true")

    async def shot(self, name: str) -> None:
        """Keep what is on the screen, for developers to look at."""
        SCREENSHOTS.mkdir(exist_ok=True)
        await self.page.screenshot(path=SCREENSHOTS / f"{name}.png")


class Stage:
    """A hub, its store, the agents that ask and the people who answer."""

    def __init__(self, browser: Browser, folder: Path) -> None:
        self.browser = browser
        self.path = folder / "sayso.db"
        self.people: list[Person] = []
        self.port = 0
        self.mounted_at = ""
        self._agents: list[ApprovalController] = []
        self._tasks: list[asyncio.Task[Any]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}{self.mounted_at}/"

    async def start(self) -> None:
        """Start the hub; connections wait in the socket until it is there."""
        listening = socket.create_server(("127.0.0.1", self.port))
        self.port = listening.getsockname()[1]
        self.store = SqliteStore(self.path, synchronous="NORMAL")
        self.hub = Hub(self.store)
        app = create_app(self.hub)
        if self.mounted_at:
            outer = FastAPI()
            outer.mount(self.mounted_at, app)
            app = outer
        self.server = _Server(uvicorn.Config(app, log_config=None))
        self.serving = asyncio.create_task(self.server.serve(sockets=[listening]))

    async def stop(self) -> None:
        self.hub.connections.drain()
        self.server.should_exit = True
        with anyio.fail_after(WAIT):
            await self.serving
            await self.hub.aclose()
        await self.store.aclose()

    async def code(self, name: str, *, roles: Iterable[str] = (), opens: str = "") -> str:
        """Return the code of a link that signs somebody in."""
        token, text = tokens.make("link", name, now=time.time(), seconds=600, roles=tuple(roles), opens=opens)
        await self.store.add_token(token)
        return text

    async def person(self, name: str = "ann", *, roles: Iterable[str] = (), **how: Any) -> Person:
        """Sign somebody in at a browser of their own."""
        settings: dict[str, Any] = {"viewport": {"width": 1280, "height": 820}, **how}
        context = await self.browser.new_context(**settings)
        context.set_default_timeout(WAIT * 1000)
        person = Person(name, await context.new_page())
        self.people.append(person)
        code = await self.code(name, roles=roles)  # one test signs in by the page itself
        assert (await context.request.post(f"{self.url}sign-in", data={"code": code})).ok
        await person.page.goto(self.url)
        await expect(person.page.locator("#connection")).to_have_text("Live")
        return person

    def agent(self, policy: Policy | None = None, **settings: Any) -> ApprovalController:
        """Return an agent's controller, on the same file but with a store of its own."""
        store = SqliteStore(self.path, synchronous="NORMAL")
        agent = ApprovalController(policy=policy or Policy(default="required"), store=store, **settings)
        self._agents.append(agent)
        return agent

    def asks(
        self, function: Callable[..., Coroutine[Any, Any, T]], *args: Any, agent: ApprovalController | None = None
    ) -> asyncio.Task[T]:
        """Let an agent call a guarded function, which waits for its answer."""
        call = guard(function, agent or self.agent())
        task = asyncio.create_task(call(*args))
        self._tasks.append(task)
        return task

    async def opened(self, *requests: ApprovalRequest) -> None:
        """Put requests into the store as they are; nobody waits for them."""
        await asyncio.gather(*(self.store.open(each) for each in requests))

    async def end(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for person in self.people:
            await person.page.context.close()
        await self.stop()
        for agent in self._agents:
            await agent.store.aclose()


def request(tool: str = "send_mail", /, **facts: Any) -> ApprovalRequest:
    """Return a request that nobody waits for."""
    given: dict[str, Any] = {"description": f"Run {tool}", "reason": "the rule says so", "session": "s", **facts}
    given.setdefault("asked_at", time.time())
    return ApprovalRequest(id=new_id(), tool_call_id=new_id(), tool_name=tool, **given)
