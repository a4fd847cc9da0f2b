"""P10: the durable round trip through PostgreSQL, against raw rows as the lower bound."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.postgres import running

from benchmarks import report
from benchmarks.rawpostgres import RawBatches, RawEach
from benchmarks.rows import Row, at_least, at_most, compare, row
from benchmarks.store import OurStore, Rows, Turn, turns_of
from benchmarks.timing import Effort
from sayso.stores.postgres import PostgresStore

COUNTS = {1: 200, 64: 3_000, 1024: 6_000}
EACH_COUNTS = {1: 200, 64: 600, 1024: 1_024}


@asynccontextmanager
async def contenders() -> AsyncIterator[dict[str, Rows]]:
    """Open every contender on a database of its own, of one server that syncs to the disk of the checkout."""
    report.RESULTS.mkdir(exist_ok=True)
    with running(durable=True, where=report.RESULTS) as server:
        server.make_template()
        stores: dict[str, Rows] = {
            "limit": await RawBatches.at(server.database("template0")),
            "ours": OurStore(PostgresStore(server.database())),
            "each": await RawEach.at(server.database("template0")),
        }
        try:
            yield stores
        finally:
            for store in stores.values():
                await store.aclose()


async def durable(effort: Effort) -> list[Row]:
    """Measure all of them at every load, turn by turn."""
    rows: list[Row] = []
    async with contenders() as stores:
        for waiting, many in COUNTS.items():
            turns = await turns_of(stores, effort, waiting=waiting, many=many, few=EACH_COUNTS[waiting])
            rows.append(_latency(turns) if waiting == 1 else _rate(turns, waiting))
    return rows


def _latency(turns: dict[str, list[Turn]]) -> Row:
    ours, limit, each = ([turn.p50 for turn in turns[who]] for who in ("ours", "limit", "each"))
    return row("P10", "Postgres p50, 1 waiting", ours, limit=compare(ours, limit, at_most(2)), peer=compare(ours, each))


def _rate(turns: dict[str, list[Turn]], waiting: int) -> Row:
    ours, limit, each = ([turn.rate for turn in turns[who]] for who in ("ours", "limit", "each"))
    return row(
        "P10",
        f"Postgres, {waiting} open; peer: each",
        ours,
        unit="/s",
        limit=compare(ours, limit, at_least(0.4)),
        peer=compare(ours, each, at_least(3)),
    )


MEASUREMENTS = (durable,)
