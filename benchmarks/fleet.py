"""P10: 1,024 waiting agents in four processes and two answering hubs on one PostgreSQL, against raw rows."""

from __future__ import annotations

import asyncio
import multiprocessing
import time
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from statistics import quantiles
from typing import Any, Literal

from tests.postgres import Postgres, free_port, running

from benchmarks import report
from benchmarks.rawpostgres import CLOSED, OPEN, RawFar
from benchmarks.rows import Row, at_least, compare, row
from benchmarks.store import YES, request
from benchmarks.timing import Effort
from sayso.core import tokens
from sayso.core.model import new_id
from sayso.core.msgpack_codec import pack_request
from sayso.server.app import create_app
from sayso.server.hub import Hub
from sayso.server.serve import bind, create_server
from sayso.stores.postgres import PostgresStore
from sayso.stores.remote import RemoteStore

PROCESSES, HUBS, WAITING = 4, 2, 1024
COUNT = 8_000  # round trips of a turn, by all processes
Way = Literal["limit", "ours", "through hubs"]

_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["benchmarks.fleet"])


@dataclass(frozen=True, kw_only=True)
class Part:
    """Task of one process."""

    way: Way
    url: str  # of the database
    number: int
    port: int = 0  # of its hub
    token: str = ""


@dataclass(frozen=True)
class Turn:
    """Result of one turn."""

    rate: float
    p99: float


# The agents.


