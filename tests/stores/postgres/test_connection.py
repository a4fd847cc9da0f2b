"""The PostgreSQL store and what stands before a server or beside it: PgBouncer, TLS, a standby, older tables."""

import asyncio
import json
import re
import socket
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import anyio
import pytest
from tests.certificates import Authority
from tests.cli.questions import sayso
from tests.debian import DebianPostgres, PgBouncer, Standby
from tests.postgres import Postgres, placed
from tests.stores.opening import opened, steps

from sayso.errors import ConfigurationError, StoreError
from sayso.stores.postgres import PostgresStore, connection, schema
from sayso.stores.postgres.schema import statement
from sayso.testing.samples import YES, sample_request

SECONDS = 20.0


async def refusal(url: str, kind: type[Exception] = StoreError) -> str:
    """Return the sentence with which a store is not opened."""
    with pytest.raises(kind) as told:
        await asyncio.to_thread(PostgresStore, url)
    assert "\n" not in str(told.value)
    return str(told.value)


# PgBouncer, by transactions.


@pytest.fixture(scope="module")
def bouncer(postgres: Postgres) -> Generator[PgBouncer]:
    bouncer = PgBouncer(postgres)
    yield bouncer
    bouncer.leave()


WORKS = """
import asyncio, sys
from sayso.stores.postgres import PostgresStore
from sayso.stores.postgres.schema import statement
from sayso.testing.samples import YES, sample_request

async def main():
    store = PostgresStore(sys.argv[1])

    async def one(number):
        row = await store.open(sample_request(call_id=f"c{number}"))
        await store.close(row.id, "approved", YES, now=1.0)
        assert (await store.get(row.id)).status in {"approved", "used"}
        return await store.claim(row.id, now=2.0)

    claimed = sum(await asyncio.gather(*map(one, range(20))))
    waited = await store.open(sample_request(call_id="the last"))
    print(claimed, (await store.closed(waited.id)).status)
    await store.aclose()

asyncio.run(main())
"""


@pytest.mark.proves("H2", "H6", "H8")
async def test_through_pgbouncer_two_processes_ask_wait_and_claim_each_call_once(
    bouncer: PgBouncer, database: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "sayso")
    url = bouncer.through(database)
    async with opened(url) as store:
        assert f"the store {url} is behind a pooler: it is polled" in caplog.text
        command = [sys.executable, "-c", WORKS, url]
        children = [await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE) for _ in range(2)]
        with anyio.fail_after(SECONDS):
            point, _ = await store.changes()
            while not (asked := [each for each in await store.pending() if each.tool_call_id == "the last"]):
                await store.changed(point)
                point, _ = await store.changes()
            await store.close(asked[0].id, "approved", YES, now=3.0)
            told = [(await each.communicate())[0].split() for each in children]
        assert [each[1] for each in told] == [b"approved"] * 2
        assert sum(int(each[0]) for each in told) == 20, "each call is claimed by one of them"
        said = await steps(store)
        assert {step: said.count(step) for step in set(said)} == {"asked": 21, "approved": 21, "claimed": 20}


@pytest.mark.proves("H6")
async def test_through_pgbouncer_what_happens_on_a_direct_connection_is_seen_by_polling(
    bouncer: PgBouncer, database: str
) -> None:
    async with opened(bouncer.through(database)) as polls, opened(database) as direct:
        assert ((await polls.health()).hint, (await direct.health()).hint is None) == (None, False)
        request = await polls.open(sample_request())
        waiting = asyncio.ensure_future(polls.closed(request.id))
        await direct.close(request.id, "approved", YES, now=1.0)
        with anyio.fail_after(SECONDS):
            assert (await waiting).status == "approved"
            looks = [polls.get(request.id), polls.pending(), polls.parked("none"), polls.tokens()]
            found = await asyncio.gather(
                *looks, *(each() for each in (polls.pending, polls.tokens, polls.changes) * 50)
            )
        assert found[1:4] == [[], None, []], "each look is one transaction, however few sessions there are"


def test_doctor_says_that_a_pooler_is_in_between(bouncer: PgBouncer, database: str) -> None:
    told = {each["what"]: each for each in json.loads(_doctor(bouncer.through(database)))}
    assert (told["hints"]["state"], told["audit"]["told"]) == ("warning", "the chain is whole, 0 entries")
    assert "a pooler is in between, so changes are polled" in told["hints"]["told"]
    assert "TLS" not in told, "the way to the pooler does not leave this machine"
    elsewhere = bouncer.through(database).replace("127.0.0.1", "0.0.0.0")  # noqa: S104 - another name of it
    assert "nothing makes sure that the connection is encrypted" in _doctor(elsewhere)


