"""A real HTTP server that hears what a hub tells others."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any, Self

from tests.waiting import within


class Ear:
    """Keeps what it is sent: headers and body."""

    def __init__(self) -> None:
        self.heard: asyncio.Queue[tuple[dict[str, str], Any]] = asyncio.Queue()
        self.refuse = 0

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.address = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in head.split("\r\n")[1:])}
            body = (await reader.readexactly(int(headers["content-length"]))).decode()
            self.refuse -= 1
            status = "503 Later" if self.refuse >= 0 else "200 OK"
            writer.write(f"HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode())
            await writer.drain()
            if self.refuse < 0:
                self.heard.put_nowait((headers, body))

    async def next(self) -> tuple[dict[str, str], Any]:
        with within(10, lambda: f"nothing heard, and {self.refuse} to be refused"):
            return await self.heard.get()
