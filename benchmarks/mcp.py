"""P16: a call that the policy settles, through the MCP relay over stdio, beside the server alone; memory when idle."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncGenerator
from pathlib import Path

from mcp import Client, StdioServerParameters

from benchmarks import report
from benchmarks.rows import Row, at_most, compare, row
from benchmarks.timing import Effort, interleave, repeat_async
from sayso import ApprovalController, Policy
from sayso.adapters.kit import Gate
from sayso.adapters.mcp.pins import StoredPins
from sayso.adapters.mcp.relay import Relay
from sayso.adapters.mcp.stdio import relay_stdio
from sayso.adapters.mcp.tool_listing import Listing
from sayso.stores.memory import MemoryStore

SERVER = Path(__file__).parents[1] / ".tools" / "npm" / "node_modules" / ".bin" / "mcp-server-filesystem"
RULES = "default: required\ntools:\n  files.read_text_file: none\n"


async def settled_calls(effort: Effort) -> list[Row]:
    """Read a small file of the filesystem server with the SDK's client: alone, with the store in memory, in SQLite."""
    with report.scratch() as scratch:
        folder = Path(scratch)
        (folder / "a.txt").write_text("hello")
        (folder / "sayso.yaml").write_text(RULES)
        alone = ["node", str(SERVER), scratch]
        own = [sys.executable, "-m", "sayso", "mcp", "--name", "files"]
        stored = [*own, "--policy", str(folder / "sayso.yaml"), "--store", str(folder / "sayso.db"), "--", *alone]
        async with (
            _client(alone) as direct,
            _client([sys.executable, "-m", "benchmarks.mcp", *alone]) as relayed,
            _client(stored) as audited,
        ):
            clients = {"direct": direct, "relayed": relayed, "audited": audited}
            path = {"path": str(folder / "a.txt")}
            samples = {
                name: repeat_async(lambda to=each: to.call_tool("read_text_file", path))
                for name, each in clients.items()
            }
            seconds = await interleave(samples, effort)
    return [
        row(
            "P16",
            "MCP call, store in memory; peer: no relay",
            seconds["relayed"],
            peer=compare(seconds["relayed"], seconds["direct"], at_most(1.5)),
        ),
        row(
            "P16",
            "MCP call, audit in SQLite; peer: no relay",
            seconds["audited"],
            peer=compare(seconds["audited"], seconds["direct"], at_most(2)),
        ),
    ]


async def idle_memory(effort: Effort) -> list[Row]:
    """Start a relay, list the tools once, and read its resident memory; beside an interpreter that waits for a line."""
    del effort
    with report.scratch() as scratch:
        (Path(scratch) / "sayso.yaml").write_text(RULES)
        command = [sys.executable, "-m", "sayso", "mcp", "--name", "files", "--policy", f"{scratch}/sayso.yaml"]
        pipe = asyncio.subprocess.PIPE
        bare = await asyncio.create_subprocess_exec(
            sys.executable, "-c", "print(flush=True); input()", stdin=pipe, stdout=pipe
        )
        relay = await asyncio.create_subprocess_exec(
            *[*command, "--store", f"{scratch}/sayso.db", "--", "node", str(SERVER), scratch], stdin=pipe, stdout=pipe
        )
        figures: list[float] = []
        for process, line in ((relay, b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n'), (bare, b"")):
            assert process.stdin is not None  # noqa: S101 - as `stdin=` says
            assert process.stdout is not None  # noqa: S101 - as above
            process.stdin.write(line)
            await process.stdout.readline()
            figures.append(_resident(process.pid))
            await process.communicate(b"\n")
    ours, theirs = figures
    return [row("P16", "idle relay; peer: python", [ours], unit="B", peer=compare([ours], [theirs]))]


def _resident(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return float(pages * os.sysconf("SC_PAGE_SIZE"))


@contextlib.asynccontextmanager
async def _client(command: list[str]) -> AsyncGenerator[Client]:
    parameters = StdioServerParameters(command=command[0], args=command[1:], env=dict(os.environ))
    async with Client(parameters, mode="legacy") as client:
        yield client


async def _relay_in_memory(command: list[str]) -> None:
    """Relay as `sayso mcp` does, with a store in memory."""
    policy = Policy({"files.read_text_file": "none"})
    async with ApprovalController(mode="defer", policy=policy, store=MemoryStore()) as controller:
        gate = Gate(controller)
        listing = Listing(gate, "files", StoredPins("files", controller.store))
        await relay_stdio(Relay(gate, "files", listing, hold=45.0), command)


MEASUREMENTS = (settled_calls, idle_memory)

if __name__ == "__main__":
    asyncio.run(_relay_in_memory(sys.argv[1:]))