def _doctor(url: str) -> str:
    return sayso("doctor", "--json", "--store", url).stdout


# TLS.


@pytest.fixture(scope="module")
def sealed() -> Generator[tuple[DebianPostgres, Authority]]:
    """A server that shows a certificate for localhost, and lets some users in only with one of their own."""
    with placed(DebianPostgres) as server:
        server.ask("CREATE ROLE known LOGIN SUPERUSER")
        for rule in ("host all known 127.0.0.1/32 reject", "hostssl all known 127.0.0.1/32 cert"):
            server.let_in(rule)
        authority = server.speak_tls("localhost")
        server.make_template()
        yield server, authority


SESSIONS = (
    "SELECT ssl FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) "
    "WHERE application_name = 'sayso' AND datname LIKE 'test_%'"
)


@pytest.mark.parametrize(
    ("options", "encrypted"),
    [("sslmode=verify-full&sslrootcert={ca}", True), ("sslmode=require", True), ("", True), ("sslmode=disable", False)],
    ids=["verify-full", "require", "not said", "disable"],
)
async def test_all_connections_are_encrypted_as_the_address_says(
    sealed: tuple[DebianPostgres, Authority], options: str, encrypted: bool
) -> None:
    server, authority = sealed
    url = server.database()
    through = url.replace("127.0.0.1", "localhost")
    async with opened(f"{through}?{options.format(ca=authority.file)}") as store:
        request = await store.open(sample_request())
        await store.close(request.id, "approved", YES, now=1.0)
        assert await store.claim(request.id, now=2.0)
        sessions = server.ask(SESSIONS)
        assert (len(sessions) >= 3, set(sessions)) == (True, {(encrypted,)})


TRIES = """
import sys
from sayso.errors import StoreError
from sayso.stores.postgres import PostgresStore

for url in sys.argv[1:]:
    try:
        PostgresStore(url)
        print("opened")
    except StoreError as error:
        print(error)
"""


def tried(*urls: str) -> list[str]:
    """Return with which sentence each is refused, in a process of its own, which TLS connections may take with them."""
    done = subprocess.run([sys.executable, "-c", TRIES, *urls], capture_output=True, text=True, check=True, timeout=60)
    assert (done.stderr, done.stdout.count("\n")) == ("", len(urls))
    return done.stdout.splitlines()


@pytest.mark.proves("H5")
def test_a_certificate_that_does_not_hold_is_told_in_one_sentence(
    sealed: tuple[DebianPostgres, Authority], tmp_path: Path
) -> None:
    server, authority = sealed
    address, other = server.url("postgres"), Authority(tmp_path)
    named = address.replace("127.0.0.1", "localhost")
    name, signer, any_name = tried(
        f"{address}?sslmode=verify-full&sslrootcert={authority.file}",
        f"{named}?sslmode=verify-full&sslrootcert={other.file}",
        f"{address}?sslmode=verify-ca&sslrootcert={other.file}",
    )
    assert name == (
        f"the store {address} shows a certificate that does not hold (IP address mismatch, certificate is not valid "
        "for '127.0.0.1'); check its name, and sslrootcert"
    )
    for each in (signer, any_name):
        assert re.search(r"does not hold \((?!IP).*\); check its name, and sslrootcert$", each)


def test_a_user_who_is_known_by_a_certificate_needs_it(sealed: tuple[DebianPostgres, Authority]) -> None:
    server, authority = sealed
    cert, key = authority.issue("known")
    url = server.url("postgres", "known").replace("127.0.0.1", "localhost")
    way = f"sslmode=verify-full&sslrootcert={authority.file}"
    shown, missing, plain = tried(f"{url}?{way}&sslcert={cert}&sslkey={key}", f"{url}?{way}", f"{url}?sslmode=disable")
    assert shown == "opened"
    for each in (missing, plain):
        assert "does not let this user in (" in each