async def ask(part: Part, pipe: Connection) -> None:
    """Do the commanded number of round trips, turn after turn, and report the latencies."""
    once, follow = await _asker(part)
    following = asyncio.ensure_future(follow)
    pipe.send(None)
    while not following.done():
        count = await asyncio.to_thread(pipe.recv)
        left = iter(range(count))
        seconds: list[float] = []

        async def work(left: Any = left, seconds: list[float] = seconds) -> None:  # noqa: ANN401 - shared by all
            for _ in left:
                began = time.perf_counter()
                await once(new_id())
                seconds.append(time.perf_counter() - began)

        await asyncio.gather(*(work() for _ in range(WAITING // PROCESSES)))
        pipe.send(seconds)


async def _asker(part: Part) -> tuple[Callable[[str], Awaitable[object]], Any]:
    if part.way == "limit":
        raw = await RawFar.at(part.url)
        await raw.listen(part.url, CLOSED)
        body = pack_request(request(new_id()))

        async def once(request_id: str) -> None:
            await raw.open(request_id, body)
            await raw.closed(request_id)

        return once, raw.follow()
    store: PostgresStore | RemoteStore = (
        await asyncio.to_thread(RemoteStore, f"http://127.0.0.1:{part.port}", token=part.token)
        if part.way == "through hubs"
        else await asyncio.to_thread(PostgresStore, part.url)
    )

    async def ours(request_id: str) -> None:
        await store.open(request(request_id))
        await store.closed(request_id)

    return ours, asyncio.Event().wait()


# The approvers.


async def answer(part: Part, pipe: Connection) -> None:
    """Answer every second row, until this process is killed."""
    await (_answer_rows(part, pipe) if part.way == "limit" else _answer_requests(part, pipe))


async def _answer_rows(part: Part, pipe: Connection) -> None:
    raw = await RawFar.at(part.url)
    await raw.listen(part.url, OPEN)
    pipe.send(None)
    while True:
        await asyncio.gather(*(raw.close(each) for each in await raw.news(part.number)))


async def _answer_requests(part: Part, pipe: Connection) -> None:
    """Run a hub with an approver that answers at once; the cost of a browser is not measured here."""
    store = await asyncio.to_thread(PostgresStore, part.url)
    hub = Hub(store)
    serving = asyncio.create_task(create_server(create_app(hub), hub).serve(sockets=[bind("127.0.0.1", part.port)]))
    point, _ = await store.changes()
    pipe.send(None)
    answering: set[asyncio.Task[object]] = set()
    while not serving.done():
        await store.changed(point)
        point, found = await store.changes(point)
        for each in found:
            if each.status == "open" and int(each.id, 36) % HUBS == part.number:
                task = asyncio.create_task(hub.controller.answer(each.id, YES, who="ann"))
                answering.add(task)
                task.add_done_callback(answering.discard)


# All processes.


def run_role(role: Callable[[Part, Connection], Any], part: Part, pipe: Connection) -> None:
    """Run one of the processes."""
    asyncio.run(role(part, pipe))


class Fleet:
    """All processes of one contender."""

    def __init__(self, way: Way, server: Postgres) -> None:
        url = server.database("template0" if way == "limit" else "template_sayso")
        ports = [free_port() for _ in range(HUBS)]
        texts = asyncio.run(_tokens(url)) if way == "through hubs" else [""] * PROCESSES
        self._processes: list[Any] = []
        self._hubs = [self._start(answer, Part(way=way, url=url, number=i, port=ports[i])) for i in range(HUBS)]
        self._agents = [
            self._start(ask, Part(way=way, url=url, number=i, port=ports[i % HUBS], token=texts[i]))
            for i in range(PROCESSES)
        ]

    def _start(self, role: Callable[[Part, Connection], Any], part: Part) -> Connection:
        here, there = _FORKS.Pipe()
        process = _FORKS.Process(target=run_role, args=(role, part, there))
        process.start()
        self._processes.append(process)
        here.recv()
        return here

    def turn(self, count: int) -> Turn:
        began = time.perf_counter()
        for each in self._agents:
            each.send(count // PROCESSES)
        seconds = [one for each in self._agents for one in each.recv()]
        return Turn(len(seconds) / (time.perf_counter() - began), quantiles(seconds, n=100)[-1])

    def stop(self) -> None:
        for process in reversed(self._processes):  # agents first: they would report that their hub is gone
            process.kill()
            process.join()


async def _tokens(url: str) -> list[str]:
    """Create a token for each process of agents."""
    store = await asyncio.to_thread(PostgresStore, url)
    made = [tokens.make("agent", f"agent-{number}", now=time.time()) for number in range(PROCESSES)]
    for token, _ in made:
        await store.add_token(token)
    await store.aclose()
    return [text for _, text in made]


@contextmanager
def fleets() -> Generator[dict[Way, Fleet]]:
    """Start every contender, each on a database of its own, of one server that syncs to the disk."""
    report.RESULTS.mkdir(exist_ok=True)
    with running(durable=True, where=report.RESULTS) as server:
        server.make_template()
        ways: tuple[Way, ...] = ("limit", "ours", "through hubs")
        found: dict[Way, Fleet] = {way: Fleet(way, server) for way in ways}
        try:
            yield found
        finally:
            for each in found.values():
                each.stop()


def many_machines(effort: Effort) -> list[Row]:
    """Measure all of them, turn by turn."""
    with fleets() as found:
        turns: dict[Way, list[Turn]] = {way: [] for way in found}
        for _ in range(max(3, effort.rounds // 3)):
            for way, fleet in found.items():
                turns[way].append(fleet.turn(max(WAITING, effort.count(COUNT))))
    limit = turns["limit"]
    rows: list[Row] = []
    measured: tuple[tuple[Way, str, Any], ...] = (
        ("ours", "4 processes", at_least(0.4)),
        ("through hubs", "over 2 hubs", None),
    )
    for way, what, goal in measured:
        ours = turns[way]
        rates, latencies = [each.rate for each in ours], [each.p99 for each in ours]
        raw, raw_latencies = [each.rate for each in limit], [each.p99 for each in limit]
        rows += [
            row("P10", f"{WAITING} waiting, {what}", rates, unit="/s", limit=compare(rates, raw, goal)),
            row("P10", f"p99 of these, {what}", latencies, limit=compare(latencies, raw_latencies)),
        ]
    return rows


MEASUREMENTS = (many_machines,)
