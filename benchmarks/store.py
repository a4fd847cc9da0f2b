"""P9: the durable round trip through SQLite: open a row, show it to an approver, close it, wake the waiter."""

from __future__ import annotations

import asyncio
import gc
import itertools
import time
from collections.abc import AsyncIterator, Awaitable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Literal, Protocol

from benchmarks import report
from benchmarks.rawsqlite import RawStore
from benchmarks.rows import Row, at_least, at_most, compare, row
from benchmarks.timing import Effort
from sayso import ApprovalDecision, ApprovalRequest, ToolCall
from sayso.core.msgpack_codec import pack_request
from sayso.core.ports import Store
from sayso.stores.sqlite import SqliteStore

ARGS: dict[str, Any] = {"path": "reports/2026/summary.txt", "text": "some text, " * 19, "mode": "append"}
YES = ApprovalDecision(approved=True, who="ann")
COUNTS = {1: 300, 64: 4_000, 1024: 8_000}  # requests per turn, by how many wait at a time
EACH_COUNTS = {1: 300, 64: 1_000, 1024: 2_048}  # a commit for each is slow; a rate needs no more
_NUMBERS = itertools.count()


class Rows(Protocol):
    """Protocol of a store in the round trip."""

    def open(self, request_id: str, body: bytes) -> Awaitable[object]: ...
    def close(self, request_id: str) -> Awaitable[object]: ...
    def closed(self, request_id: str) -> Awaitable[object]: ...
    async def aclose(self) -> None: ...


def request(request_id: str) -> ApprovalRequest:
    """Return a request as the controller would open it."""
    call = ToolCall(tool="write_file", args=ARGS, call_id=request_id, session="bench")
    return ApprovalRequest(
        id=request_id,
        tool_name=call.tool,
        args=call.args,
        description="Run write_file",
        tool_call_id=call.call_id,
        session=call.session,
        digest=call.digest(),
        reason="tools.write_file is 'required'",
        asked_at=time.time(),
    )


class OurStore:
    """Adapter of sayso's store to `Rows`."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._made: dict[str, ApprovalRequest] = {}

    def make(self, ids: Iterable[str]) -> None:
        """Build the requests beforehand, outside the measured time."""
        self._made = {each: request(each) for each in ids}

    def open(self, request_id: str, body: bytes) -> Awaitable[object]:  # noqa: ARG002 - the raw one's
        return self._store.open(self._made[request_id])

    def close(self, request_id: str) -> Awaitable[object]:
        return self._store.close(request_id, "approved", YES, now=time.time())

    def closed(self, request_id: str) -> Awaitable[object]:
        return self._store.closed(request_id)

    async def aclose(self) -> None:
        await self._store.aclose()


@dataclass(frozen=True)
class Turn:
    """Result of one turn of a store."""

    rate: float
    p50: float


async def round_trips(store: Rows, *, waiting: int, count: int) -> Turn:
    """Keep `waiting` requests in flight until all are answered."""
    ids = [f"{next(_NUMBERS):032x}" for _ in range(count)]
    body = pack_request(request(ids[0]))
    if isinstance(store, OurStore):
        store.make(ids)
    inbox: asyncio.Queue[str] = asyncio.Queue()
    left = iter(ids)
    seconds: list[float] = []

    async def ask() -> None:
        for each in left:
            start = time.perf_counter()
            await store.open(each, body)
            inbox.put_nowait(each)
            await store.closed(each)
            seconds.append(time.perf_counter() - start)

    async def answer() -> None:
        while True:
            await store.close(await inbox.get())

    approvers = [asyncio.create_task(answer()) for _ in range(waiting)]
    start = time.perf_counter()
    await asyncio.gather(*(ask() for _ in range(waiting)))
    rate = count / (time.perf_counter() - start)
    for approver in approvers:
        approver.cancel()
    return Turn(rate, median(seconds))


async def turns_of(
    stores: Mapping[str, Rows], effort: Effort, *, waiting: int, many: int, few: int
) -> dict[str, list[Turn]]:
    """Give every store its turn in every round, each time starting with another; `few` is for a commit per row."""
    turns: dict[str, list[Turn]] = {name: [] for name in stores}
    names = list(stores)
    for number in range(max(3, effort.rounds // 2)):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            gc.collect()
            count = max(waiting, effort.count(few if name.startswith("each") else many))
            turns[name].append(await round_trips(stores[name], waiting=waiting, count=count))
    return turns


@asynccontextmanager
async def contenders(levels: Iterable[Literal["FULL", "NORMAL"]]) -> AsyncIterator[dict[str, Rows]]:
    """Open every store on a file of its own, on the disk of the checkout."""
    with report.scratch() as name:
        folder = Path(name)
        stores: dict[str, Rows] = {}
        for level in levels:
            stores[f"limit {level}"] = RawStore(folder / f"raw-{level}.db", synchronous=level)
            stores[f"ours {level}"] = OurStore(SqliteStore(folder / f"ours-{level}.db", synchronous=level))
            stores[f"each {level}"] = RawStore(folder / f"each-{level}.db", synchronous=level, group=1)
        yield stores
        for store in stores.values():
            await store.aclose()


async def durable(effort: Effort) -> list[Row]:
    """Measure every store at every load, turn by turn."""
    rows: list[Row] = []
    async with contenders(["FULL", "NORMAL"]) as stores:
        for waiting, many in COUNTS.items():
            turns = await turns_of(stores, effort, waiting=waiting, many=many, few=EACH_COUNTS[waiting])
            rows += _rows(turns, waiting)
    return rows


def _rows(turns: dict[str, list[Turn]], waiting: int) -> list[Row]:
    if waiting == 1:
        return [_latency(turns, level) for level in ("FULL", "NORMAL")]
    rows = [_rate(turns, waiting, level) for level in ("FULL", "NORMAL")]
    full, normal = ([turn.rate for turn in turns[f"ours {level}"]] for level in ("FULL", "NORMAL"))
    if waiting == max(COUNTS):
        rows.append(
            row("P9", f"FULL ÷ NORMAL, {waiting} waiting", full, unit="/s", limit=compare(full, normal, at_least(0.6)))
        )
    return rows


def _latency(turns: dict[str, list[Turn]], level: str) -> Row:
    ours, limit, each = ([turn.p50 for turn in turns[f"{who} {level}"]] for who in ("ours", "limit", "each"))
    return row("P9", f"{level} p50, 1 waiting", ours, limit=compare(ours, limit, at_most(3)), peer=compare(ours, each))


def _rate(turns: dict[str, list[Turn]], waiting: int, level: str) -> Row:
    ours, limit, each = ([turn.rate for turn in turns[f"{who} {level}"]] for who in ("ours", "limit", "each"))
    return row(
        "P9",
        f"{level}, {waiting} open; peer: each",
        ours,
        unit="/s",
        limit=compare(ours, limit, at_least(0.25)),
        peer=compare(ours, each, at_least(2)),
    )


MEASUREMENTS = (durable,)
