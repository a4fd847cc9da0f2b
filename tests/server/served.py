"""A real hub on a real port: uvicorn in a thread, a store in a file or a database, and clients that talk to it."""

import asyncio
import json
import threading
from collections.abc import Callable, Coroutine, Generator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar, cast

import httpx2
from msgspec.structs import replace
from tests.waiting import until
from websockets.sync.client import ClientConnection, connect

from sayso import ApprovalController, ApprovalRequest, Policy, ToolCall
from sayso.core import tokens
from sayso.core.model import Pending
from sayso.core.tokens import TokenKind
from sayso.policy.policy import ToolRules
from sayso.server.app import create_app
from sayso.server.hub import Hub
from sayso.server.serve import HubServer, bind, create_server
from sayso.stores.postgres import PostgresStore
from sayso.stores.sqlite import SqliteStore

T = TypeVar("T")
POLICY = Policy.from_dict({"default": "required"})
PATIENCE = 20.0


class Served:
    """The hub of a test, in a thread of its own."""

    def __init__(self, place: Path | str, *, proxy: str | None = None, **settings: Any) -> None:
        """Take a folder for a file, or the address of a database."""
        self._place = place
        self._proxy = proxy
        self._settings = settings
        self._running = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))

    def start(self) -> None:
        self._thread.start()
        assert self._running.wait(PATIENCE)
        self.do(_started(self.hub))

    def stop(self) -> None:
        self.server.should_exit = True
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()

    async def _serve(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.store = self._open()
        taken = bind("127.0.0.1", 0)
        self.port = taken.getsockname()[1]
        self.hub = Hub(self.store, **self._settings)
        self.server: HubServer = create_server(create_app(self.hub), self.hub, proxy=self._proxy)
        self._running.set()
        await self.server.serve(sockets=[taken])
        await self.store.aclose()

    @property
    def file(self) -> Path:
        return Path(self._place) / "hub.db"

    def _open(self) -> SqliteStore | PostgresStore:
        return (
            PostgresStore(self._place) if isinstance(self._place, str) else SqliteStore(self.file, synchronous="NORMAL")
        )

    # What a test does as the hub's owner.

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Do something on the hub's loop."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(PATIENCE)

    def until(self, see: Callable[[], object], wanted: object) -> None:
        """Wait on the hub's loop until what is seen equals what is wanted."""
        waiting = asyncio.run_coroutine_threadsafe(until(see, wanted, seconds=PATIENCE), self.loop)
        waiting.result(2 * PATIENCE)  # longer than the wait, which says what it saw

    def token(self, kind: TokenKind = "approver", name: str = "ann", **facts: Any) -> str:
        """Make a token, and return its text."""
        token, text = tokens.make(kind, name, now=self.hub.clock.now(), **facts)
        self.do(self.store.add_token(token))
        return text

    def revoke(self, text: str) -> None:
        self.do(self.store.take_token(tokens.parse_token_id(text) or ""))

    def ask(
        self,
        args: Mapping[str, Any] | None = None,
        *,
        tool: str = "pay",
        policy: Policy = POLICY,
        tool_rules: ToolRules | None = None,
        **facts: Any,
    ) -> ApprovalRequest:
        """Open a request, as an agent's controller makes it; `facts` are what a hub sets, or a test needs."""

        async def work() -> ApprovalRequest:
            controller = ApprovalController(mode="defer", policy=policy)
            call = ToolCall(tool=tool, args=args or {"amount": 5}, session="s1", agent_path=("report", "payer"))
            outcome = await controller.review(call, tool_rules)
            assert isinstance(outcome, Pending)
            return await self.store.open(replace(outcome.request, **facts))

        return self.do(work())

    def get(self, request: ApprovalRequest) -> ApprovalRequest:
        found = self.do(self.store.get(request.id))
        assert found is not None
        return found

    # What others do.

    def client(self, text: str | None = None, **headers: str) -> httpx2.Client:
        """Return a client with this token; without one, with none."""
        if text is not None:
            headers["Authorization"] = f"Bearer {text}"
        return httpx2.Client(base_url=self.url, headers=headers, timeout=PATIENCE)

    def person(self, name: str = "ann", **facts: Any) -> httpx2.Client:
        return self.client(self.token("approver", name, **facts))

    @contextmanager
    def browser(self, name: str = "ann", **facts: Any) -> Generator[httpx2.Client]:
        """A client that has signed in, and says where its requests come from, as browsers do."""
        with self.client(**{"Origin": self.url, "Sec-Fetch-Site": "same-origin"}) as client:
            assert client.post("/sign-in", json={"code": self.token("link", name, **facts)}).status_code == 200
            yield client

    def socket(self, text: str | None = None, **settings: Any) -> ClientConnection:
        headers = {} if text is None else {"Authorization": f"Bearer {text}"}
        headers |= cast("dict[str, str]", settings.pop("headers", {}))
        address = f"ws://127.0.0.1:{self.port}/ws/test"
        return connect(address, additional_headers=headers, open_timeout=PATIENCE, proxy=None, **settings)  # pyright: ignore - half typed


async def _started(hub: Hub) -> None:
    await hub.ready.wait()


@contextmanager
def following(client: httpx2.Client, **query: Any) -> Generator[Iterator[tuple[str, str, Any]]]:
    """Follow the events: each as its name, its id and its data."""
    with client.stream("GET", "/events", params=query) as answer:
        assert answer.status_code == 200, answer.read()
        yield _events(answer.iter_lines())


def _events(lines: Iterator[str]) -> Iterator[tuple[str, str, Any]]:
    facts: dict[str, str] = {}
    for line in lines:
        if line:
            name, _, value = line.partition(": ")
            facts[name] = value
        elif "data" in facts:
            yield facts["event"], facts["id"], json.loads(facts["data"])
            facts = {}


def heard(socket: ClientConnection) -> dict[str, Any]:
    """Return the next message of a socket."""
    return json.loads(socket.recv(PATIENCE))
