"""The PostgreSQL store: the contract, with two handles as far apart as two machines, and what servers can do."""

import asyncio
import contextlib
import re
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Generator
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace
from tests.postgres import Postgres, Wire
from tests.stores.opening import opened, steps

from sayso import (
    ApprovalController,
    ApprovalMemory,
    ApprovalRequest,
    Policy,
    ToolCall,
)
from sayso.core.model import AuditEntry, Pending
from sayso.core.ports import Store
from sayso.engine.clock import SystemClock
from sayso.errors import ConfigurationError, StoreError
from sayso.stores.postgres import PostgresStore, connection, writer
from sayso.stores.postgres.connection import Rejected
from sayso.stores.postgres.schema import statement
from sayso.testing import StoreContract
from sayso.testing.racing import RememberedRecorder
from sayso.testing.samples import YES, sample_remembered, sample_request


class TestPostgresStore(StoreContract):
    @pytest.fixture(autouse=True)
    def server(self, postgres: Postgres, database: str) -> None:
        self.postgres, self.url = postgres, database

    def open_two(self, folder: Path) -> tuple[Store, Store]:
        return PostgresStore(self.url), PostgresStore(self.url)

    @contextlib.contextmanager
    def held(self, folder: Path) -> Generator[None]:
        """Hold the row that every writer needs, so that both handles wait for it with their operation in hand."""
        with self.postgres.holding(self.url):
            yield


@pytest.fixture
async def store(database: str) -> AsyncGenerator[PostgresStore]:
    store = PostgresStore(database)
    yield store
    await store.aclose()


@pytest.fixture
def wire(postgres: Postgres) -> Generator[Wire]:
    with Wire(postgres) as wire:
        yield wire


# What survives, and who may write at once.


@pytest.mark.proves("H16", "R17")
async def test_what_was_acknowledged_is_there_after_the_store_is_opened_again(database: str) -> None:
    request, memory = sample_request(args={"path": Path("x"), "text": "x" * 100_000}), sample_remembered()
    async with opened(database) as store:
        await store.open(request)
        await store.close(request.id, "approved", YES, now=1.0, remember=[memory])
        store.record(AuditEntry(at=2.0, step="allowed", about=ToolCall(tool="read")))
    async with opened(database) as again:
        found = await again.get(request.id)
        assert found is not None
        assert (found.status, found.args, found.decision) == ("approved", request.args, YES)
        assert await steps(again) == ["asked", "approved", "allowed"]
        assert [each.id for each in ApprovalMemory(store=again).list()] == [memory.id]


WRITES = """
import asyncio, sys
from sayso.core.model import AuditEntry
from sayso.stores.postgres import PostgresStore
from sayso.testing.samples import YES, sample_request

async def main():
    store = PostgresStore(sys.argv[1])
    shared = [sample_request(call_id=f"c{number}") for number in range(20)]

    async def one(request):
        row = await store.open(request)
        await store.close(row.id, "approved", YES, now=1.0)
        store.record(AuditEntry(at=1.0, step="allowed", about=row))
        return await store.claim(row.id, now=2.0)

    print(sum(await asyncio.gather(*map(one, shared))))
    await store.aclose()

asyncio.run(main())
"""


@pytest.mark.proves("H6", "H8")
async def test_processes_that_begin_at_once_make_the_tables_once_and_write_one_chain(postgres: Postgres) -> None:
    url = postgres.database("template0")
    command = [sys.executable, "-c", WRITES, url]
    children = [await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE) for _ in range(3)]
    claimed = [int((await child.communicate())[0]) for child in children]
    assert sum(claimed) == 20, "each call is claimed by one of them"
    async with opened(url) as store:
        told = await steps(store)
    assert {step: told.count(step) for step in set(told)} == {"asked": 20, "approved": 20, "claimed": 20, "allowed": 60}


async def test_stores_that_begin_at_once_make_the_tables_once(postgres: Postgres) -> None:
    url = postgres.database("template0")
    stores = await asyncio.gather(*(asyncio.to_thread(PostgresStore, url) for _ in range(6)))
    await stores[0].open(sample_request())
    assert [len(await store.pending()) for store in stores] == [1] * 6
    for store in stores:
        await store.aclose()


