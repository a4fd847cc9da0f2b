"""P13, P15: the hub against bare servers: answers, round trips, fan-out of an event, and event loop lag.

The client is one process on the same machine, and takes its share of the processors; every contender has the same one.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles

from benchmarks import report, store
from benchmarks.hubclient import Listeners, Trips, Way, drive, post, raise_open_files
from benchmarks.hubserver import Child, Kind
from benchmarks.rawsqlite import RawStore
from benchmarks.rows import Row, at_least, at_most, compare, row
from benchmarks.timing import Effort

CONNECTIONS = 32
ANSWERS = 4_000
ONE_AT_A_TIME = 400
TRIPS = {1: 200, 64: 2_000, 1024: 4_000}  # round trips per turn, by how many wait at a time
LISTENERS = 1_000
EVENTS = 10  # events per turn
NON_READERS = 16
LARGE = 600_000  # bytes of an event, which fill the buffer of a client that does not read
PENDING = 10_000
IN_FLIGHT = 64
WAYS: dict[Way, str] = {"events": "SSE", "sockets": "WebSocket"}
BODY = b'{"outcome": "proceed_once", "note": "fine"}'


@contextlib.contextmanager
def serving(*kinds: Kind) -> Iterator[dict[str, Child]]:
    """Start one server of each kind."""
    raise_open_files()
    with report.scratch() as folder:
        children: dict[str, Child] = {kind: Child(kind, Path(folder)) for kind in kinds}
        try:
            yield children
        finally:
            for child in children.values():
                child.stop()


@dataclass(frozen=True)
class Turn:
    """Result of one turn."""

    rate: float
    p50: float
    p99: float
    cpu: float = 0.0  # seconds of the server's processor time for each

    @classmethod
    def from_latencies(cls, took: list[float], seconds: float, cpu: float = 0.0) -> Turn:
        parts = quantiles(took, n=100, method="inclusive")
        return cls(rate=len(took) / seconds, p50=median(took), p99=parts[-1], cpu=cpu / len(took))


def answers(effort: Effort) -> list[Row]:
    """Let people answer over many connections at once."""
    count = effort.count(ANSWERS)
    with serving("raw", "starlette", "fastapi", "memory", "durable") as children:
        turns: dict[str, list[Turn]] = {kind: [] for kind in children}
        for _ in range(_rounds(effort)):
            for kind, child in children.items():
                turns[kind].append(_answer(child, count))
    rates = {kind: [each.rate for each in found] for kind, found in turns.items()}
    p99 = {kind: [each.p99 for each in found] for kind, found in turns.items()}
    cpu = {kind: [each.cpu for each in found] for kind, found in turns.items()}
    ours, memory, bare, peer = (rates[kind] for kind in ("durable", "memory", "starlette", "fastapi"))
    return [
        # A quarter of Starlette's rate is less than FastAPI's, so the durable hub has no goal against FastAPI.
        *(
            row("P13", f"POST, {what}; peer: FastAPI", rate, unit="/s", limit=limit, peer=compare(rate, peer, goal))
            for what, rate, limit, goal in (
                ("durable", ours, compare(ours, bare, at_least(0.25)), None),
                ("in memory", memory, compare(memory, bare, at_least(0.4)), at_least(1)),
            )
        ),
        row("P13", "POST, raw ASGI ÷ Starlette", rates["raw"], unit="/s", limit=compare(rates["raw"], bare)),
        *(
            row(
                "P13",
                f"… CPU of each, {what}",
                cpu[kind],
                limit=compare(cpu[kind], cpu["starlette"]),
                peer=compare(cpu[kind], cpu["fastapi"]),
            )
            for kind, what in (("durable", "durable"), ("memory", "in memory"))
        ),
        row(
            "P13",
            "POST p99, durable; peer: FastAPI",
            p99["durable"],
            limit=compare(p99["durable"], p99["starlette"]),
            peer=compare(p99["durable"], p99["fastapi"]),
        ),
    ]


def default_installation(effort: Effort) -> list[Row]:
    """Let one person answer, one request after the other, at a hub without the extra for speed."""
    count = effort.count(ONE_AT_A_TIME)
    with serving("raw", "memory", "plain") as children:
        p50: dict[str, list[float]] = {kind: [] for kind in children}
        for _ in range(_rounds(effort)):
            for kind, child in children.items():
                p50[kind].append(_answer(child, count, connections=1).p50)
    ours = p50["plain"]
    limit, peer = compare(ours, p50["raw"]), compare(ours, p50["memory"], at_most(4))
    return [row("P13", "POST p50, no uvloop; peer: uvloop", ours, limit=limit, peer=peer)]


def _answer(child: Child, count: int, *, connections: int = CONNECTIONS) -> Turn:
    ids = child.ask(count)
    tokens = child.tokens("approver")
    messages = [
        post(f"/approvals/{each}", BODY, token=tokens[number % len(tokens)], media="application/json")
        for number, each in enumerate(ids)
    ]
    used, start = child.do("cpu"), time.perf_counter()
    took = drive(child.port, messages, connections=connections)
    return Turn.from_latencies(took, time.perf_counter() - start, child.do("cpu") - used)


async def round_trips(effort: Effort) -> list[Row]:
    """Ask, answer and receive the answer, as remote agents and people do, by the number of open requests."""
    rows: list[Row] = []
    with serving("raw", "durable") as children, report.scratch() as folder:
        engine = RawStore(Path(folder) / "raw.db", synchronous="FULL")
        for waiting, full in TRIPS.items():
            count = max(waiting, effort.count(full))
            turns: dict[str, list[Turn]] = {"raw": [], "durable": [], "engine": []}
            for _ in range(_rounds(effort)):
                for kind, child in children.items():
                    turns[kind].append(_trips(child, waiting, count))
                found = await store.round_trips(engine, waiting=waiting, count=count)
                turns["engine"].append(Turn(rate=found.rate, p50=found.p50, p99=found.p50))
            rows += _trip_rows(turns, waiting)
        await engine.aclose()
    return rows


def _trips(child: Child, waiting: int, count: int) -> Turn:
    trips = Trips(child, waiting=waiting, count=count)
    start = time.perf_counter()
    took = trips.run()
    return Turn.from_latencies(took, time.perf_counter() - start)


def _trip_rows(turns: dict[str, list[Turn]], waiting: int) -> list[Row]:
    """Return rates compared with raw ASGI and the raw engine; of the engine, the p99 is not known."""

    def part(kind: str, what: Callable[[Turn], float]) -> list[float]:
        return [what(each) for each in turns[kind]]

    rate, p50, p99 = (
        {kind: part(kind, what) for kind in turns}
        for what in (lambda each: each.rate, lambda each: each.p50, lambda each: each.p99)
    )
    return [
        row(
            "P13",
            f"asked to told, {waiting} open; peer: SQLite",
            rate["durable"],
            unit="/s",
            limit=compare(rate["durable"], rate["raw"]),
            peer=compare(rate["durable"], rate["engine"]),
        ),
        row(
            "P13",
            "… p50",
            p50["durable"],
            limit=compare(p50["durable"], p50["raw"]),
            peer=compare(p50["durable"], p50["engine"]),
        ),
        row("P13", "… p99", p99["durable"], limit=compare(p99["durable"], p99["raw"])),
    ]


def fan_out(effort: Effort) -> list[Row]:
    """Fan one event out to very many subscribers, until the last one has it."""
    rows: list[Row] = []
    with serving("raw", "durable") as children:
        for way, name in WAYS.items():
            crowds = {kind: Listeners(child, LISTENERS, way=way) for kind, child in children.items()}
            seconds: dict[str, list[float]] = {kind: [] for kind in children}
            for _ in range(_rounds(effort)):
                for kind, crowd in crowds.items():
                    seconds[kind].append(median(crowd.publish() for _ in range(EVENTS)))
            for crowd in crowds.values():
                crowd.close()
            limit = compare(seconds["durable"], seconds["raw"], at_most(2))
            rows.append(row("P13", f"one event to {LISTENERS}, {name}", seconds["durable"], limit=limit))
        rows.append(_beside_non_readers(effort, children["durable"]))
    return rows


def _beside_non_readers(effort: Effort, child: Child) -> Row:
    """Compare with and without subscribers that never read; each turn is shorter than the hub's timeout for them."""
    alone: list[float] = []
    beside: list[float] = []
    for _ in range(max(2, _rounds(effort) // 2)):
        crowd = Listeners(child, LISTENERS, way="events")
        alone.append(median(crowd.publish() for _ in range(EVENTS)))
        crowd.close()
        silent = Listeners(child, NON_READERS, way="events", small_buffer=True)
        for _ in range(8):
            child.do("large", size=LARGE)
        crowd = Listeners(child, LISTENERS, way="events")
        beside.append(median(crowd.publish() for _ in range(EVENTS)))
        crowd.close()
        silent.close()
    limit = compare(beside, alone, at_most(1.25), least=True)
    return row("P13", f"… beside {NON_READERS} that never read", [min(beside)], limit=limit)


def hub_lag(effort: Effort) -> list[Row]:
    """Measure event loop lag of the servers, with very many requests open and some in flight."""
    seconds = 1 + effort.scale
    with serving("raw", "durable") as children:
        hub = children["durable"]
        hub.ask(PENDING)
        p99: dict[str, list[float]] = {"idle": [], "raw": [], "durable": []}
        worst: dict[str, list[float]] = {"idle": [], "raw": [], "durable": []}
        for _ in range(_rounds(effort)):
            for name, child, busy in (("idle", hub, False), *((kind, child, True) for kind, child in children.items())):
                found = _measure_lag(child, seconds, busy=busy)
                p99[name].append(found["p99"])
                worst[name].append(found["worst"])
    limit = compare(p99["durable"], p99["idle"], at_most(10), least=True)
    peer = compare(p99["durable"], p99["raw"], least=True)
    most, idle = max(worst["durable"]), max(worst["idle"])
    return [
        row("P15", "hub's p99 lag ÷ idle; peer: raw ASGI", [min(p99["durable"])], limit=limit, peer=peer),
        row("P15", "hub's worst lag ÷ idle", [most], limit=compare([most], [idle])),
    ]


def _measure_lag(child: Child, seconds: float, *, busy: bool) -> dict[str, float]:
    if not busy:
        return child.do("lag", seconds=seconds)
    trips = Trips(child, waiting=IN_FLIGHT, count=100_000)
    child.begin("lag", seconds=seconds)
    trips.run(seconds=seconds)
    return child.end()


def _rounds(effort: Effort) -> int:
    return max(3, effort.rounds // 3)


MEASUREMENTS = (answers, default_installation, round_trips, fan_out, hub_lag)
