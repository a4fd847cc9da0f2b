"""Servers under test, the hub and the bare ones: one process each, controlled by lines of JSON on standard input.

The bare ones have no auth, check nothing and keep nothing. All but `plain` are served by uvicorn with uvloop and h11.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import IO, Any, Literal, cast

import msgspec
import uvicorn
import uvloop
from fastapi import FastAPI
from msgspec.structs import replace
from pydantic import BaseModel
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from benchmarks.store import request
from benchmarks.timing import lag
from sayso.core import tokens
from sayso.core.agent_protocol import GetChanges
from sayso.core.canonical import freeze
from sayso.core.model import new_id
from sayso.engine.clock import SystemClock
from sayso.server.app import create_app
from sayso.server.hub import Hub, HubStore
from sayso.server.serve import bind, create_server, run_hub
from sayso.server.services.connections import Connections
from sayso.server.services.throttle import Throttle
from sayso.stores.memory import MemoryStore
from sayso.stores.sqlite import SqliteStore

Kind = Literal["raw", "starlette", "fastapi", "memory", "durable", "plain"]
Command = Callable[[dict[str, Any]], Awaitable[object]]
OURS = frozenset({"memory", "durable", "plain"})  # `plain` is `memory` as installed by default: without uvloop
NAMES = 20  # people and agents; the hub has limits for each of them


class Answer(BaseModel):
    """Request body that FastAPI validates."""

    outcome: Literal["proceed_once", "cancel"]
    note: str | None = None


class Raw:
    """Raw ASGI server as the lower bound: no framework, no validation, no state after delivery."""

    def __init__(self) -> None:
        self._news: list[str] = []
        self._has_news = asyncio.Event()
        self._follower: object = None
        self._listeners: list[Callable[[dict[str, Any]], Awaitable[None]]] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:  # noqa: ANN401 - as ASGI has it
        if scope["type"] == "lifespan":
            return
        path = scope["path"]
        if scope["type"] == "websocket":
            await self._socket(receive, send)
        elif path == "/events":
            await self._stream(receive, send)
        elif path == "/agent/changes":
            await self._changes(receive, send)
        else:
            body = (await receive())["body"]
            if path == "/tell":
                await self._publish(body)
            elif path.startswith("/approvals/"):
                self._news.append(path[11:])
                self._has_news.set()
            await _answer(send, body)

    async def _changes(self, receive: Any, send: Any) -> None:  # noqa: ANN401 - as above
        asked = msgspec.msgpack.decode((await receive())["body"], type=GetChanges)
        self._follower = mine = object()  # the follower before is gone, and must consume nothing
        while not self._news and asked.wait and self._follower is mine:
            self._has_news.clear()
            await self._has_news.wait()
        news: list[str] = []
        if self._follower is mine:
            news, self._news = self._news, []
        await _answer(send, json.dumps(news).encode())

    async def _publish(self, body: bytes) -> None:
        text = body.decode()
        event = b"event: request\ndata: " + body + b"\n\n"
        for each in self._listeners:
            await each({"text": text, "event": event})

    async def _socket(self, receive: Any, send: Any) -> None:  # noqa: ANN401 - as above
        await receive()
        await send({"type": "websocket.accept"})
        self._listeners.append(lambda event: send({"type": "websocket.send", "text": event["text"]}))
        while (await receive())["type"] != "websocket.disconnect":
            pass

    async def _stream(self, receive: Any, send: Any) -> None:  # noqa: ANN401 - as above
        headers = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"event: hello\n\n", "more_body": True})
        self._listeners.append(
            lambda event: send({"type": "http.response.body", "body": event["event"], "more_body": True})
        )
        while (await receive())["type"] != "http.disconnect":
            pass


async def _answer(send: Any, body: bytes) -> None:  # noqa: ANN401 - as ASGI has it
    headers = [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def starlette_app() -> Starlette:
    """Return a Starlette app that reads JSON and writes JSON, and does nothing else."""

    async def answer(request: Request) -> Response:
        message = await request.json()
        return JSONResponse({"id": request.path_params["request_id"], "status": "approved", **message})

    return Starlette(routes=[Route("/approvals/{request_id}", answer, methods=["POST"])])


def fastapi_app() -> FastAPI:
    """Return a FastAPI app that validates its JSON by a model, as FastAPI's own pages show it."""
    app = FastAPI()

    @app.post("/approvals/{request_id}")
    async def answer(request_id: str, body: Answer) -> dict[str, Any]:
        return {"id": request_id, "status": "approved", **body.model_dump()}

    return app