@pytest.mark.proves("H5")
async def test_one_request_that_cannot_be_kept_does_not_keep_the_others_from_it(
    postgres: Postgres, database: str, store: PostgresStore
) -> None:
    good = [sample_request() for _ in range(3)]
    bad = replace(sample_request(), id="half\x00an id")
    with postgres.holding(database):
        opening = [asyncio.ensure_future(store.open(each)) for each in [good[0], bad, *good[1:]]]
        await anyio.lowlevel.checkpoint()
    told = await asyncio.gather(*opening, return_exceptions=True)
    assert [type(each) for each in told] == [ApprovalRequest, Rejected, ApprovalRequest, ApprovalRequest]
    assert "cannot keep this" in str(told[1])
    assert len(await store.pending()) == 3
    assert await steps(store) == ["asked"] * 3


async def test_the_inbox_is_as_fast_however_much_is_closed(postgres: Postgres, database: str) -> None:
    fill = (
        "INSERT INTO sayso.requests SELECT number::text, number::text::bytea, '', 'used', 0, '', number "
        "FROM generate_series(1, 20000) AS number"
    )
    for query in (fill, "ANALYZE sayso.requests"):
        postgres.ask(query, database)
    look = statement("requests_pending").replace("$1", "''").replace("$2", "100")
    assert "requests_open" in "".join(line for (line,) in postgres.ask(f"EXPLAIN {look}", database))


async def test_the_requests_of_a_call_id_are_found_without_looking_at_all_of_them(
    postgres: Postgres, database: str
) -> None:
    fill = (
        "INSERT INTO sayso.requests SELECT number::text, number::text::bytea, '', 'used', 0, '', number, "
        "number::text::bytea FROM generate_series(1, 20000) AS number"
    )
    for query in (fill, "ANALYZE sayso.requests"):
        postgres.ask(query, database)
    look = statement("requests_with_call_id").replace("$1", "'7'::bytea").replace("$2", "100")
    assert "requests_call_id" in "".join(line for (line,) in postgres.ask(f"EXPLAIN {look}", database))


@pytest.mark.parametrize("way", ["", "?pooler=transaction"])
async def test_a_change_of_a_request_is_as_fast_however_many_there_are(
    postgres: Postgres, database: str, way: str
) -> None:
    """A plan is kept for long, and most are made while a store is nearly empty."""
    async with opened(f"{database}{way}") as store:
        asked = await asyncio.gather(*(store.open(sample_request()) for _ in range(100)))
        await asyncio.gather(*(store.close(each.id, "approved", YES, now=1.0) for each in asked))
    looked_up = "SELECT idx_scan FROM pg_stat_user_indexes WHERE indexrelname = 'requests_pkey'"
    with anyio.fail_after(20):
        while (await asyncio.to_thread(postgres.ask, looked_up, database))[0][0] < 100:
            await anyio.lowlevel.checkpoint()  # the server tells when the session has ended


# What goes wrong on the way.


@pytest.mark.proves("H6")
async def test_a_store_whose_sessions_are_ended_goes_on_and_hears_of_what_it_missed(
    postgres: Postgres, database: str, store: PostgresStore
) -> None:
    request = await store.open(sample_request())
    waiting = asyncio.ensure_future(store.closed(request.id))
    async with opened(database) as other:
        assert postgres.end_sessions(database) >= 3
        await other.close(request.id, "approved", YES, now=1.0)
    with anyio.fail_after(10):
        assert (await waiting).status == "approved"
    assert await store.claim(request.id, now=2.0)
    assert await steps(store) == ["asked", "approved", "claimed"]


@pytest.mark.proves("H6", "H9")
async def test_what_happens_while_nothing_is_heard_is_caught_up_with(database: str, wire: Wire) -> None:
    async with opened(wire.through(database)) as far, opened(database) as near:
        requests = [await far.open(sample_request()) for _ in range(2)]
        waiting = [asyncio.ensure_future(far.closed(each.id)) for each in requests]
        point, _ = await far.changes()
        learner, memory = RememberedRecorder(), sample_remembered()
        far.attach(learner.on_change)
        wire.break_down()
        await near.close(requests[0].id, "approved", YES, now=1.0, remember=[memory])
        await near.close(requests[1].id, "denied", None, now=1.0)
        wire.repair()
        with anyio.fail_after(10):
            assert [(await each).status for each in waiting] == ["approved", "denied"]
            await far.changed(point)
        await learner.wait_until({memory.id: memory})


