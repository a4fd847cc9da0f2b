"""What docs/postgres.md promises: on disk, in bounded time, without what may have been revoked, by few rights."""

import asyncio
import re
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import anyio
import pytest
from msgspec.structs import replace
from tests.cli.questions import sayso
from tests.faults import roles
from tests.postgres import Postgres, Wire
from tests.stores.opening import opened, steps

from sayso import ApprovalController, ApprovalDecision, Policy, guard
from sayso.client import retention
from sayso.core import tokens
from sayso.core.approvers import Seen
from sayso.core.model import AuditEntry, new_id
from sayso.errors import StoreError
from sayso.stores.postgres import PostgresStore, connection, follower, writer
from sayso.testing.racing import RememberedRecorder
from sayso.testing.samples import NO, YES, sample_remembered, sample_request

SECONDS = 20.0

# What was acknowledged is on disk.

NOTED = """
    CREATE TABLE public.noted (level text);
    CREATE FUNCTION public.note() RETURNS trigger LANGUAGE plpgsql AS
        'BEGIN INSERT INTO public.noted VALUES (current_setting(''synchronous_commit'')); RETURN NULL; END';
    CREATE CONSTRAINT TRIGGER noting AFTER INSERT ON sayso.audit DEFERRABLE INITIALLY DEFERRED
        FOR EACH ROW EXECUTE FUNCTION public.note()
"""


@pytest.mark.proves("H5", "H16")
@pytest.mark.parametrize(
    ("said", "holds", "way"),
    [
        ("off", "on", ""),
        ("off", "on", "?pooler=transaction"),
        ("local", "local", ""),
        ("remote_apply", "remote_apply", ""),
    ],
)
async def test_each_commit_waits_for_the_disk_whatever_the_database_says_and_for_replicas_if_it_says_so(
    postgres: Postgres, database: str, said: str, holds: str, way: str
) -> None:
    for query in NOTED.split(";\n"):
        postgres.ask(query, database)
    name = database.rpartition("/")[2]
    async with opened(f"{database}{way}") as store:
        await store.open(sample_request())
        postgres.ask(f"ALTER DATABASE {name} SET synchronous_commit = {said}")
        assert postgres.end_sessions(database) >= 1
        await store.open(sample_request())  # by a connection of which that holds
    async with opened(f"{database}{way}") as again:
        await again.open(sample_request())
    assert [level for (level,) in postgres.ask("SELECT level FROM public.noted", database)] == ["on", holds, holds]


@pytest.mark.proves("H5", "H16")
async def test_a_server_that_is_told_to_be_less_careful_meanwhile_changes_nothing(
    postgres: Postgres, database: str
) -> None:
    for query in NOTED.split(";\n"):
        postgres.ask(query, database)
    async with opened(database) as store:
        await store.open(sample_request())
        postgres.ask("ALTER SYSTEM SET synchronous_commit = off")
        try:
            postgres.reload()
            assert postgres.ask("SHOW synchronous_commit", database) == [("off",)]
            await store.open(sample_request())
        finally:
            postgres.ask("ALTER SYSTEM RESET synchronous_commit")
            postgres.reload()
    assert [level for (level,) in postgres.ask("SELECT level FROM public.noted", database)] == ["on", "on"]


# Whoever is held up is told in time, and nothing runs.


