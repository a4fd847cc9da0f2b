"""A client of raw lines for `sayso mcp`, and the folder with its server, its policy and its store."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

from sayso import ApprovalController, ApprovalDecision
from sayso.core.model import ApprovalRequest

SERVER = Path(__file__).parent / "raw_server.py"
POLICY = "default: required\ntools:\n  raw.look: none\n  raw.wipe: blocked\n"
SCHEMA = {"type": "object", "properties": {"amount": {"type": "integer"}, "to": {"type": "string"}}}
NAMES = ("look", "pay", "wipe", "dies", "half", "garbage", "batch", "huge", "never", "mutates", "meddles", "asks")
YES = ApprovalDecision(approved=True, who="ann")


def definition(name: str, **others: Any) -> dict[str, Any]:
    """Return what a server lists of a tool."""
    return {"name": name, "description": f"Do {name}.", "inputSchema": SCHEMA, **others}


class Desk:
    """The folder of a relay, and the person who answers at its store."""

    def __init__(self, folder: Path, policy: str = POLICY) -> None:
        self.folder = folder
        self.book, self.store = folder / "book", folder / "sayso.db"
        self.list_tools(*(definition(name) for name in NAMES))
        (folder / "sayso.yaml").write_text(policy)

    def list_tools(self, *tools: dict[str, Any]) -> None:
        """Set what the server lists from now on."""
        (self.folder / "tools.json").write_text(json.dumps(tools))

    @property
    def ran(self) -> list[Any]:
        """What the server has got, in order."""
        return [json.loads(line) for line in self.book.read_text().splitlines()] if self.book.exists() else []

    @property
    def calls(self) -> list[str]:
        """The names of the tools that have run, in order."""
        return [name for name, _ in self.ran]

    def command(self, *options: str) -> list[str]:
        """Return the command of the relay before the raw server."""
        server = [sys.executable, str(SERVER), str(self.book), str(self.folder / "tools.json")]
        return self.relay_command("raw", *options, "--", *server)

    def relay_command(self, name: str, *more: str) -> list[str]:
        """Return the command of a relay."""
        own = ["--name", name, "--policy", str(self.folder / "sayso.yaml"), "--store", str(self.store)]
        return [sys.executable, "-m", "sayso", "mcp", *own, *more]

    @contextlib.asynccontextmanager
    async def controller(self) -> AsyncGenerator[ApprovalController]:
        """Open the store as another process would."""
        async with ApprovalController(mode="defer", store=self.store) as controller:
            yield controller

    async def asked(self, controller: ApprovalController, count: int = 1) -> list[ApprovalRequest]:
        """Wait until so many questions are open, and return them."""
        async with asyncio.timeout(30):
            while True:
                cursor, _ = await controller.store.changes()
                if len(requests := await controller.pending()) >= count:
                    return requests
                await controller.store.changed(cursor)

    async def answer(self, decision: ApprovalDecision = YES) -> ApprovalRequest:
        """Answer the one open question."""
        async with self.controller() as controller:
            (request,) = await self.asked(controller)
            await controller.answer(request.id, decision)
        return request


class RawClient:
    """Writes lines to a relay, and reads what comes back."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        assert process.stdin is not None
        assert process.stdout is not None
        self._in, self._out = process.stdin, process.stdout

    def write(self, line: bytes) -> None:
        """Write bytes as they are."""
        self._in.write(line)

    def send(self, method: str, key: object = None, **params: Any) -> None:
        """Send a request, or without an id a notification."""
        given = {} if key is None else {"id": key}
        self.write(json.dumps({"jsonrpc": "2.0", **given, "method": method, "params": params}).encode() + b"\n")

    def call(self, tool: str, key: object = 1, *, meta: Any = None, **args: Any) -> None:
        """Send a call of a tool."""
        self.send("tools/call", key, name=tool, arguments=args, **({} if meta is None else {"_meta": meta}))

    async def read(self) -> dict[str, Any]:
        """Return the next message."""
        return json.loads(await self.line())

    async def line(self) -> bytes:
        """Return the next line."""
        return await asyncio.wait_for(self._out.readline(), 40)

    async def result(self) -> str:
        """Return the text of the next result, which may be an error."""
        return (await self.read())["result"]["content"][0]["text"]

    async def end(self) -> int:
        """Close the client's end, and return the code with which the relay ends."""
        self._in.close()
        return await asyncio.wait_for(self.process.wait(), 40)


@contextlib.asynccontextmanager
async def relay(desk: Desk, *options: str) -> AsyncGenerator[RawClient]:
    """Start a relay before the raw server."""
    process = await asyncio.create_subprocess_exec(
        *desk.command(*options), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, cwd=desk.folder
    )
    try:
        yield RawClient(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