@pytest.mark.proves("H3", "H5")
@pytest.mark.parametrize("where", ["before", "answer"])
async def test_a_group_whose_answer_is_lost_is_neither_doubled_nor_lost(database: str, wire: Wire, where: str) -> None:
    async with opened(wire.through(database)) as store:
        request = await store.open(sample_request())
        await store.close(request.id, "approved", YES, now=1.0)
        wire.cut(b'"step":"claimed"', where)
        with anyio.fail_after(20):
            assert await store.claim(request.id, now=2.0)
        assert wire.cuts == 1
        wire.cut(b'"step":"returned"', where)
        store.record(AuditEntry(at=3.0, step="returned", about=request.call()))
        await store.flush()
        assert wire.cuts == 2
        assert not await store.claim(request.id, now=2.0)
        assert await steps(store) == ["asked", "approved", "claimed", "returned"]


@pytest.mark.proves("H3", "H5")
@pytest.mark.parametrize("where", ["before", "answer"])
async def test_a_commit_whose_answer_is_lost_is_neither_doubled_nor_lost(database: str, wire: Wire, where: str) -> None:
    async with opened(wire.through(database)) as store:
        await store.park("a run", b"state")
        wire.cut(b"COMMIT\x00", where)
        with anyio.fail_after(20):
            assert await store.unpark("a run") == b"state"
        assert wire.cuts == 1
        assert await store.unpark("a run") is None


@pytest.mark.proves("H3", "H5")
async def test_a_group_that_arrives_after_its_second_attempt_is_not_written_again(
    database: str, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "COMMAND_SECONDS", 1.0)
    async with opened(wire.through(database)) as store, opened(database) as near:
        request = await store.open(sample_request())
        wire.cut(b'"step":"returned"', "hold")
        store.record(AuditEntry(at=3.0, step="returned", about=request.call()))
        with anyio.fail_after(20):
            await store.flush()
        assert wire.cuts == 1
        wire.repair()
        assert (await store.close(request.id, "denied", None, now=1.0)).status == "denied"
        assert await steps(near) == ["asked", "returned", "denied"]


@pytest.mark.proves("H3", "H5")
async def test_an_attempt_that_arrives_late_counts_where_the_next_one_came_to_nothing(
    database: str, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "COMMAND_SECONDS", 1.0)
    async with opened(wire.through(database)) as store:
        request = await store.open(sample_request())
        await store.close(request.id, "approved", YES, now=1.0)
        wire.cut(b'"step":"claimed"', "hold")
        claiming = asyncio.ensure_future(store.claim(request.id, now=2.0))
        with anyio.fail_after(20):
            for count, then in ((1, lambda: wire.cut(b'"step":"claimed"', "bar")), (2, wire.repair)):
                while wire.cuts < count:
                    await anyio.lowlevel.checkpoint()
                then()
            assert await claiming
        assert await steps(store) == ["asked", "approved", "claimed"]


@pytest.mark.proves("H6")
async def test_who_falls_silent_before_its_commit_does_not_hold_up_the_others(
    database: str, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "COMMAND_SECONDS", 1.2)
    limits = {"lock_timeout": "800ms", "statement_timeout": "1s", "idle_in_transaction_session_timeout": "400ms"}
    monkeypatch.setattr(writer, "_LIMITS", limits)
    async with opened(wire.through(database)) as far, opened(database) as near:
        wire.cut(b"COMMIT\x00", "hold")
        parking = asyncio.ensure_future(far.park("a run", b"state"))
        with anyio.fail_after(20):
            while not wire.cuts:
                await anyio.lowlevel.checkpoint()
            await near.open(sample_request())
            wire.repair()
            await parking
        assert await near.unpark("a run") == b"state"


@pytest.mark.proves("H6", "H8")
async def test_what_others_have_done_meanwhile_counts_also_where_it_was_not_heard(
    postgres: Postgres, database: str
) -> None:
    with Wire(postgres, hushed=True) as wire:
        async with opened(wire.through(database)) as far, opened(database) as near:
            asked = [await far.open(sample_request()) for _ in range(4)]
            await near.close(asked[0].id, "denied", None, now=1.0)
            for each in asked[1:3]:
                await near.close(each.id, "approved", YES, now=1.0)
            assert await near.claim(asked[2].id, now=2.0)
            assert (await far.close(asked[0].id, "approved", YES, now=3.0)).status == "denied"
            assert [await far.claim(each.id, now=3.0) for each in asked] == [False, True, False, False]
            again = replace(asked[3], id=sample_request().id)
            assert (await near.open(again)).id == asked[3].id, "its call has been asked about"
            assert await steps(near) == ["asked"] * 4 + ["denied", "approved", "approved", "claimed", "claimed"]