@pytest.fixture
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have all that is waited for take a tenth of what it may take."""
    for module in (follower, connection, writer):
        for name in [each for each in vars(module) if each.isupper()]:
            monkeypatch.setattr(module, name, vars(module)[name])  # so that it is as before afterwards
    roles.__dict__["_hurry"]()


@pytest.mark.proves("H5")
@pytest.mark.usefixtures("hurry")
async def test_a_row_that_somebody_holds_is_told_in_one_sentence_and_the_call_does_not_run(
    postgres: Postgres, database: str
) -> None:
    async with opened(database, patience=0.1) as store:
        pay, ran = guarded(store)
        with postgres.holding(database), anyio.fail_after(SECONDS):
            with pytest.raises(StoreError, match=r"is held by another process for too long \(.*\); try again$"):
                await pay(5)
            assert (ran, await store.pending()) == ([], [])
        assert await steps(store) == []
        await pay(5)
        assert ran == [5]


SLOW = """
    CREATE FUNCTION public.wait() RETURNS trigger LANGUAGE plpgsql AS
        'BEGIN PERFORM pg_sleep(60); RETURN NEW; END';
    CREATE TRIGGER waiting BEFORE INSERT ON sayso.audit FOR EACH ROW EXECUTE FUNCTION public.wait()
