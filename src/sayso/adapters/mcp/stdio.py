"""The relay over standard input and output: starts the server, passes lines both ways, and ends with either side.

Tests: tests/adapters/mcp/test_relay.py
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, BinaryIO

from sayso.adapters.mcp import messages
from sayso.adapters.mcp.line_relay import LineRelay
from sayso.adapters.mcp.outlet import Outlet
from sayso.errors import ConfigurationError

if TYPE_CHECKING:
    from sayso.adapters.mcp.relay import Relay

_LOG = logging.getLogger("sayso")
_LONGEST_LINE = 64 * 1024 * 1024  # a server's answer may hold a whole file
_FAREWELL_SECONDS = 5.0


async def relay_stdio(relay: Relay, command: Sequence[str]) -> int:
    """Relay between this process's standard streams and a server; return the server's exit code."""
    reader, writer = await _open_client(sys.stdin.buffer, sys.stdout.buffer)
    try:
        server = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, limit=_LONGEST_LINE)
    except OSError as error:
        raise ConfigurationError(f"the server {command[0]!r} could not be started: {error.strerror}") from None
    assert server.stdin is not None  # noqa: S101 - as PIPE says
    assert server.stdout is not None  # noqa: S101 - as above
    client_end, server_end = Outlet(writer), Outlet(server.stdin)
    lines = LineRelay(relay, client=client_end, server=server_end)
    downwards = asyncio.create_task(_pass_lines(reader, lines.from_client, "the client"))
    upwards = asyncio.create_task(_pass_lines(server.stdout, lines.from_server, "the server"))
    await asyncio.wait([downwards, upwards], return_when=asyncio.FIRST_COMPLETED)
    if not upwards.done():
        await lines.client_gone()
        server_end.close()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(upwards), _FAREWELL_SECONDS)
    await lines.server_gone()
    for task in (downwards, upwards):
        task.cancel()
    code = await _end(server)
    client_end.close()
    return code


async def refuse_client(reason: str) -> None:
    """Answer every request of the client with an error that says why there is no relay, until the client is gone."""
    reader, writer = await _open_client(sys.stdin.buffer, sys.stdout.buffer)
    client = Outlet(writer)

    async def refuse(line: bytes) -> None:
        with contextlib.suppress(messages.MessageError):
            message, _ = messages.read_client_message(line)
            if messages.id_text(message.get("id")) is not None and "method" in message:
                error = {"code": -32603, "message": f"sayso refuses to start: {reason}"}
                await client.send_message({"jsonrpc": "2.0", "id": message["id"], "error": error})

    await _pass_lines(reader, refuse, "the client")
    client.close()


async def _open_client(source: BinaryIO, target: BinaryIO) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Open the client's two pipes."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=_LONGEST_LINE)
    try:
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), source)
        transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, target)
    except ValueError:
        raise ConfigurationError("`sayso mcp` speaks through pipes: let an MCP client start it") from None
    return reader, asyncio.StreamWriter(transport, protocol, None, loop)


async def _pass_lines(reader: asyncio.StreamReader, take: Callable[[bytes], Awaitable[None]], whose: str) -> None:
    """Pass on whole lines until the end; half a line at the end is dropped, and one that is too long is the end."""
    while True:
        try:
            line = await reader.readuntil(b"\n")
        except asyncio.IncompleteReadError:
            return
        except asyncio.LimitOverrunError:
            _LOG.error("%s has sent a line of more than %d bytes, so the relay ends", whose, _LONGEST_LINE)
            return
        if line.strip():
            await take(line)


async def _end(server: Process) -> int:
    """Wait for the server to end; one that does not is terminated, and then killed."""
    for stop in (server.terminate, server.kill):
        with contextlib.suppress(TimeoutError):
            return await asyncio.wait_for(server.wait(), _FAREWELL_SECONDS)
        with contextlib.suppress(ProcessLookupError):
            stop()
    return await server.wait()