async def test_a_server_without_tls_is_refused_where_the_address_asks_for_it(database: str) -> None:
    assert "does not offer TLS, which its address asks for" in await refusal(f"{database}?sslmode=require")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ("sslmode=verify-full&sslrootcert=nowhere.pem", "sslrootcert of the store is nowhere.pem, which"),
        ("sslmode=verify-full", "root.crt"),
        ("sslrootcert={file}", "with sslmode=prefer no certificate is checked; use sslmode=verify-full"),
    ],
)
async def test_a_certificate_that_is_not_there_or_not_used_is_a_mistake_in_the_address(
    options: str, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    told = await refusal(f"postgresql://db/x?{options.format(file=__file__)}", ConfigurationError)
    assert sentence in told


# A standby.


@pytest.mark.proves("H3", "H5", "H16")
async def test_when_the_primary_dies_whoever_named_both_goes_on_at_the_promoted_standby() -> None:
    with placed(DebianPostgres) as primary:
        primary.make_template()
        url = primary.database()
        with placed(lambda folder: Standby(folder, primary)) as standby:
            only = url.replace(f":{primary.port}/", f":{standby.port}/")
            told = await refusal(only)
            assert told == f"the store {only} only lets itself be read: it is a standby; name the primary"
            both = url.replace(f":{primary.port}/", f":{standby.port},127.0.0.1:{primary.port}/")
            async with opened(both) as store:
                assert str(store) == both
                first, second = [await store.open(sample_request()) for _ in range(2)]
                await store.close(first.id, "approved", YES, now=1.0)
                assert await store.claim(first.id, now=2.0)
                waiting = asyncio.ensure_future(store.closed(second.id))
                primary.kill()
                answering = asyncio.ensure_future(store.close(second.id, "approved", YES, now=3.0))
                await asyncio.to_thread(standby.promote)
                with anyio.fail_after(SECONDS):
                    assert [(await each).status for each in (answering, waiting)] == ["approved"] * 2
                assert not await store.claim(first.id, now=4.0), "what was acknowledged is there"
                assert await store.claim(second.id, now=4.0)
                assert await steps(store) == ["asked", "asked", "approved", "claimed", "approved", "claimed"]


async def test_a_host_that_never_answers_does_not_keep_the_next_one_from_being_tried(
    postgres: Postgres, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "CONNECT_SECONDS", 2.0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        both = f"127.0.0.1:{silent.getsockname()[1]},127.0.0.1:{postgres.port}"
        async with opened(database.replace(f"127.0.0.1:{postgres.port}", both)) as store:
            assert await store.pending() == []


# Older servers, and older tables.


async def test_a_server_that_is_too_old_is_told_in_one_sentence(
    postgres: Postgres, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema, "_OLDEST_SERVER", 99)
    version = postgres.ask("SHOW server_version")[0][0]
    told = await refusal(database)
    assert told.endswith(f" is PostgreSQL {version}, and sayso needs 99 or newer; upgrade the server")


async def test_tables_of_an_older_sayso_are_brought_up_to_date_by_their_owner_alone(
    postgres: Postgres, database: str
) -> None:
    postgres.ask("ALTER TABLE sayso.requests DROP COLUMN call_id", database)  # what the last form brought
    older = postgres.ask("UPDATE sayso.form SET version = version - 1 RETURNING version", database)[0][0]
    for query in ("GRANT USAGE ON SCHEMA sayso TO guest", "GRANT SELECT ON ALL TABLES IN SCHEMA sayso TO guest"):
        postgres.ask(query, database)
    guest = database.replace("postgres@", "guest@")
    told = await refusal(guest)
    assert f"has the form {older} of an older sayso; open it once as the owner of its tables" in told
    stores = await asyncio.gather(*(asyncio.to_thread(PostgresStore, database) for _ in range(3)))
    assert [await store.pending() for store in stores] == [[]] * 3
    for store in stores:
        await store.aclose()
    async with opened(guest) as store:
        assert await store.pending() == []


async def test_a_request_is_found_by_the_end_of_its_id_without_looking_at_all_of_them(
    postgres: Postgres, database: str
) -> None:
    fill = (
        "INSERT INTO sayso.requests SELECT md5(number::text), number::text::bytea, '', 'used', 0, '', number "
        "FROM generate_series(1, 20000) AS number"
    )
    for query in (fill, "ANALYZE sayso.requests"):
        postgres.ask(query, database)
    look = statement("requests_named").replace("$1", "'~'").replace("$2", "5").replace("$3", "'0274708e'")
    plan = "".join(line for (line,) in postgres.ask(f"EXPLAIN {look}", database))
    assert re.search(r"requests_ending .*Index Cond: \(\"right\"\(id, 4\) = ", plan)
    assert not re.search(r"Seq Scan|Index Cond: \(id < '~'::text\)", plan), "and in no other way"
    async with opened(database) as store:
        request = await store.open(sample_request())
        for part in (request.id[-4:], request.id[-12:], request.id[:12], request.id):
            assert await store.recent(part=part) == [request]
        assert request in await store.recent(part=request.id[-3:]), "what is too short for the index is found too"
