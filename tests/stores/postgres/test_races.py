"""What a PostgreSQL store knows from before, when the server, the line or others have gone on without it."""

import asyncio
import threading
from collections.abc import Generator, Iterator
from pathlib import Path

import anyio
import pytest
from tests.postgres import Postgres, Wire
from tests.stores.opening import opened, steps

from sayso.errors import StoreError
from sayso.stores.postgres import PostgresStore, cache, follower
from sayso.testing.samples import NO, YES, sample_remembered, sample_request

SECONDS = 20.0


@pytest.fixture
def wire(postgres: Postgres) -> Generator[Wire]:
    with Wire(postgres) as wire:
        yield wire


async def cut(wire: Wire) -> None:
    """Wait until the line is cut or held."""
    while not wire.cuts:
        await anyio.lowlevel.checkpoint()


@pytest.mark.proves("H5", "H6")
async def test_what_others_answer_while_the_answer_to_a_commit_is_lost_is_heard(
    database: str, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_deaf = threading.Event()

    def pauses() -> Iterator[float]:
        while True:
            is_deaf.set()
            yield 0.5  # so that the one who writes is back first

    monkeypatch.setattr(follower, "backoff", pauses)
    monkeypatch.setattr(follower, "_POLL_SECONDS", 0.1)
    async with opened(wire.through(database)) as far, opened(database) as near:
        mine, other = await far.open(sample_request()), await far.open(sample_request())
        waiting = asyncio.ensure_future(far.closed(other.id))
        wire.cut(b"COMMIT\x00", "lose")
        closing = asyncio.ensure_future(far.close(mine.id, "approved", YES, now=1.0, remember=[sample_remembered()]))
        with anyio.fail_after(SECONDS):
            await cut(wire)
            await asyncio.to_thread(is_deaf.wait, SECONDS)
            await near.close(other.id, "approved", YES, now=1.0)
            wire.repair()
            assert (await closing).status == "approved"
            assert (await waiting).status == "approved"


@pytest.mark.proves("H3")
async def test_an_approval_from_before_a_restore_is_not_used_after_a_denial(postgres: Postgres, database: str) -> None:
    """The copy that was restored counts its changes on from where it was, so the denial has the approval's number."""
    async with opened(database) as store:
        request = await store.open(sample_request())
    name = database.rpartition("/")[2]
    copy = postgres.database(name)
    async with opened(database) as before:
        assert (await before.close(request.id, "approved", YES, now=1.0)).status == "approved"
        postgres.drop(database)
        postgres.ask(f"CREATE DATABASE {name} TEMPLATE {copy.rpartition('/')[2]}")
        async with opened(database) as after:
            assert (await after.close(request.id, "denied", NO, now=1.0)).status == "denied"
            with anyio.fail_after(SECONDS):
                assert not await before.claim(request.id, now=2.0)
            assert await steps(after) == ["asked", "denied"]
    postgres.drop(copy)


@pytest.mark.proves("H5")
async def test_what_is_forgotten_while_the_rest_is_read_is_still_there(
    database: str, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "_MOST", 1)
    async with opened(wire.through(database)) as store:
        first, second, third = [await store.open(sample_request()) for _ in range(3)]
        for each in (second, first):  # the last one is the one that is known here
            await store.close(each.id, "approved", YES, now=1.0)
            await store.claim(each.id, now=2.0)
        wire.cut(second.id.encode(), "hold")
        telling = asyncio.ensure_future(store.append([(first.id, "returned"), (second.id, "returned")]))
        with anyio.fail_after(SECONDS):
            await cut(wire)
            await store.get(third.id)
            wire.repair()
            await telling
            for each in (first, second):
                found = await store.get(each.id)
                assert found is not None
                assert found.result == "returned"


@pytest.mark.proves("H5")
async def test_a_request_that_is_forgotten_while_its_result_is_written_fails_nobody(
    postgres: Postgres, database: str
) -> None:
    with Wire(postgres, pooler=True) as wire:  # behind which a group is read first, and then written
        async with opened(wire.through(database)) as far, opened(database) as near:
            request = await far.open(sample_request())
            await far.close(request.id, "approved", YES, now=1.0)
            await far.claim(request.id, now=2.0)
            wire.cut(b"returned", "hold")
            telling = asyncio.ensure_future(far.append([(request.id, "returned")]))
            with anyio.fail_after(SECONDS):
                await cut(wire)
                assert await near.drop([request.id]) == 1
                wire.repair()
                await telling
            assert await far.get(request.id) is None


async def test_the_audit_is_cut_while_others_write_also_where_the_database_wants_to_be_serializable(
    postgres: Postgres, database: str, wire: Wire
) -> None:
    postgres.ask(f"ALTER DATABASE {database.rpartition('/')[2]} SET default_transaction_isolation = 'serializable'")
    async with opened(wire.through(database)) as far, opened(database) as near:
        await near.open(sample_request())
        start, end = await near.audit_ends()
        wire.cut(b"COMMIT\x00", "hold")
        parking = asyncio.ensure_future(far.park("a run", b"state"))
        with anyio.fail_after(SECONDS):
            await cut(wire)
            cutting = asyncio.ensure_future(near.cut(start, end))
            while not postgres.ask("SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"):
                await anyio.lowlevel.checkpoint()
            wire.repair()
            await cutting
            await parking
        assert (await near.audit_ends())[0] == end


async def test_settings_that_do_not_fit_for_a_while_end_nothing(
    database: str, wire: Wire, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Such as a certificate that is just being put in its place."""
    async with opened(wire.through(database), patience=0.5) as store:
        request = await store.open(sample_request())
        with monkeypatch.context() as patch, anyio.fail_after(SECONDS):
            patch.setenv("PGSSLMODE", "verify-full")
            patch.setenv("HOME", str(tmp_path))
            wire.break_down()
            with pytest.raises(StoreError, match="root certificate"):
                await store.get(request.id)
            with pytest.raises(StoreError, match="root certificate"):
                await store.close(request.id, "approved", YES, now=1.0)
        wire.repair()
        with anyio.fail_after(SECONDS):
            assert await store.get(request.id) == request
            assert (await store.close(request.id, "denied", NO, now=1.0)).status == "denied"


async def test_who_looks_while_something_unforeseen_happens_is_told_and_the_next_is_served(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(database) as store:
        request = await store.open(sample_request())

        async def broken(*_: object) -> None:
            raise KeyError("x")

        with monkeypatch.context() as patch:
            patch.setattr(PostgresStore, "_read_with_retry", broken)
            with anyio.fail_after(SECONDS), pytest.raises(StoreError, match="could not be read"):
                await store.get(request.id)
        with anyio.fail_after(SECONDS):
            assert await store.get(request.id) == request


@pytest.mark.proves("H5")
async def test_everybody_of_a_crowd_is_told_exactly_what_became_of_theirs(database: str) -> None:
    async def ask() -> bool:
        request = await store.open(sample_request())
        waiting = asyncio.ensure_future(store.closed(request.id))
        answered = await store.close(request.id, "approved", YES, now=1.0)
        assert answered.id == (await waiting).id == request.id
        return await store.claim(request.id, now=2.0)

    async with opened(database) as store:
        with anyio.fail_after(SECONDS):
            for _ in range(3):
                assert all(await asyncio.gather(*(ask() for _ in range(100))))
        assert sorted(await steps(store)) == ["approved"] * 300 + ["asked"] * 300 + ["claimed"] * 300


async def test_a_loop_that_is_busy_with_something_else_holds_up_nobody(database: str) -> None:
    is_busy, is_over = threading.Event(), threading.Event()

    async def be_told_and_busy() -> None:
        async def ask() -> None:
            await store.open(sample_request())
            is_busy.set()
            is_over.wait(SECONDS)

        await asyncio.gather(*(ask() for _ in range(20)))

    async with opened(database) as store:
        elsewhere = asyncio.ensure_future(asyncio.to_thread(asyncio.run, be_told_and_busy()))
        with anyio.fail_after(SECONDS):
            await asyncio.to_thread(is_busy.wait, SECONDS)
            for _ in range(5):
                many = await asyncio.gather(*(store.open(sample_request()) for _ in range(20)))
                await asyncio.gather(*(store.close(each.id, "approved", YES, now=1.0) for each in many))
            assert not elsewhere.done()
            is_over.set()
            await elsewhere


async def test_a_loop_that_is_busy_while_its_answers_come_does_not_hold_up_those_who_answer(database: str) -> None:
    rounds, crowd = 50, 12
    is_busy, is_over = threading.Event(), threading.Event()

    async def wait_and_be_busy() -> None:
        waiting = [asyncio.ensure_future(store.closed(each.id)) for each in asked]
        await anyio.lowlevel.checkpoint()
        is_busy.set()
        is_over.wait(SECONDS)
        assert {each.status for each in await asyncio.gather(*waiting)} == {"approved"}

    async with opened(database) as store:
        asked = await asyncio.gather(*(store.open(sample_request()) for _ in range(rounds * crowd)))
        elsewhere = asyncio.ensure_future(asyncio.to_thread(asyncio.run, wait_and_be_busy()))
        with anyio.fail_after(SECONDS):
            await asyncio.to_thread(is_busy.wait, SECONDS)
            for each in range(0, len(asked), crowd):
                closing = (store.close(one.id, "approved", YES, now=1.0) for one in asked[each : each + crowd])
                await asyncio.gather(*closing)
            is_over.set()
            await elsewhere
