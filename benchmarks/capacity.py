"""Capacity of one PostgreSQL: a repeatable queueing simulation of its lock row, from service times measured here.

`python -m benchmarks.capacity` measures and simulates; `--fixed MS --request US --line US` simulates other figures.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import time
from dataclasses import dataclass, field
from heapq import heappop, heappush
from statistics import mean, median, quantiles

from tests.postgres import running

from benchmarks import report
from benchmarks.store import YES, request
from sayso import ToolCall
from sayso.core.model import AuditEntry, new_id
from sayso.stores.postgres import PostgresStore

SEED, SECONDS = 9, 20.0
LARGEST_GROUP = 1000
WRITES, LINES = (
    4,
    2,
)  # writes of an asked call: open, close, claim, result; lines of an allowed one: allowed, result
LOADS = (1_000, 10_000, 30_000, 100_000, 300_000)
HUBS = (2, 20, 100)
MEASURED = 512


@dataclass(frozen=True, kw_only=True)
class Costs:
    """Service time of a batch, for which it holds the row lock: fixed, and for each request or line in it."""

    fixed: float
    request: float
    line: float

    def of_writes(self, requests: float, lines: float) -> float:
        return requests * self.request + lines * self.line


@dataclass(frozen=True, kw_only=True)
class Load:
    """Load: the number of agents, and the calls of each in an hour."""

    agents: int
    asked: float = 6.0
    allowed: float = 120.0

    @property
    def requests(self) -> float:
        """Synchronous writes per second."""
        return self.agents * self.asked * WRITES / 3600

    @property
    def lines(self) -> float:
        """Asynchronous audit lines per second."""
        return self.agents * self.allowed * LINES / 3600


@dataclass
class Hub:
    """Queue of one hub: the writes since its last batch."""

    arrivals: list[float] = field(default_factory=list[float])
    lines: int = 0
    is_writing: bool = False

    def gather(self) -> tuple[list[float], int]:
        """Take a batch from the queue."""
        batch, self.arrivals = self.arrivals[:LARGEST_GROUP], self.arrivals[LARGEST_GROUP:]
        lines = min(self.lines, LARGEST_GROUP - len(batch))
        self.lines -= lines
        self.is_writing = True
        return batch, lines


@dataclass
class Order:
    """The row lock, held by the writing hub: a FIFO queue of batches."""

    costs: Costs
    free: float = 0.0
    busy: float = 0.0
    groups: list[int] = field(default_factory=list[int])
    ends: list[tuple[float, int, Hub, list[float]]] = field(default_factory=list[tuple[float, int, Hub, list[float]]])

    def write_batch(self, now: float, hub: Hub) -> None:
        """Let a hub write its batch, once it has the lock."""
        group, lines = hub.gather()
        seconds = self.costs.fixed + self.costs.of_writes(len(group), lines)
        self.free = max(self.free, now) + seconds
        self.busy += seconds
        self.groups.append(len(group) + lines)
        heappush(self.ends, (self.free, len(self.groups), hub, group))


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Result of a simulation: utilisation of the lock, batch size, and latency of a write."""

    busy: float
    group: float
    p50: float
    p99: float


def simulate(costs: Costs, load: Load, hubs: int, *, seed: int = SEED) -> Outcome:
    """Simulate random arrivals at any hub; each hub gathers a batch, waits for the lock, and holds it."""
    chance = random.Random(seed)  # noqa: S311 - a repeatable simulation
    places, order, took = [Hub() for _ in range(hubs)], Order(costs), list[float]()
    rate = load.requests + load.lines
    coming = chance.expovariate(rate)
    while coming < SECONDS:
        if order.ends and order.ends[0][0] <= coming:
            now, _, hub, group = heappop(order.ends)
            took += [now - arrival for arrival in group]
            hub.is_writing = False
        else:
            now, hub = coming, chance.choice(places)
            coming += chance.expovariate(rate)
            if chance.random() * rate < load.requests:
                hub.arrivals.append(now)
            else:
                hub.lines += 1
        if not hub.is_writing and (hub.arrivals or hub.lines):
            order.write_batch(now, hub)
    busy = min(1.0, order.busy / SECONDS)
    return Outcome(busy=busy, group=mean(order.groups), p50=median(took), p99=quantiles(took, n=100)[98])


async def measure() -> Costs:
    """Measure batches of one and of many on a server that syncs to the disk of the checkout."""
    report.RESULTS.mkdir(exist_ok=True)
    with running(durable=True, where=report.RESULTS) as server:
        server.make_template()
        store = PostgresStore(server.database())
        one = [await _time_open_and_close(store, 1) for _ in range(40)]
        many = [await _time_open_and_close(store, MEASURED) for _ in range(10)]
        lines = [await _time_recording(store, MEASURED) for _ in range(10)]
        await store.aclose()
    fixed = median(one)
    return Costs(fixed=fixed, request=(median(many) - fixed) / (2 * MEASURED), line=(median(lines) - fixed) / MEASURED)


async def _time_open_and_close(store: PostgresStore, count: int) -> float:
    """Return the seconds to open and to close `count` requests, as one batch each; per batch for a count of one."""
    made = [request(new_id()) for _ in range(count)]
    began = time.perf_counter()
    await asyncio.gather(*(store.open(each) for each in made))
    opened = time.perf_counter() - began
    await asyncio.gather(*(store.close(each.id, "approved", YES, now=1.0) for each in made))
    return opened if count == 1 else time.perf_counter() - began


async def _time_recording(store: PostgresStore, count: int) -> float:
    entry = AuditEntry(at=1.0, step="allowed", about=ToolCall(tool="read", args={"path": "reports/2026/summary.txt"}))
    began = time.perf_counter()
    for _ in range(count):
        store.record(entry)
    await store.flush()
    return time.perf_counter() - began


def main() -> None:
    """Measure, unless figures are given, and print the simulated capacity."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.capacity", description=__doc__)
    parser.add_argument("--fixed", type=float, metavar="MS", help="milliseconds of an empty group")
    parser.add_argument("--request", type=float, metavar="US", help="microseconds of each write of a request")
    parser.add_argument("--line", type=float, metavar="US", help="microseconds of each line of the audit")
    options = parser.parse_args()
    if options.fixed is None:
        costs = asyncio.run(measure())
    else:
        costs = Costs(fixed=options.fixed / 1e3, request=options.request / 1e6, line=options.line / 1e6)
    print(
        f"a group: {costs.fixed * 1e3:.2f} ms, {costs.request * 1e6:.0f} µs a request, {costs.line * 1e6:.0f} µs a line"
    )
    print("agents  hubs  writes/s  lines/s   work   busy  group       p50       p99")
    for agents in LOADS:
        load = Load(agents=agents)
        for hubs in HUBS:
            print(f"{agents:6} {hubs:5} {load.requests:9.0f} {load.lines:8.0f} {_format_result(costs, load, hubs)}")


def _format_result(costs: Costs, load: Load, hubs: int) -> str:
    work = costs.of_writes(load.requests, load.lines)  # seconds of work per second, for any batch size
    if work >= 1:
        return f"{work:6.0%}   more than one server can do"
    done = simulate(costs, load, hubs)
    return f"{work:6.0%} {done.busy:6.0%} {done.group:6.1f} {done.p50 * 1e3:6.0f} ms {done.p99 * 1e3:6.0f} ms"


if __name__ == "__main__":
    main()
