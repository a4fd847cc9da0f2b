"""P10: scaling with history: a million closed requests in PostgreSQL against an empty store."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from tests.postgres import Postgres, running

from benchmarks import report
from benchmarks.rows import Row, at_most, compare, row
from benchmarks.store import OurStore, request, round_trips
from benchmarks.timing import Effort, interleave, repeat_async
from sayso.core.msgpack_codec import pack_request
from sayso.stores.postgres import PostgresStore

CLOSED = 1_000_000
COUNTS = {1: 100, 64: 2_000}
PIECE = 50_000
# The rows that a million requests leave, with three audit entries each; their ids sort before all others.
FILL = """
    WITH numbers AS (
        SELECT number, lpad(to_hex(number), 32, '!') AS id FROM generate_series({first}, {last}) AS number
    ), requests AS (
        INSERT INTO sayso.requests (id, call, project, status, asked_at, packed, change)
        SELECT id, sha256(id::bytea), '', 'used', 0, '\\x{packed}', number FROM numbers
    ), lines AS (
        INSERT INTO sayso.audit (number, line, hash)
        SELECT number, '\\x{line}', repeat('0', 64) FROM generate_series(3 * {first} - 2, 3 * {last}) AS number
    )
    UPDATE sayso.head SET request_changes = {last}, chain_number = 3 * {last}
"""


def fill(server: Postgres, url: str, count: int) -> None:
    """Insert `count` closed requests into a database by SQL, bypassing the store."""
    packed, line = pack_request(request("1" * 32)).hex(), (b"x" * 400).hex()
    for first in range(1, count, PIECE):
        server.ask(FILL.format(first=first, last=min(first + PIECE - 1, count), packed=packed, line=line), url)
    for query in ("VACUUM ANALYZE sayso.requests", "VACUUM ANALYZE sayso.audit", "CHECKPOINT"):
        server.run("psql", "-q", "-d", url, "-c", query)


async def with_history(effort: Effort) -> list[Row]:
    """Measure a full and an empty store, turn by turn."""
    report.RESULTS.mkdir(exist_ok=True)
    with running(durable=True, where=report.RESULTS) as server:
        server.make_template()
        urls = {"full": server.database(), "empty": server.database()}
        fill(server, urls["full"], effort.count(CLOSED))
        stores = {name: PostgresStore(url) for name, url in urls.items()}
        try:
            return [*await _measure_round_trips(stores, effort), *await _measure_queries(stores, effort)]
        finally:
            for store in stores.values():
                await store.aclose()


async def _measure_round_trips(stores: dict[str, PostgresStore], effort: Effort) -> list[Row]:
    rows: list[Row] = []
    ours = {name: OurStore(store) for name, store in stores.items()}
    for waiting, count in COUNTS.items():
        seconds: dict[str, list[float]] = {name: [] for name in ours}
        for turn in range(effort.rounds):
            for name in sorted(ours, reverse=bool(turn % 2)):
                done = await round_trips(ours[name], waiting=waiting, count=max(waiting, effort.count(count)))
                seconds[name].append(done.p50 if waiting == 1 else 1 / done.rate)
        rows.append(_row(f"{waiting} open, 1M closed ÷ none", seconds))
    return rows


async def _measure_queries(stores: dict[str, PostgresStore], effort: Effort) -> list[Row]:
    """Measure the queries of approvers and hubs, with a hundred requests open."""
    for store in stores.values():
        for number in range(100):
            await store.open(request(f"f{number:031x}"))
    queries: dict[str, Callable[[PostgresStore], Awaitable[object]]] = {
        "inbox of 100": lambda store: store.pending(),
        "newest 100": lambda store: store.recent(),
        "what changed": lambda store: store.changes((CLOSED + 10_000) * 10),
        "named by its end": lambda store: store.recent(5, "00000063"),
    }
    return [
        _row(f"{what}, 1M closed ÷ none", await _time_query(stores, effort, query)) for what, query in queries.items()
    ]


async def _time_query(
    stores: dict[str, PostgresStore], effort: Effort, query: Callable[[PostgresStore], Awaitable[object]]
) -> dict[str, list[float]]:
    samples = {name: repeat_async(lambda store=store: query(store)) for name, store in stores.items()}
    return await interleave(samples, effort, most=200)


def _row(what: str, seconds: dict[str, list[float]]) -> Row:
    return row("P10", what, seconds["full"], limit=compare(seconds["full"], seconds["empty"], at_most(1.5)))


MEASUREMENTS = (with_history,)
