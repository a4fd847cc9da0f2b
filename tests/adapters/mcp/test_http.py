"""The relay over streamable HTTP: the SDK's client and servers of both eras, and servers that do as they like."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import httpx2
import pytest
from mcp import Client
from tests.adapters.mcp.http_desk import YES, HttpDesk, http_relay, plain_server, raw_upstream, serving
from tests.adapters.mcp.sdk_server import build

from sayso import ApprovalDecision
from sayso.core import audit

NO = ApprovalDecision(approved=False, note="too much", who="ann")
ERAS = pytest.mark.parametrize("mode", ["legacy", "2026-07-28", "auto"])


@pytest.fixture
def book() -> list[str]:
    return []


@pytest.fixture(params=[False, True], ids=["streams", "json"])
async def desk(request: pytest.FixtureRequest, book: list[str]) -> AsyncGenerator[HttpDesk]:
    app = build(book).streamable_http_app(json_response=request.param)
    async with serving(plain_server(app)) as url, http_relay(f"{url}/mcp") as found:
        yield found


def words(result: Any) -> str:
    return result.content[0].text


# The SDK's client, before the SDK's server.


@ERAS
async def test_a_call_is_allowed_asked_about_edited_refused_or_blocked(
    desk: HttpDesk, book: list[str], mode: str
) -> None:
    async with Client(desk.url, mode=mode) as client:
        assert [each.name for each in (await client.list_tools()).tools] == ["look", "pay", "slow"]
        assert words(await client.call_tool("look", {"what": "x"})) == "seen x"
        assert "blocked by policy" in words(await client.call_tool("wipe", {}))
        for decision, told in (
            (YES, "paid 5"),
            (ApprovalDecision(approved=True, override_args={"amount": 3}, who="ann"), "crm.pay(amount=3)"),
            (NO, "too much"),
        ):
            paying = asyncio.create_task(client.call_tool("pay", {"amount": 5}))
            asked = await desk.answer(decision)
            assert told in words(await paying)
            assert (asked.tool_name, dict(asked.args), asked.description) == ("crm.pay", {"amount": 5}, "Pay.")
        assert (await client.read_resource("note://one")).contents[0].model_dump()["text"] == "a note"
    assert book == ["look x", "pay 5", "pay 3"]
