"""Servers and clients that others have made, with the relay between them; `python3 dev.py test` fetches them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from tests.adapters.mcp.client import Desk
from tests.adapters.mcp.http_desk import http_relay

from sayso import ApprovalDecision

TOOLS = Path(__file__).parents[3] / ".tools"
NPM = TOOLS / "npm" / "node_modules" / ".bin"
GIT_SERVER = TOOLS / "mcp-server-git-2026.10.19"
ERAS = pytest.mark.parametrize("mode", ["auto", "legacy"])


def node(program: str) -> list[str]:
    """Return the command of an npm package."""
    found, script = shutil.which("node"), NPM / program
    assert found, "these tests need Node.js: install it"
    assert script.exists(), f"{script} is missing: `python3 dev.py test` installs it"
    return [found, str(script)]


def params(command: list[str], **environ: str) -> StdioServerParameters:
    return StdioServerParameters(command=command[0], args=command[1:], env={**os.environ, **environ})


def words(result: Any) -> str:
    return "\n".join(each.text for each in result.content if each.type == "text")


@ERAS
async def test_the_filesystem_server(tmp_path: Path, mode: str) -> None:
    desk = Desk(
        tmp_path, "default: required\ntools:\n  files.read_*: none\n  files.list_*: none\n  files.move_file: blocked\n"
    )
    work = tmp_path / "work"
    work.mkdir()
    (work / "a.txt").write_text("hello")
    command = desk.relay_command("files", "--", *node("mcp-server-filesystem"), str(work))
    async with Client(params(command), mode=mode) as client, desk.controller() as controller:
        listed = {each.name for each in (await client.list_tools()).tools}
        assert ("read_text_file" in listed, "move_file" in listed) == (True, False)
        assert words(await client.call_tool("read_text_file", {"path": str(work / "a.txt")})) == "hello"
        moving = {"source": str(work / "a.txt"), "destination": str(work / "b.txt")}
        assert "blocked by policy" in words(await client.call_tool("move_file", moving))
        writing = {"path": str(work / "c.txt"), "content": "from the model"}
        task = asyncio.create_task(client.call_tool("write_file", writing))
        (request,) = await desk.asked(controller)
        edited = {**writing, "content": "from a person"}
        await controller.answer(request.id, ApprovalDecision(approved=True, override_args=edited, who="ann"))
        assert "from a person" in words(await task)
    assert {each.name: each.read_text() for each in work.iterdir()} == {"a.txt": "hello", "c.txt": "from a person"}


@ERAS
async def test_the_git_server(tmp_path: Path, mode: str) -> None:
    desk = Desk(tmp_path, "default: required\ntools:\n  git.git_status: none\n")
    repository = tmp_path / "repository"
    subprocess.run([shutil.which("git") or "git", "init", "-q", str(repository)], check=True)
    (repository / "a").write_text("a")
    assert GIT_SERVER.exists(), f"{GIT_SERVER} is missing: `python3 dev.py test` installs it"
    server = [sys.executable, "-m", "mcp_server_git", "--repository", str(repository)]
    command = desk.relay_command("git", "--", *server)
    async with Client(params(command, PYTHONPATH=str(GIT_SERVER)), mode=mode) as client, desk.controller() as control:
        assert "Untracked" in words(await client.call_tool("git_status", {"repo_path": str(repository)}))
        adding = client.call_tool("git_add", {"repo_path": str(repository), "files": ["a"]})
        task = asyncio.create_task(adding)
        (request,) = await desk.asked(control)
        assert request.tool_name == "git.git_add"
        await control.answer(request.id, ApprovalDecision(approved=False, note="not yet", who="ann"))
        assert "not yet" in words(await task)
        assert "Untracked" in words(await client.call_tool("git_status", {"repo_path": str(repository)}))


@ERAS
async def test_the_everything_server_over_stdio(tmp_path: Path, mode: str) -> None:
    desk = Desk(tmp_path, "default: required\ntools:\n  all.*: none\n")
    command = desk.relay_command("all", "--", *node("mcp-server-everything"), "stdio")
    told: list[float] = []

    async def heard(progress: float, total: float | None, message: str | None) -> None:
        told.append(progress)

    async with Client(params(command), mode=mode) as client:
        assert words(await client.call_tool("echo", {"message": "hi"})) == "Echo: hi"
        long = {"duration": 1, "steps": 2}
        await client.call_tool("trigger-long-running-operation", long, progress_callback=heard)
        assert told == [1, 2]
        assert len((await client.list_resources()).resources) > 0
        assert len((await client.list_prompts()).prompts) > 0


@contextlib.asynccontextmanager
async def everything_over_http() -> AsyncGenerator[str]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = await asyncio.create_subprocess_exec(
        *node("mcp-server-everything"),
        "streamableHttp",
        env={**os.environ, "PORT": str(port)},
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stderr is not None
        async with asyncio.timeout(40):
            while b"listening" not in await process.stderr.readline():
                pass
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.kill()
        await process.communicate()


@ERAS
async def test_the_everything_server_over_http(mode: str) -> None:
    async with (
        everything_over_http() as url,
        http_relay(url, rules={"crm.echo": "none"}) as desk,
        Client(desk.url, mode=mode) as client,
    ):
        assert words(await client.call_tool("echo", {"message": "hi"})) == "Echo: hi"
        task = asyncio.create_task(client.call_tool("get-sum", {"a": 1, "b": 2}))
        await desk.answer()
        assert "is 3" in words(await task)


async def test_the_inspector(tmp_path: Path) -> None:
    desk = Desk(tmp_path, "default: required\ntools:\n  all.echo: none\n  all.get-sum: blocked\n")
    server = desk.relay_command("all", "--", *node("mcp-server-everything"), "stdio")
    script = tmp_path / "server"  # the inspector takes options of a server for its own
    script.write_text(f"exec {shlex.join(server)}\n")

    async def inspect(*words_of_it: str) -> str:
        process = await asyncio.create_subprocess_exec(
            *[*node("mcp-inspector"), "--cli", "sh", str(script), *words_of_it], stdout=asyncio.subprocess.PIPE
        )
        out, _ = await asyncio.wait_for(process.communicate(), 60)
        return out.decode()

    listed = {each["name"] for each in json.loads(await inspect("--method", "tools/list"))["tools"]}
    assert ("echo" in listed, "get-sum" in listed) == (True, False)
    calling = ["--method", "tools/call", "--tool-name"]
    assert "Echo: hi" in await inspect(*calling, "echo", "--tool-arg", "message=hi")
