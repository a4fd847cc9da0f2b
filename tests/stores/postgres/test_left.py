"""What nobody waits for any more, what is longer than a group should be, and what a standby has to have first."""

import asyncio

import anyio
import anyio.lowlevel
import pytest
from tests.postgres import Postgres, running
from tests.stores.opening import opened
from tests.waiting import within

from sayso import ApprovalController, Policy, ToolCall, guard
from sayso.engine import lifecycle
from sayso.stores.postgres import PostgresStore, writer
from sayso.testing.samples import sample_request

SECONDS = 30.0
WAITING = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = '{}'"


async def waited(postgres: Postgres, event: str, task: asyncio.Task[object]) -> None:
    """Wait until a session of the server waits for this, which nobody has been told the end of."""
    with within(SECONDS, lambda: postgres.ask("SELECT state, wait_event, query FROM pg_stat_activity")):
        while postgres.ask(WAITING.format(event)) == [(0,)]:
            assert not task.done(), task
            await anyio.lowlevel.checkpoint()


async def left_alone(store: PostgresStore, task: asyncio.Task[object]) -> None:
    """Wait until what nobody waits for any more is queued: it has to be written before it is looked for."""
    with within(SECONDS, lambda: f"{task} and {store.backlog} in the queue"):
        while not task.done() and not store.backlog:
            await anyio.lowlevel.checkpoint()


@pytest.mark.proves("H3", "H16")
async def test_a_call_that_is_cancelled_while_its_question_is_written_leaves_no_question(
    postgres: Postgres, database: str
) -> None:
    async with opened(database) as store:

        async def pay() -> None:
            pass

        asked = guard(pay, controller=ApprovalController(policy=Policy(default="required"), store=store))
        with postgres.holding(database):
            task = asyncio.ensure_future(asked())
            await waited(postgres, "transactionid", task)
            task.cancel()
            await left_alone(store, task)
        with pytest.raises(asyncio.CancelledError):
            await task
        assert [each.status for each in await store.recent()] == ["withdrawn"]


@pytest.mark.proves("H7")
@pytest.mark.parametrize("seconds", [0.0, SECONDS], ids=["slow", "cancelled again"])
async def test_a_question_is_withdrawn_even_if_nobody_could_wait_for_that(
    postgres: Postgres, database: str, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    monkeypatch.setattr(lifecycle, "_WITHDRAW_SECONDS", seconds)
    async with opened(database) as store:
        controller = ApprovalController(policy=Policy(default="required"), store=store)
        with postgres.holding(database):
            task = asyncio.ensure_future(controller.settle(ToolCall(tool="pay", call_id="1")))
            await waited(postgres, "transactionid", task)
            task.cancel()
            await left_alone(store, task)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        found: list[str] = []
        with within(SECONDS, lambda: found):
            while (found := [each.status for each in await store.recent()]) != ["withdrawn"]:
                await anyio.lowlevel.checkpoint()


@pytest.mark.proves("H16")
async def test_a_group_ends_where_it_would_become_too_long(
    postgres: Postgres, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "_LARGEST_BYTES", 30_000)
    async with opened(database) as store:
        with postgres.holding(database):
            first = asyncio.ensure_future(store.open(sample_request()))
            await waited(postgres, "transactionid", first)
            runs = [asyncio.ensure_future(store.park(f"run {n}", bytes(10_000))) for n in range(9)]
            last = asyncio.ensure_future(store.open(sample_request()))
            await anyio.lowlevel.checkpoint()
        await asyncio.gather(first, last)
        await asyncio.gather(*runs)
        assert postgres.ask("SELECT last_group FROM sayso.writers", database) == [(5,)], "one, three of three, and one"


@pytest.mark.proves("H16")
@pytest.mark.parametrize("work", ["park", "unpark"])
async def test_what_is_long_is_not_written_together_with_others(postgres: Postgres, database: str, work: str) -> None:
    async with opened(database) as store:
        for name in "abcdef":
            await store.park(name, b"")
        before = postgres.ask("SELECT last_group FROM sayso.writers", database)[0][0]
        with postgres.holding(database):
            first = asyncio.ensure_future(store.open(sample_request()))
            await waited(postgres, "transactionid", first)
            short = asyncio.ensure_future(store.open(sample_request()))
            long = (
                [asyncio.ensure_future(store.park("long", bytes(16_000_000)))]
                if work == "park"
                else [asyncio.ensure_future(store.unpark(name)) for name in "abcdef"]  # how long they are is not known
            )
            await anyio.lowlevel.checkpoint()
        await asyncio.gather(first, short, *long)
        after = postgres.ask("SELECT last_group FROM sayso.writers", database)[0][0]
        assert after - before == 3, "the first, and what is long in two"


@pytest.mark.proves("H3", "H16")
async def test_what_a_standby_has_to_have_is_told_only_when_it_has_it_even_after_a_restart() -> None:
    with running(durable=True) as server:
        server.make_template()
        url = server.database()
        async with opened(url, patience=SECONDS) as store:
            request = await store.open(sample_request())
            server.ask("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
            server.reload()
            task = asyncio.ensure_future(store.open(sample_request()))
            await waited(server, "SyncRep", task)
            server.kill()
            server.start()
            await waited(server, "SyncRep", task)
            assert [each.id for each in await store.recent()] != [request.id], "it is here already, but not there"
            server.ask("ALTER SYSTEM RESET synchronous_standby_names")
            server.reload()
            await task