@pytest.mark.proves("H5")
async def test_when_one_reader_falls_silent_the_others_are_not_tried_in_turn(
    database: str, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "COMMAND_SECONDS", 1.0)
    async with opened(wire.through(database), patience=3.0) as store:
        request = await store.open(sample_request())
        await asyncio.gather(*(store.pending() for _ in range(50)))
        assert wire.hold() >= 6, "all four readers are there, beside the writer and the listener"
        assert await store.get(request.id) == request


@pytest.mark.proves("H5")
async def test_what_cannot_be_looked_for_does_not_keep_the_others_from_it(store: PostgresStore) -> None:
    asked = [await store.open(sample_request()) for _ in range(3)]
    ids = [asked[0].id, "half a character: \ud800", asked[1].id, "nobody's", asked[2].id]
    found = await asyncio.gather(*(store.get(each) for each in ids), return_exceptions=True)
    assert [*found[:1], *found[2:]] == [asked[0], asked[1], None, asked[2]]
    assert isinstance(found[1], Rejected)
    assert await asyncio.gather(*(store.find(each.session, each.key) for each in asked)) == asked


@pytest.mark.proves("H5")
async def test_who_reads_while_the_store_closes_is_told(database: str, wire: Wire) -> None:
    async with opened(wire.through(database)) as store:
        request = await store.open(sample_request())
        await store.get(request.id)
        wire.hold()
        reading = [asyncio.ensure_future(store.get(request.id)) for _ in range(2)]
        await anyio.lowlevel.checkpoint()
        reading.append(asyncio.ensure_future(store.get(request.id)))
        await anyio.lowlevel.checkpoint()
    told = await asyncio.gather(*reading, return_exceptions=True)
    assert ["is closed" in str(each) for each in told] == [True] * 3


@pytest.mark.proves("H5", "H6")
async def test_what_was_never_committed_is_told_to_nobody(postgres: Postgres, database: str) -> None:
    with Wire(postgres, hushed=True) as wire:  # so that nobody hears of it otherwise
        async with opened(wire.through(database)) as far, opened(database) as near:
            request = await near.open(sample_request())
            waiting = asyncio.ensure_future(far.closed(request.id))
            wire.cut(b'"step":"approved"', "bar")
            answering = asyncio.ensure_future(far.close(request.id, "approved", YES, now=1.0))
            with anyio.fail_after(20):
                while not wire.cuts:
                    await anyio.lowlevel.checkpoint()
                await near.close(request.id, "denied", None, now=1.0)
                wire.repair()
                assert (await answering).status == "denied"
            told, _ = await asyncio.wait({waiting}, timeout=0.3)
            assert [each.result().status for each in told] in ([], ["denied"])
            waiting.cancel()


@pytest.mark.proves("H5")
async def test_a_server_that_stays_away_is_told_and_what_is_owed_is_written_once_it_is_back(
    database: str, wire: Wire
) -> None:
    async with opened(wire.through(database), patience=0.1) as store:
        request = await store.open(sample_request())
        await store.close(request.id, "approved", YES, now=1.0)
        wire.break_down()
        with pytest.raises(StoreError, match=r"postgresql://postgres@127\.0\.0\.1:\d+/test_\d+ "):
            await store.claim(request.id, now=2.0)
        store.record(AuditEntry(at=1.0, step="allowed", about=request.call()))
        with pytest.raises(StoreError):
            await store.flush()
        with pytest.raises(StoreError):
            store.record(AuditEntry(at=2.0, step="allowed", about=request.call()))
        assert store.backlog >= 1
        wire.repair()
        with anyio.fail_after(20):
            while store.backlog:
                with contextlib.suppress(StoreError):
                    await store.flush()
        assert await store.claim(request.id, now=2.0), "who was told that it failed may try again"
        assert await steps(store) == ["asked", "approved", "allowed", "claimed"]


@pytest.mark.proves("H5")
async def test_whoever_waits_is_told_when_the_store_closes(database: str) -> None:
    async with opened(database) as store:
        request = await store.open(sample_request())
        waiting = asyncio.ensure_future(store.closed(request.id))
        await anyio.lowlevel.checkpoint()
    with pytest.raises(StoreError, match="is closed"):
        await waiting
    for late in (store.get(request.id), store.open(sample_request())):
        with pytest.raises(StoreError, match="is closed"):
            await late


# Poolers.


