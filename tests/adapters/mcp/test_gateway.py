"""`sayso mcp` as processes: how it starts over HTTP, and what is left when one of the three is killed."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.adapters.mcp.client import YES, Desk, relay
from tests.adapters.mcp.http_desk import RawRequest, raw_upstream

from sayso import ApprovalController

PIPE = asyncio.subprocess.PIPE
CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "pay", "arguments": {"amount": 5}}}


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


@contextlib.asynccontextmanager
async def started(command: list[str], **environ: str) -> AsyncGenerator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        *command, stdin=PIPE, stdout=PIPE, stderr=PIPE, env={**os.environ, **environ}
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


@contextlib.asynccontextmanager
async def http_server() -> AsyncGenerator[tuple[str, list[RawRequest]]]:
    """Yield the address of a server with one tool, and the calls that it gets."""
    calls: list[RawRequest] = []

    async def handle(request: RawRequest) -> None:
        if request.body["method"] == "tools/list":
            await request.result({"tools": [{"name": "pay", "inputSchema": {"type": "object"}}]})
        else:
            calls.append(request)
            await request.result({"content": [{"type": "text", "text": "paid"}]})

    async with raw_upstream(handle) as url:
        yield url, calls


def over_http(desk: Desk, url: str, *options: str) -> list[str]:
    return desk.relay_command("crm", "--listen", "127.0.0.1:0", "--upstream", url, "--session", "s", *options)


async def address_of(process: asyncio.subprocess.Process) -> str:
    assert process.stdout is not None
    return (await asyncio.wait_for(process.stdout.readline(), 40)).decode().strip()


async def post(address: str, message: Any = CALL) -> str:
    async with httpx2.AsyncClient(trust_env=False, timeout=60) as client:
        return (await client.post(address, json=message)).text


async def test_a_relay_over_http_says_where_it_is_and_holds_the_credential(desk: Desk) -> None:
    async with http_server() as (url, calls):
        command = over_http(desk, url, "--header-env", "Authorization=CRM_TOKEN")
        async with started(command, CRM_TOKEN="Bearer ours") as process:  # noqa: S106 - of this test
            paying = asyncio.create_task(post(await address_of(process)))
            await desk.answer()
            assert "paid" in await paying
    assert calls[0].headers["authorization"] == "Bearer ours"


async def test_the_end_of_a_relay_over_http_withdraws_its_questions(desk: Desk) -> None:
    async with http_server() as (url, calls), started(over_http(desk, url)) as process, desk.controller() as control:
        paying = asyncio.create_task(post(await address_of(process)))
        (request,) = await desk.asked(control)
        process.send_signal(signal.SIGTERM)
        assert (await control.wait(request.id, timeout=30)).status == "withdrawn"
        assert await asyncio.wait_for(process.wait(), 30) == 0
        await asyncio.gather(paying, return_exceptions=True)
    assert calls == []


async def test_a_relay_over_http_that_is_killed_runs_nothing_twice(desk: Desk) -> None:
    async with http_server() as (url, calls), desk.controller() as control:
        async with started(over_http(desk, url)) as process:
            paying = asyncio.create_task(post(await address_of(process)))
            (request,) = await desk.asked(control)
            process.kill()
            await asyncio.gather(paying, return_exceptions=True)
        await control.answer(request.id, YES)
        async with started(over_http(desk, url, "--hold", "1s")) as process:
            address = await address_of(process)
            assert "paid" in await post(address)
            assert "Not executed yet" in await post(address)  # another call like it is another question
    assert len(calls) == 1


HERE = ("--listen", "127.0.0.1:0", "--upstream", "https://crm.example")


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--listen", "0.0.0.0:0", *HERE[2:]], "others could make calls"),
        (["--listen", "8485", *HERE[2:]], "no address to listen at"),
        (["--listen", "127.0.0.1:0", "--upstream", "http://crm.example"], "anybody on the way"),
        (["--listen", "127.0.0.1:0", "--upstream", "https://ann:pw@crm.example"], "no address of a server"),
        ([*HERE, "--header-env", "X=NONE"], "NONE has no"),
        ([*HERE, "--header-env", "X: secret"], "and no value"),
        ([*HERE, "--token-env", "HOME", "--pass-authorization"], "one Authorization"),
        (["--upstream", "https://crm.example"], "--upstream with --listen"),
        ([], "command of a server"),
    ],
)
async def test_a_relay_that_would_not_be_safe_does_not_start(desk: Desk, options: list[str], why: str) -> None:
    async with started(desk.relay_command("crm", *options)) as process:
        out, err = await asyncio.wait_for(process.communicate(), 40)
    told = " ".join(err.decode().split())
    assert (process.returncode in {1, 2}, out, why in told, "secret" in told) == (True, b"", True, False), told


# Kill -9, over stdio.


async def test_a_relay_that_is_killed_in_the_middle_of_a_call_leaves_it_unknown_and_runs_it_once(desk: Desk) -> None:
    async with relay(desk, "--session", "s") as client:
        client.call("never", 1)
        asked = await desk.answer()
        await client.read()  # the server has begun
        client.process.kill()
        await client.process.wait()
    async with relay(desk, "--session", "s", "--hold", "1s") as client, desk.controller() as control:
        client.call("never", 1)
        assert "Not executed yet" in await client.result()  # a new question
        found = await control.store.get(asked.id)
        assert found is not None
        assert found.state == "used, result unknown"
    assert desk.calls == ["never"]


async def test_a_server_that_is_killed_while_a_question_is_open_withdraws_it(desk: Desk) -> None:
    async with relay(desk) as client, desk.controller() as control:
        client.call("pay", 1, amount=5)
        (request,) = await desk.asked(control)
        os.kill(int((desk.folder / "pid").read_text()), signal.SIGKILL)
        assert (await control.wait(request.id, timeout=30)).status == "withdrawn"
        await asyncio.wait_for(client.process.wait(), 30)
    assert desk.ran == []


@pytest.mark.parametrize("begun", [False, True])
async def test_a_client_that_is_killed_gets_nothing_run_after_that(desk: Desk, *, begun: bool) -> None:
    tool = "never" if begun else "pay"
    line = json.dumps({**CALL, "params": {"name": tool, "arguments": {}}})
    client = "import subprocess, sys; p = subprocess.Popen(sys.argv[2:], stdin=-1); p.stdin.write(sys.argv[1].encode())"
    program = [
        sys.executable,
        "-c",
        f"{client}; p.stdin.write(b'\\n'); p.stdin.flush(); p.wait()",
        line,
        *desk.command(),
    ]
    async with started(program) as process, desk.controller() as control:
        (request,) = await desk.asked(control)
        if begun:
            await control.answer(request.id, YES)
            assert process.stdout is not None
            await asyncio.wait_for(process.stdout.readline(), 30)
        process.kill()
        assert (await control.wait(request.id, timeout=30)).status == ("used" if begun else "withdrawn")
        if begun:
            await _ended(control, request.id)
    assert desk.calls == (["never"] if begun else [])


async def _ended(control: ApprovalController, request_id: str) -> None:
    """Wait until the relay has recorded how the call has ended."""
    async with asyncio.timeout(30):
        while True:
            cursor, _ = await control.store.changes()
            found = await control.store.get(request_id)
            if found is not None and found.result == "raised":
                return
            await control.store.changed(cursor)
