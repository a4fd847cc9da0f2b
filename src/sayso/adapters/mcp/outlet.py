"""Outlet: a pipe that whole messages are written to, by several tasks, with back-pressure.

Tests: tests/adapters/mcp/test_relay.py
"""

from __future__ import annotations

import asyncio

from sayso.adapters.mcp.messages import encode


class Outlet:
    """The writing end to the client or to the server; once that is gone, what is written is dropped."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self._turn = asyncio.Lock()

    async def send(self, line: bytes) -> None:
        """Write a line as it is."""
        async with self._turn:
            try:
                self._writer.write(line)
                await self._writer.drain()
            except ConnectionError:
                self._writer.close()

    async def send_message(self, message: object) -> None:
        """Write a message."""
        await self.send(encode(message))

    def close(self) -> None:
        """Close the pipe, so that its reader sees the end."""
        self._writer.close()
