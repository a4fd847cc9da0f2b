"""Several hubs on one database keep nothing themselves: whoever talks to one is heard by all."""

from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import anyio
import pytest
from tests.postgres import Postgres, Wire
from tests.server.served import Served, following, heard
from websockets.exceptions import ConnectionClosed

from sayso.core import tokens
from sayso.stores.remote import RemoteStore
from sayso.testing.samples import sample_request


@pytest.fixture
def hubs(database: str) -> Generator[tuple[Served, Served]]:
    one, two = Served(database), Served(database)
    one.start()
    two.start()
    yield one, two
    one.stop()
    two.stop()


@pytest.mark.proves("R70", "H6")
def test_what_is_asked_at_one_hub_is_seen_and_answered_at_the_other(hubs: tuple[Served, Served]) -> None:
    one, two = hubs
    text = one.token()
    with (
        one.client(text) as here,
        two.client(text) as there,
        following(here) as events,
        following(there) as others,
        one.socket(text) as socket,
        two.socket(text) as other,
    ):
        assert [next(events)[0], next(others)[0]] == ["hello", "hello"]
        request = one.ask()
        assert [next(events)[2]["id"], next(others)[2]["id"]] == [request.id] * 2
        assert [heard(each)["id"] for each in (socket, other)] == [request.id] * 2
        assert [each.get("/approvals").json()["items"][0]["id"] for each in (here, there)] == [request.id] * 2
        with ThreadPoolExecutor(1) as waiting:
            polled = waiting.submit(here.get, f"/approvals/{request.id}", params={"wait": 20})
            assert there.post(f"/approvals/{request.id}", json={"approved": True}).status_code == 200
            assert polled.result(20).json()["status"] == "approved"
        assert [next(each)[2]["status"] for each in (events, others)] == ["approved"] * 2
        assert [heard(each)["type"] for each in (socket, other)] == ["approval_closed"] * 2
        assert here.post(f"/approvals/{request.id}", json={"approved": False}).status_code == 409


@pytest.mark.proves("R70", "H6")
async def test_an_agent_at_one_hub_goes_on_when_somebody_answers_at_the_other_and_may_change_hubs(
    hubs: tuple[Served, Served],
) -> None:
    one, two = hubs
    token, text = tokens.make("agent", "builder", now=0.0, project="shop")
    await one.store.add_token(token)
    near, far = RemoteStore(one.url, token=text), RemoteStore(two.url, token=text)
    request = await near.open(sample_request())
    async with anyio.create_task_group() as group:

        async def wait() -> None:
            with anyio.fail_after(20):
                assert (await near.closed(request.id)).status == "approved"

        group.start_soon(wait)
        with two.person(project="shop") as ann:
            answer = await anyio.to_thread.run_sync(
                lambda: ann.post(f"/approvals/{request.id}", json={"approved": True})
            )
            assert answer.status_code == 200
    assert [await far.claim(request.id, now=1.0), await near.claim(request.id, now=1.0)] == [True, False]
    for each in (near, far):
        await each.aclose()


@pytest.mark.proves("H8")
def test_who_is_known_to_one_hub_is_known_to_the_other_until_both_forget_them(hubs: tuple[Served, Served]) -> None:
    one, two = hubs
    text = one.token()
    with one.browser("bob") as here, two.client(text) as ann, two.client(Origin=two.url) as there:
        assert ann.get("/me").json()["name"] == "ann"
        (session,) = here.cookies.values()
        there.cookies.set(f"sayso_session_{urlsplit(two.url).port}", session)  # as behind one proxy, under one address
        assert there.get("/me").json() == here.get("/me").json()
        with two.socket(text) as socket, following(ann) as events:
            next(events)
            one.revoke(text)
            assert ann.get("/me").status_code == 401
            assert list(events) == []
            with pytest.raises(ConnectionClosed, match="4401"):
                socket.recv(20)
        assert there.post("/sign-out").status_code == 204
        assert here.get("/me").status_code == 401


def test_a_hub_whose_database_is_away_still_stops(postgres: Postgres, database: str) -> None:
    with Wire(postgres) as wire:
        hub = Served(wire.through(database))
        hub.start()
        wire.break_down()
        hub.stop()


@pytest.mark.proves("H6")
def test_a_link_signs_in_at_one_hub_only(hubs: tuple[Served, Served]) -> None:
    one, two = hubs
    code = one.token("link")
    with one.client() as here, two.client() as there, ThreadPoolExecutor(2) as both:
        for each in (here, there):  # FastAPI looks at a route when it is first used, and not in two threads at once
            assert each.post("/sign-in", json={"code": "sayso_link_none"}).status_code == 410
        tries = [both.submit(each.post, "/sign-in", json={"code": code}) for each in (here, there)]
        assert sorted(each.result(20).status_code for each in tries) == [200, 410]


@pytest.mark.proves("H6")
def test_two_people_who_answer_at_two_hubs_at_once_give_one_answer(hubs: tuple[Served, Served]) -> None:
    with hubs[0].person("ann") as ann, hubs[1].person("bob") as bob, ThreadPoolExecutor(2) as both:
        for _ in range(5):
            request = hubs[0].ask()
            said = [both.submit(each.post, f"/approvals/{request.id}", json={"approved": yes})
                    for each, yes in ((ann, True), (bob, False))]  # fmt: skip
            told = {each.result(20).status_code: each.result().json() for each in said}
            assert sorted(told) == [200, 409]
            assert told[409]["request"]["status"] == told[200]["status"]
