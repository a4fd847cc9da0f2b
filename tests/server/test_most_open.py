"""How many questions of one agent may wait at once, so that an agent in a loop buries nobody else's."""

import asyncio
from collections.abc import AsyncGenerator, Generator
from pathlib import Path

import anyio
import httpx2
import pytest
from tests.server.served import PATIENCE, Served
from tests.server.started import Hub

from sayso import ApprovalController, Policy, guard
from sayso.errors import StoreError
from sayso.stores.remote import RemoteStore
from sayso.testing.samples import sample_request

POLICY = Policy.from_dict({"default": "required"})
REFUSED = r"403: builder has as many open questions as one agent may have \(2\)"


@pytest.fixture
def hub(tmp_path: Path) -> Generator[Served]:
    served = Served(tmp_path, most_open=2)
    served.start()
    yield served
    served.stop()


@pytest.fixture
async def builder(hub: Served) -> AsyncGenerator[RemoteStore]:
    store = RemoteStore(hub.url, token=hub.token("agent", "builder", project="shop"))
    yield store
    await store.aclose()


@pytest.mark.proves("H8")
async def test_a_question_too_many_is_refused_at_once_and_its_call_does_not_run(
    hub: Served, builder: RemoteStore
) -> None:
    ran: list[int] = []

    async def pay(amount: int) -> None:
        ran.append(amount)

    for call_id in ("c1", "c2"):
        await builder.open(sample_request(call_id=call_id))
    async with ApprovalController(mode="interactive", policy=POLICY, store=builder) as controller:
        with pytest.raises(StoreError, match=REFUSED), anyio.fail_after(PATIENCE):  # no trying again for long
            await guard(pay, controller=controller)(5)
    assert ran == []
    assert len(hub.do(hub.store.pending())) == 2


async def test_who_has_room_again_may_ask_again(hub: Served, builder: RemoteStore) -> None:
    first, second = [await builder.open(sample_request(call_id=call_id)) for call_id in ("c1", "c2")]
    with hub.person(project="shop") as ann:
        assert ann.post(f"/approvals/{first.id}", json={"approved": False}).status_code == 200
    await builder.close(second.id, "withdrawn", None, now=1.0)
    hub.until(lambda: len(hub.hub.open_requests), 0)
    for call_id in ("c3", "c4"):
        await builder.open(sample_request(call_id=call_id))
    with pytest.raises(StoreError, match=REFUSED):
        await builder.open(sample_request(call_id="c5"))


async def test_what_was_asked_before_is_found_by_an_agent_that_may_ask_no_more(
    hub: Served, builder: RemoteStore
) -> None:
    first = await builder.open(sample_request(call_id="c1"))
    await builder.open(sample_request(call_id="c2"))
    assert await builder.open(first) == first, "as after an answer that was lost"
    assert await builder.open(sample_request(call_id="c1")) == first, "as in a run that goes on elsewhere"
    with pytest.raises(StoreError, match=REFUSED):
        await builder.open(sample_request(call_id="c3"))


async def test_many_at_once_do_not_slip_through_before_the_feed_has_told_of_them(
    hub: Served, builder: RemoteStore
) -> None:
    asked = [builder.open(sample_request(call_id=f"c{each}")) for each in range(30)]
    done = await asyncio.gather(*asked, return_exceptions=True)
    assert len([each for each in done if isinstance(each, StoreError)]) == 28
    assert len(hub.do(hub.store.pending())) == 2


async def test_each_agent_has_room_of_its_own(hub: Served, builder: RemoteStore) -> None:
    for call_id in ("c1", "c2"):
        await builder.open(sample_request(call_id=call_id))
    for name, project in (("tester", "shop"), ("builder", "bank")):
        other = RemoteStore(hub.url, token=hub.token("agent", name, project=project))
        await other.open(sample_request())
        await other.aclose()


async def test_a_hub_counts_what_was_open_before_it_started_and_what_is_asked_at_another(database: str) -> None:
    one, two = Served(database, most_open=2), Served(database, most_open=2)
    one.start()
    text = one.token("agent", "builder")
    here = RemoteStore(one.url, token=text)
    await here.open(sample_request(call_id="c1"))
    two.start()
    await here.open(sample_request(call_id="c2"))
    two.until(lambda: len(two.hub.open_requests), 2)
    there = RemoteStore(two.url, token=text)
    with pytest.raises(StoreError, match=REFUSED):
        await there.open(sample_request(call_id="c3"))
    for each in (here, there):
        await each.aclose()
    for each in (one, two):
        each.stop()


def test_the_most_is_said_on_the_command_line_and_holds_in_every_language(tmp_path: Path) -> None:
    hub = Hub(tmp_path, "--most-open", "1")
    try:
        text = hub.sayso("token", "create", "agent", "--name", "builder")
        with httpx2.Client(base_url=hub.url, headers={"Authorization": f"Bearer {text}"}, timeout=PATIENCE) as agent:
            told = [agent.post("/requests", json={"tool": "pay", "args": {}}) for _ in range(2)]
        assert [each.status_code for each in told] == [201, 403]
        assert "builder has as many open questions as one agent may have (1)" in told[1].json()["detail"]
    finally:
        hub.kill()