@pytest.mark.parametrize("said", [True, False], ids=["said", "found out"])
async def test_behind_a_pooler_the_store_polls_and_says_so(
    postgres: Postgres, database: str, caplog: pytest.LogCaptureFixture, said: bool
) -> None:
    caplog.set_level("INFO", "sayso")
    with Wire(postgres, pooler=not said) as wire:
        url = f"{database}?pooler=transaction" if said else wire.through(database)
        async with opened(url) as polls, opened(database) as other:
            assert "is behind a pooler: it is polled" in caplog.text
            assert (await polls.health()).hint is None
            request = await polls.open(sample_request())
            waiting = asyncio.ensure_future(polls.closed(request.id))
            await other.close(request.id, "approved", YES, now=1.0)
            with anyio.fail_after(30):
                assert (await waiting).status == "approved"
            assert await polls.claim(request.id, now=1.0)


# The clock.


@pytest.mark.proves("H5")
@pytest.mark.parametrize("off", [3600.0, -3600.0])
async def test_expiry_goes_by_the_clock_of_the_server(
    postgres: Postgres, database: str, monkeypatch: pytest.MonkeyPatch, off: float
) -> None:
    now: float = postgres.ask("SELECT extract(epoch FROM clock_timestamp())::float8")[0][0]
    here = time.time
    monkeypatch.setattr(time, "time", lambda: here() + off)
    monkeypatch.setattr(SystemClock, "now", staticmethod(lambda: here() + off))
    async with ApprovalController(
        mode="defer", store=database, policy=Policy(default="required"), timeout=60
    ) as people:
        store = people.store
        fresh, late = [await store.open(sample_request(expires_at=now + each)) for each in (1800.0, -1800.0)]
        assert (await people.answer(fresh.id, YES)).status == "approved"
        assert (await people.answer(late.id, YES)).status == "expired"
        pending = await people.review(ToolCall(tool="pay"))
        assert isinstance(pending, Pending)
        assert pending.request.expires_at is not None
        assert now <= pending.request.expires_at - 60 < now + 600


# Addresses, people who may not, and forms.


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("postgresql://db:port/x", "cannot be used: write postgresql://user@host"),
        ("postgresql://ann:12/hidden@db/x", r"cannot be used: ((?!hidden).)*$"),
        ("postgresql://ann:#hidden@db/x", r"cannot be used: ((?!hidden).)*$"),
        ("postgresql://ann:a@b:hidden@127.0.0.1:1/x", r"cannot be used: ((?!hidden).)*$"),
        ("postgresql://ann%3Ahidden@127.0.0.1:1/x", r"cannot be used: ((?!hidden).)*$"),
        ("postgresql://ann@127.0.0.1:1/x&password=hidden", r"cannot be used: ((?!hidden).)*$"),
        ("postgresql://db/x?pooler=session", "use pooler=transaction"),
        ("postgresql://db/x?sslmode=perhaps", "cannot be used as it is written"),
        ("postgresql:///x?host=127.0.0.1&port=x", "cannot be used as it is written: see its host and port"),
    ],
)
async def test_an_address_that_cannot_be_used_is_told_in_one_sentence(url: str, sentence: str) -> None:
    with pytest.raises(ConfigurationError, match=sentence):
        await asyncio.to_thread(PostgresStore, url)


@pytest.mark.parametrize(
    ("user", "where", "sentence"),
    [
        ("locked:wrong", "127.0.0.1:{port}/postgres", r"does not let this user in .*; check the password"),
        ("postgres:secret", "127.0.0.1:1/postgres", r"cannot be reached: .*; check that it runs"),
        ("postgres", "127.0.0.1:{port}/nowhere", r"has no such database .*; make it"),
        ("guest", "127.0.0.1:{port}/template_sayso", r"does not give this user a right .*: permission denied"),
        ("guest", "127.0.0.1:{port}/postgres", r"does not give this user a right .*: permission denied"),
        ("postgres", "127.0.0.1:{port}/postgres?nonsense=1", r"does not know an option of the address"),
    ],
)
async def test_what_keeps_a_store_from_being_opened_is_told_in_one_sentence(
    postgres: Postgres, user: str, where: str, sentence: str
) -> None:
    url = f"postgresql://{user}@{where.format(port=postgres.port)}"
    with pytest.raises(StoreError, match=sentence) as told:
        await asyncio.to_thread(PostgresStore, url)
    assert "\n" not in str(told.value)
    assert not {"wrong", "secret"} & set(re.split(r"\W", str(told.value).replace("wrong password", "")))


async def test_tables_of_a_newer_sayso_are_refused(postgres: Postgres, database: str) -> None:
    postgres.ask("UPDATE sayso.form SET version = 99", database)
    with pytest.raises(StoreError, match=r"has the form 99 of a newer sayso, .*; upgrade sayso"):
        await asyncio.to_thread(PostgresStore, database)