"""


@pytest.mark.proves("H5")
@pytest.mark.usefixtures("hurry")
async def test_a_statement_that_takes_too_long_is_told_in_one_sentence_and_the_call_does_not_run(
    postgres: Postgres, database: str
) -> None:
    async with opened(database, patience=0.1) as store:
        pay, ran = guarded(store)
        for query in SLOW.split(";\n"):
            postgres.ask(query, database)
        with (
            anyio.fail_after(SECONDS),
            pytest.raises(StoreError, match=r"needed too long for a statement \(.*\); try again$"),
        ):
            await pay(5)
        postgres.ask("DROP TRIGGER waiting ON sayso.audit", database)
        assert (ran, await store.pending(), await steps(store)) == ([], [], [])
        await pay(5)
        assert ran == [5]


def guarded(store: PostgresStore) -> tuple[Any, list[int]]:
    """Return a tool that asks somebody who likes it, and what it did."""
    ran: list[int] = []

    async def pay(amount: int) -> None:
        ran.append(amount)

    controller = ApprovalController(
        approval_callback=lambda _: ApprovalDecision(approved=True, who="ann"),
        policy=Policy(default="required"),
        store=store,
    )
    return guard(pay, controller), ran


# Nobody goes on for long by what may have been revoked meanwhile.


@pytest.mark.proves("H5")
async def test_a_remembered_yes_holds_only_while_it_could_be_taken_back_and_a_no_always(
    postgres: Postgres, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follower, "_STALE_SECONDS", 0.2)
    yes, no = sample_remembered(), replace(sample_remembered(), decision=NO)
    with Wire(postgres) as wire:
        async with opened(database) as near, opened(wire.through(database)) as far:
            learner = RememberedRecorder()
            far.attach(learner.on_change)
            await asyncio.to_thread(near.remember, [yes, no], [])
            await learner.wait_until({yes.id: yes, no.id: no})
            wire.break_down()
            await learner.wait_until({no.id: no})
            wire.repair()
            await learner.wait_until({yes.id: yes, no.id: no})


# Few rights.


def script_rights(role: str) -> list[str]:
    """Return what deploy/rights.sql has the owner say, for a user of this name."""
    script = (Path(__file__).parents[3] / "deploy" / "rights.sql").read_text(encoding="utf-8")
    found: list[str] = re.findall(r"^GRANT .*?(?=;)", script, flags=re.MULTILINE | re.DOTALL)
    return [" ".join(each.split()).replace("sayso_agent", role) for each in found]


@pytest.fixture
def limited(postgres: Postgres, database: str) -> Generator[tuple[str, list[str]]]:
    """The address for a user with the rights that the script gives, and what gave them."""
    role = f"agent_{new_id()}"
    grants = script_rights(role)
    for each in (f"CREATE ROLE {role} LOGIN", *grants):
        postgres.ask(each, database)
    yield database.replace("postgres@", f"{role}@"), grants
    postgres.ask(f"DROP OWNED BY {role}", database)
    postgres.ask(f"DROP ROLE {role}")


async def everything(store: PostgresStore) -> None:
    """Do all that agents, hubs and people do with a store."""
    learner = RememberedRecorder()
    store.attach(learner.on_change)
    point, _ = await store.changes()
    request = await store.open(sample_request(asked_at=1.0))
    await store.changed(point)
    assert [each.id for each in await store.pending()] == [request.id]
    assert await store.find(request.session, request.key) == request
    seen = await store.mark_seen(request.id, Seen(who="ann", channel="page", at=1.0))
    memory, other = sample_remembered(uses_left=2), sample_remembered()
    waiting = asyncio.ensure_future(store.closed(request.id))
    await store.close(request.id, "approved", YES, now=1.0, remember=[memory, other])
    assert (await waiting).id == seen.id
    assert await store.claim(request.id, now=2.0, attempt="first")
    store.finish(request.id, "returned")
    store.record(AuditEntry(at=3.0, step="allowed", about=request.call()))
    await store.flush()
    await store.append([b"{}"], attempt="second")
    assert [await store.spend(memory.id) for _ in range(3)] == [True, True, False]
    assert await asyncio.to_thread(store.remember, [], [other.id]) == 1
    await learner.wait_until({})
    await store.park("a run", b"state")
    assert [await store.parked("a run"), await store.unpark("a run", attempt="third")] == [b"state"] * 2
    token, _ = tokens.make("agent", "builder", now=1.0)
    await store.add_token(token)
    assert (await store.token(token.id), await store.tokens()) == (token, [token])
    assert await store.take_token(token.id) == token
    assert [each.id for each in await store.recent(part=request.id[-8:])] == [request.id]
    assert (await store.health()).hint is not None
    assert (await retention.prune(store, before=time.time())).requests == 1


async def test_a_user_with_the_rights_that_the_script_gives_can_do_everything_but_change_the_audit(
    postgres: Postgres, limited: tuple[str, list[str]]
) -> None:
    url, _ = limited
    async with opened(url) as store:
        with anyio.fail_after(SECONDS):
            await everything(store)
        assert (await store.audit_ends())[1][0] == 6
    for each in (
        "UPDATE sayso.audit SET line = ''",
        "DELETE FROM sayso.audit",
        "DROP TABLE sayso.audit",
    ):
        with pytest.raises(Exception, match=r"permission denied|must be owner"):
            postgres.ask(each, url)


async def test_doctor_names_each_right_that_is_missing_for_writing(
    postgres: Postgres, database: str, limited: tuple[str, list[str]]
) -> None:
    url, grants = limited
    async with opened(url) as store:
        assert (await store.health()).missing == []
        for each in grants[2:]:  # without the first two nothing can be read, either
            rights, named = re.findall(r"GRANT (.*) ON (?:ALL FUNCTIONS IN SCHEMA )?(.*) TO", each)[0]
            postgres.ask(each.replace("GRANT", "REVOKE").replace(" TO ", " FROM "), database)
            missing = {f"{right} on {name}" for right in rights.split(", ") for name in named.split(", ")}
            told = {word.replace("sayso.write_group", "sayso") for word in (await store.health()).missing}
            assert told == missing
            done = await asyncio.to_thread(sayso, "doctor", "--store", url)
            assert (done.exit_code, "owner run deploy/rights.sql" in " ".join(done.stdout.split())) == (1, True)
            postgres.ask(each, database)


@pytest.mark.proves("H5")
async def test_without_any_one_of_these_rights_a_sentence_says_what_is_missing(
    postgres: Postgres, database: str, limited: tuple[str, list[str]]
) -> None:
    url, grants = limited
    assert len(grants) >= 6
    for each in grants:
        postgres.ask(each.replace("GRANT", "REVOKE").replace(" TO ", " FROM "), database)
        with (
            anyio.fail_after(SECONDS),
            pytest.raises(StoreError, match=r"a right that sayso needs: permission denied for \w+ \w+; see docs/post"),
        ):
            async with opened(url) as store:
                await everything(store)
        postgres.ask(each, database)
