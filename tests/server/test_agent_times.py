"""The times by which a hub keeps and orders are its own, whatever an agent says the time is."""

import json
from collections.abc import Generator
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest
from msgspec.structs import replace
from tests.server.remote_hub import Served

from sayso import ApprovalRequest
from sayso.client.retention import prune
from sayso.core import agent_protocol as protocol
from sayso.core import audit
from sayso.core.model import ParkedRun, new_id
from sayso.core.msgpack_codec import pack_request
from sayso.testing import FixedClock
from sayso.testing.samples import YES, sample_request

NOW = 5000.0
AGES_AHEAD = 9e10  # the year 4821
DAY = 24 * 3600.0

pytestmark = [pytest.mark.anyio, pytest.mark.proves("H8")]


@pytest.fixture
def served(tmp_path: Path) -> Generator[Served]:
    with Served(tmp_path / "sayso.db", clock=FixedClock(NOW)) as hub:
        yield hub


def send(served: Served, operation: str, message: Any) -> httpx2.Response:
    headers = {"authorization": f"Bearer {served.token('builder', 'shop')}", "content-type": protocol.MEDIA}
    body = msgspec.msgpack.encode(message)
    return httpx2.post(f"{served.url}/agent/{operation}", content=body, headers=headers, timeout=30)


def opened(served: Served, **facts: Any) -> ApprovalRequest:
    request = replace(sample_request(call_id=new_id()), **facts)
    assert send(served, "open", protocol.Open(request=pack_request(request))).status_code == 200
    return request


async def test_nothing_that_an_agent_dates_ahead_outlives_its_retention(served: Served) -> None:
    used, withdrawn, expired = (opened(served, asked_at=AGES_AHEAD) for _ in range(3))
    await served.hub.controller.answer(used.id, YES, who="ann", channel="test")
    far: dict[str, Any] = {"now": AGES_AHEAD, "decided_at": AGES_AHEAD}
    line = json.dumps({"at": AGES_AHEAD, "step": "allowed", "tool": "pay"}).encode()
    for operation, message in (
        ("claim", protocol.Claim(id=used.id, now=AGES_AHEAD, attempt="")),
        ("close", protocol.Close(id=withdrawn.id, status="withdrawn", **far)),
        ("close", protocol.Close(id=expired.id, status="expired", **far)),
        ("append", protocol.Append(news=[(used.id, "returned"), line], attempt="")),
    ):
        assert send(served, operation, message).status_code == 200
    pruned = await prune(served.store, NOW + 8 * DAY)
    assert (pruned.requests, await served.store.recent()) == (3, [])
    steps = [(entry["at"], entry.get("agent_at")) async for entry in audit.entries(served.store)]
    assert {at for at, _ in steps if at < NOW + DAY} == {NOW}
    assert [claimed for _, claimed in steps if claimed is not None] == [AGES_AHEAD], "what it claims is kept beside"


async def test_a_question_that_an_agent_ends_early_is_kept_as_long_as_any_other(served: Served) -> None:
    request = opened(served, expires_at=NOW + 365 * DAY)
    closed = send(served, "close", protocol.Close(id=request.id, status="expired", now=NOW))
    assert closed.status_code == 200
    (found,) = await served.store.recent()
    assert (found.status, found.expires_at) == ("expired", NOW), "it ended now"
    assert (await prune(served.store, NOW + DAY)).requests == 1


async def test_whoever_has_seen_a_question_did_so_by_the_clock_of_the_hub(served: Served) -> None:
    request = opened(served)
    seen = protocol.MarkSeen(id=request.id, who="ann", channel="desk", at=AGES_AHEAD)
    assert send(served, "see", seen).status_code == 200
    (found,) = await served.store.pending()
    assert [each.at for each in found.seen] == [NOW]


async def test_a_run_is_parked_by_the_clock_of_the_hub(served: Served) -> None:
    run = ParkedRun(id=new_id(), parked_at=AGES_AHEAD)
    assert send(served, "park", protocol.Park(name=run.id, state=b"state", run=run)).status_code == 200
    assert [each.parked_at for each in await served.store.runs()] == [NOW]


def test_a_question_that_would_stay_open_for_ages_is_refused(served: Served) -> None:
    request = replace(sample_request(), expires_at=AGES_AHEAD)
    refused = send(served, "open", protocol.Open(request=pack_request(request)))
    assert (refused.status_code, refused.json()["detail"]) == (
        422,
        "the request is refused: it would stay open for more than 365 days",
    )
