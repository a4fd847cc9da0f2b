"""The processes of these tests: web servers, and the real clients in Node.js."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any, Literal, Self

from sayso import ApprovalRequest
from sayso.stores.sqlite import SqliteStore

HERE = Path(__file__).parent
PACKAGES = HERE.parents[1] / ".tools" / "npm" / "node_modules"
PATIENCE = 60.0

Front = Literal["vercel", "ag-ui"]


class Process:
    """A process that ends with the block."""

    def __init__(self, *command: str | Path, environ: dict[str, str] | None = None, folder: Path | None = None) -> None:
        self._command, self._environ, self._folder = command, environ, folder

    async def __aenter__(self) -> Self:
        pipe = asyncio.subprocess.PIPE
        environ = {**os.environ, **(self._environ or {})}
        self._process = await asyncio.create_subprocess_exec(
            *self._command, stdin=pipe, stdout=pipe, env=environ, cwd=self._folder
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.end()

    async def end(self) -> None:
        """Kill it: what is not in the store is lost."""
        if self._process.returncode is None:
            self._process.kill()
        await self._process.communicate()

    async def read_line(self) -> str:
        """Return the next line that it prints."""
        assert self._process.stdout is not None
        async with asyncio.timeout(PATIENCE):
            line = await self._process.stdout.readline()
        assert line, f"{self._command[1]} has ended"
        return line.decode()

    def write_line(self, line: str) -> None:
        """Write a line into its input."""
        assert self._process.stdin is not None
        self._process.stdin.write(line.encode() + b"\n")


def node() -> str:
    """Return the program that runs the clients, once their packages are there."""
    program = shutil.which("node")
    assert program, "there is no Node.js: run `python3 dev.py test`, which installs it or says how"
    assert PACKAGES.exists(), "the npm packages are missing: run `python3 dev.py test`, which installs them"
    return program


class Server(Process):
    """The app in server.py, whose store and deeds are in a folder that it may share with others."""

    def __init__(self, folder: Path, mode: str = "defer") -> None:
        super().__init__(sys.executable, HERE / "server.py", str(folder), mode)
        self.folder = folder

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        self.url = f"http://127.0.0.1:{int(await self.read_line())}"
        return self


def deeds(folder: Path, chat: str = "chat") -> list[str]:
    """Return what the tools did in this chat, in all processes of this folder."""
    file = folder / "deeds"
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    return [deed for at, _, deed in (line.partition("\t") for line in lines) if at == chat]


async def requests(folder: Path, session: str) -> list[ApprovalRequest]:
    """Return the requests of a session, oldest first."""
    store = SqliteStore(folder / "sayso.db")
    try:
        return [each for each in await store.oldest(1000) if each.session == session]
    finally:
        await store.aclose()


class Client(Process):
    """A browser's side: one conversation, held by the real client of a front end."""

    def __init__(self, front: Front) -> None:
        script = HERE / "clients" / f"{front.replace('-', '_')}.cjs"
        super().__init__(node(), script, environ={"NODE_PATH": str(PACKAGES)})
        self.front = front

    async def open(
        self, server: Server, *, user: str = "ann", chat: str = "chat", path: str = "", twin: Server | None = None
    ) -> Told:
        """Speak with this server, as this person; the conversation so far stays. A twin gets all requests, too."""
        path = path or f"/{self.front}"
        also = None if twin is None else twin.url + path
        return await self("open", url=server.url + path, user=user, id=chat, twin=also)

    async def __call__(self, command: str, **options: Any) -> Told:
        """Give a command, and return what the person sees then."""
        self.write_line(json.dumps({"command": command, **options}))
        return Told(json.loads(await self.read_line()))


class Told:
    """What a person sees: the questions that wait, what the assistant said, and an error."""

    def __init__(self, seen: dict[str, Any]) -> None:
        self.waiting: list[Any] = seen["waiting"]
        self.said: list[str] = seen["said"]
        self.error: str | None = seen.get("error")
        self.metadata: list[Any] = seen.get("metadata", [])
