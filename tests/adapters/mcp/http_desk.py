"""A relay over HTTP, a server behind it and the person who answers, in one process and over real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import Any

import uvicorn

from sayso import ApprovalController, ApprovalDecision, Policy
from sayso.adapters.kit import Gate
from sayso.adapters.mcp.http_relay import PATH, HttpRelay
from sayso.adapters.mcp.http_request import Admission
from sayso.adapters.mcp.pins import StoredPins
from sayso.adapters.mcp.relay import Relay
from sayso.adapters.mcp.tool_listing import Listing
from sayso.adapters.mcp.upstream import Upstream
from sayso.core.model import ApprovalRequest
from sayso.server.serve import bind, create_gateway_server
from sayso.stores.memory import MemoryStore

RULES = {"crm.look": "none", "crm.wipe": "blocked", "crm.*": "required"}
YES = ApprovalDecision(approved=True, who="ann")


@contextlib.asynccontextmanager
async def serving(server: uvicorn.Server) -> AsyncGenerator[str]:
    """Serve an application at a free port of this machine; yield its address."""
    with bind("127.0.0.1", 0) as listening:
        task = asyncio.create_task(server.serve(sockets=[listening]))
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            await task


def plain_server(app: Any) -> uvicorn.Server:
    """Return a server for somebody else's application."""
    return uvicorn.Server(uvicorn.Config(app, log_config=None, timeout_graceful_shutdown=1))


class HttpDesk:
    """The relay's address, and the person who answers its questions."""

    def __init__(self, url: str, controller: ApprovalController) -> None:
        self.url = url
        self.controller = controller

    async def asked(self, count: int = 1) -> list[ApprovalRequest]:
        """Wait until so many questions are open, and return them."""
        async with asyncio.timeout(30):
            while True:
                cursor, _ = await self.controller.store.changes()
                if len(requests := await self.controller.pending()) >= count:
                    return requests
                await self.controller.store.changed(cursor)

    async def answer(self, decision: ApprovalDecision = YES) -> ApprovalRequest:
        """Answer the one open question."""
        (request,) = await self.asked()
        await self.controller.answer(request.id, decision)
        return request


@contextlib.asynccontextmanager
async def http_relay(
    upstream_url: str,
    *,
    rules: Mapping[str, Any] = RULES,
    credentials: Mapping[str, str] | None = None,
    token: str | None = None,
    hold: float = 45.0,
    pass_authorization: bool = False,
) -> AsyncGenerator[HttpDesk]:
    """Start a relay before a server over HTTP."""
    upstream = Upstream(upstream_url, credentials or {})
    async with ApprovalController(policy=Policy(rules), store=MemoryStore(), mode="defer") as controller:
        gate = Gate(controller)
        listing = Listing(gate, "crm", StoredPins("crm", controller.store), lasts=30.0)
        relay = Relay(gate, "crm", listing, hold=hold)
        app = HttpRelay(relay, upstream, Admission(token=token), pass_authorization=pass_authorization)
        try:
            async with serving(create_gateway_server(app)) as url:
                yield HttpDesk(f"{url}{PATH}", controller)
        finally:
            await upstream.close()


Handler = Callable[["RawRequest"], Awaitable[None]]


class RawRequest:
    """What a raw server got, and the socket to answer on, byte by byte."""

    def __init__(
        self,
        method: str,
        headers: dict[str, str],
        body: Any,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self.method = method
        self.headers = headers
        self.body = body
        self._reader, self._writer = reader, writer

    async def send(self, text: str) -> None:
        """Send text as it is."""
        await self.send_bytes(text.encode())

    async def send_bytes(self, part: bytes) -> None:
        """Send bytes as they are."""
        self._writer.write(part)
        await self._writer.drain()

    async def json(self, message: Any, status: str = "200 OK", more: str = "") -> None:
        """Send a whole answer."""
        body = json.dumps(message)
        head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n{more}"
        await self.send(f"{head}Connection: close\r\n\r\n{body}")

    async def result(self, result: Any) -> None:
        """Send the result of this request."""
        await self.json({"jsonrpc": "2.0", "id": self.body["id"], "result": result})

    async def stream(self, text: str = "") -> None:
        """Begin a stream of events, which ends with the connection."""
        await self.send(f"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n{text}")

    async def closed(self) -> None:
        """Wait until the other side is gone."""
        await self._reader.read()


@contextlib.asynccontextmanager
async def raw_upstream(handle: Handler) -> AsyncGenerator[str]:
    """Start a server that does what `handle` says with each request."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:-2])}
            body = await reader.readexactly(int(headers.get("content-length", 0)))
            content = json.loads(body) if body else None
            await handle(RawRequest(head[0].split()[0], headers, content, reader, writer))
        writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"
    finally:
        server.close()