class Child:
    """A server in a process of its own."""

    def __init__(self, kind: Kind, folder: Path) -> None:
        self.kind = kind
        command = [sys.executable, "-m", "benchmarks.hubserver", kind, str(folder)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # noqa: S603 - this very module
        self._to, self._from = cast("tuple[IO[bytes], IO[bytes]]", (self._process.stdin, self._process.stdout))
        self.facts: dict[str, Any] = self._read()
        self.port: int = self.facts["port"]

    def ask(self, count: int) -> list[str]:
        """Open requests in the server, if it has any, and return their ids."""
        return self.do("ask", count=count) if self.kind in OURS else [new_id() for _ in range(count)]

    def tokens(self, kind: str) -> list[str]:
        """Return the tokens of the server; a bare one does not check them."""
        return self.facts.get(kind, ["x" * 90])

    def do(self, command: str, **facts: object) -> Any:  # noqa: ANN401 - any JSON
        """Send a command, and return its result."""
        self.begin(command, **facts)
        return self._read()

    def begin(self, command: str, **facts: object) -> None:
        """Send a command; `end` waits for its result."""
        self._to.write(json.dumps({"do": command, **facts}).encode() + b"\n")
        self._to.flush()

    def end(self) -> Any:  # noqa: ANN401 - as above
        return self._read()

    def stop(self) -> None:
        self._process.kill()
        self._process.communicate()

    def _read(self) -> Any:  # noqa: ANN401 - as above
        return json.loads(self._from.readline())


class Ours:
    """The hub, with the tokens and requests that a measurement needs."""

    def __init__(self, store: HubStore) -> None:
        # High limits, as a few names send all the load; the counting itself stays.
        self.hub = Hub(
            store,
            throttle=Throttle(answers=10**9),
            connections=Connections(store, SystemClock(), most_of_one=2000),
        )
        self._store = store
        self._numbers = itertools.count()

    async def tokens(self) -> dict[str, list[str]]:
        made: dict[str, list[str]] = {"approver": [], "agent": []}
        for kind in ("approver", "agent"):
            for number in range(NAMES):
                token, text = tokens.make(kind, f"{kind}{number}", now=time.time())
                await self._store.add_token(token)
                made[kind].append(text)
        return made

    async def ask(self, facts: dict[str, Any]) -> list[str]:
        """Open requests, and wait until the hub has received them."""
        made = [request(new_id()) for _ in range(facts["count"])]
        await asyncio.gather(*(self._store.open(each) for each in made))
        await self.wait_until_idle({})
        return [each.id for each in made]

    async def large(self, facts: dict[str, Any]) -> None:
        """Publish a large event, which is not replayed to later subscribers."""
        asked = replace(request(new_id()), args=freeze({"text": "x" * facts["size"]}))
        await self._store.open(asked)
        await self._store.close(asked.id, "withdrawn", None, now=time.time())
        await self.wait_until_idle({})

    async def wait_until_idle(self, _: dict[str, Any]) -> None:
        """Wait until the hub is idle."""
        await self._store.flush()
        point, _found = await self._store.changes()
        await self.hub.events.next_batch(point - 1)


async def _lag(facts: dict[str, Any]) -> dict[str, float]:
    found = await lag(facts["seconds"])
    return {"p99": found.p99, "worst": found.worst}


async def _cpu(_: dict[str, Any]) -> float:
    return time.process_time()


async def main(kind: Kind, folder: Path) -> None:
    """Serve until killed."""
    listener = bind("127.0.0.1", 0)
    facts: dict[str, Any] = {"port": listener.getsockname()[1]}
    commands: dict[str, Command] = {"lag": _lag, "cpu": _cpu}
    if kind in OURS:
        ours = Ours(SqliteStore(folder / "hub.db") if kind == "durable" else MemoryStore())
        facts |= await ours.tokens()
        commands |= {"ask": ours.ask, "rest": ours.wait_until_idle, "large": ours.large}
        serving: uvicorn.Server = create_server(create_app(ours.hub), ours.hub)
    else:
        app = {"raw": Raw, "starlette": starlette_app, "fastapi": fastapi_app}[kind]()
        serving = uvicorn.Server(
            uvicorn.Config(app, http="h11", access_log=False, log_level="error", timeout_keep_alive=60)
        )
    serving_task = asyncio.create_task(serving.serve(sockets=[listener]))
    _print_json(facts)
    while line := await asyncio.to_thread(sys.stdin.readline):
        message = json.loads(line)
        _print_json(await commands[message["do"]](message))
    serving_task.cancel()


def _print_json(facts: object) -> None:
    print(msgspec.json.encode(facts).decode(), flush=True)


if __name__ == "__main__":
    # Each on the runner that it is deployed with.
    start = asyncio.run if sys.argv[1] == "plain" else run_hub if sys.argv[1] in OURS else uvloop.run
    start(main(sys.argv[1], Path(sys.argv[2])))  # type: ignore[arg-type] - one of the words above
