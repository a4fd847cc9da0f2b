"""A lease is held by one process at a time, and by another one soon after its holder died."""

import asyncio
from collections.abc import AsyncGenerator

import pytest
from tests.postgres import Postgres

from sayso.core.ports import Store
from sayso.engine.lease import Lease
from sayso.stores.memory import MemoryStore
from sayso.stores.postgres import PostgresStore
from sayso.testing import FixedClock


@pytest.fixture(params=["memory", "postgresql"])
async def store(request: pytest.FixtureRequest) -> AsyncGenerator[Store]:
    if request.param == "memory":
        yield MemoryStore()
        return
    postgres: Postgres = request.getfixturevalue("postgres")
    store = await asyncio.to_thread(PostgresStore, postgres.database())
    yield store
    await store.aclose()


def lease(store: Store, clock: FixedClock) -> Lease:
    return Lease(store, clock, "a test", seconds=20.0)


async def test_a_lease_that_nobody_renews_is_taken_by_the_next(store: Store) -> None:
    clock = FixedClock()
    one, two, three = (lease(store, clock) for _ in range(3))
    for _ in range(10):
        assert [await each.acquire_or_renew() for each in (one, two, three)] == [True, False, False]
        clock.advance(10.0)
    clock.advance(20.0)  # the first has broken down
    assert [await each.acquire_or_renew() for each in (two, three, one)] == [True, False, False]
    await two.release()
    assert await lease(store, clock).acquire_or_renew(), "at once, when its holder leaves in order"


async def test_nothing_is_left_of_a_lease_whose_job_is_over(store: Store) -> None:
    first = lease(store, FixedClock())
    assert await first.acquire_or_renew()
    await first.release()
    await first.forget()
    assert await store.parked("a test\0lease") is None
