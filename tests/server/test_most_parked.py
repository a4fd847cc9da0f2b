"""How much one agent may park at a hub, so that a loop or a stolen token does not fill the store."""

from collections.abc import AsyncGenerator, Generator
from pathlib import Path

import pytest
from tests.server.served import Served

from sayso.client.hub_records import HubRecords
from sayso.core.model import ParkedRun, new_id
from sayso.errors import StoreError
from sayso.stores.memory import MemoryStore
from sayso.stores.remote import RemoteStore

pytestmark = pytest.mark.anyio

NESTED = "nested\0call\0payer"  # as the run of an agent inside another one is named


@pytest.fixture(params=["file", "database"])
def hub(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[Served]:
    place = request.getfixturevalue("database") if request.param == "database" else tmp_path
    served = Served(place, most_parked=3, most_parked_bytes=10_000_000)
    served.start()
    yield served
    served.stop()


@pytest.fixture
async def builder(hub: Served) -> AsyncGenerator[RemoteStore]:
    store = RemoteStore(hub.url, token=hub.token("agent", "builder", project="shop"))
    yield store
    await store.aclose()


@pytest.mark.proves("H8")
async def test_a_state_too_many_is_refused_whatever_its_name_and_room_comes_back(
    hub: Served, builder: RemoteStore
) -> None:
    run = ParkedRun(id=new_id())
    await builder.park(run.id, b"state", run)
    await builder.park(NESTED, b"state")
    await builder.park("an Ωmega\n" * 100, b"state")
    for name in (new_id(), f"{NESTED}2", "Ωther"):
        with pytest.raises(StoreError, match=r"403: builder has as many parked runs as one agent may have \(3\)"):
            await builder.park(name, b"state")
        assert await builder.parked(name) is None
    await builder.park(run.id, b"checkpoint", run)  # a run that goes on is parked again
    assert await builder.parked(run.id) == b"checkpoint"
    assert await builder.unpark(NESTED) == b"state"
    await builder.park(f"{NESTED}2", b"state")
    other = RemoteStore(hub.url, token=hub.token("agent", "builder2", project="shop"))
    await other.park("x", b"state")  # others have limits of their own
    await other.aclose()


@pytest.mark.proves("H8")
async def test_a_state_too_large_is_refused(builder: RemoteStore) -> None:
    await builder.park("a", b"x" * 6_000_000)
    with pytest.raises(StoreError, match=r"403: builder has parked as much as one agent may \(10 MB\)"):
        await builder.park("b", b"x" * 6_000_000)
    await builder.park("a", b"y" * 9_000_000)
    assert len(await builder.parked("a") or b"") == 9_000_000
    with pytest.raises(StoreError, match="as much as"):
        await builder.park("a", b"x" * 11_000_000)


async def test_a_store_in_memory_measures_what_is_parked() -> None:
    store = MemoryStore()
    for name, size in (("shop/builder/a", 3), ("shop/builder/b\0", 4), ("shop/builder2/a", 5)):
        await store.park(name, b"x" * size)
    assert await store.parked_size("shop/builder/") == (2, 7)


async def test_runs_come_in_pages_and_none_is_left_out(hub: Served, builder: RemoteStore) -> None:
    first, twice, last = sorted(new_id() for _ in range(3))
    for each in (first, twice, last):
        await builder.park(each, b"state", ParkedRun(id=each))
    other = RemoteStore(hub.url, token=hub.token("agent", "other", project="shop"))
    await other.park(twice, b"state", ParkedRun(id=twice))
    await other.aclose()
    found: list[list[str]] = []
    with hub.person(project="shop") as ann:
        after: str | None = ""
        while after is not None:
            page = ann.get("/runs", params={"after": after, "limit": 2}).json()
            found.append([each["id"] for each in page["items"]])
            after = page["next"]
        assert ann.get("/runs").json()["next"] is None
    assert found == [[first, twice, twice], [last]]
    records = HubRecords(hub.url, hub.token(project="shop"))
    assert len(await records.runs()) == 4
    await records.aclose()
