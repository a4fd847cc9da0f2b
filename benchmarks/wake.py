"""P11: wake-up latency: another process on the same machine answers, and the waiter resumes without polling."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import median

from benchmarks import report
from benchmarks.rawsqlite import STATUS, UPDATE, RawStore, connect
from benchmarks.rows import Row, at_most, compare, row
from benchmarks.store import YES, request
from benchmarks.timing import Effort
from sayso.core.msgpack_codec import pack_request
from sayso.stores.sqlite import SqliteStore

LEVEL = "NORMAL"
COUNT = 300
LOST = 3.0  # seconds, in which even the fallback poll has run
RoundTrip = Callable[[str], Awaitable[None]]


class Answerer:
    """Child process that answers, with a doorbell socket of its own."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.folder = folder
        self.bell = _bell(folder / "parent")
        command = [sys.executable, "-m", "benchmarks.wake", kind, str(folder)]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL)  # noqa: S603 - this very module

    async def ready(self) -> Answerer:
        await asyncio.get_running_loop().sock_recv(self.bell, 64)
        return self

    def ring(self, request_id: str) -> None:
        self.bell.sendto(request_id.encode(), str(self.folder / "child"))

    def stop(self) -> None:
        self.ring("stop")
        self.process.wait(timeout=10)
        self.bell.close()


def _bell(path: Path) -> socket.socket:
    bell = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    bell.bind(os.fspath(path))
    bell.settimeout(0)  # for the event loop
    return bell


def raw_round_trip(answerer: Answerer) -> RoundTrip:
    """Return the limit: a row, a ring, a changed row, a ring."""
    path = answerer.folder / "rows.db"
    store, connection = RawStore(path, synchronous=LEVEL), connect(path, LEVEL)
    body = pack_request(request("x"))
    loop = asyncio.get_running_loop()

    async def once(request_id: str) -> None:
        await store.open(request_id, body)
        answerer.ring(request_id)
        await loop.sock_recv(answerer.bell, 64)
        if connection.execute(STATUS, (request_id,)).fetchone() != ("approved",):
            raise AssertionError(request_id)

    return once


def our_round_trip(answerer: Answerer, store: SqliteStore) -> RoundTrip:
    """Return ours: the approver gets the id by a ring, too; the answer is delivered by sayso."""

    async def once(request_id: str) -> None:
        await store.open(request(request_id))
        answerer.ring(request_id)
        if (await store.closed(request_id)).status != "approved":
            raise AssertionError(request_id)

    return once


async def wake_up(effort: Effort) -> list[Row]:
    """Take turns between both, each with a child process of its own."""
    with report.scratch() as raw, report.scratch() as own:
        store = SqliteStore(Path(own) / "rows.db", synchronous=LEVEL)
        theirs, ours = Answerer("raw", Path(raw)), Answerer("ours", Path(own))
        once = {"limit": raw_round_trip(await theirs.ready()), "ours": our_round_trip(await ours.ready(), store)}
        numbers = itertools.count()
        p50: dict[str, list[float]] = {name: [] for name in once}
        lost = dict.fromkeys(once, 0)
        for _ in range(effort.rounds):
            for name, round_trip in once.items():
                seconds = [await _timed(round_trip, f"{next(numbers):032x}") for _ in range(effort.count(COUNT))]
                p50[name].append(median(seconds))
                lost[name] += sum(each > LOST for each in seconds)
        theirs.stop()
        ours.stop()
        await store.aclose()
    counted = (lost["limit"], 0.0)
    return [
        row("P11", "wake-up across processes, p50", p50["ours"], limit=compare(p50["ours"], p50["limit"], at_most(2))),
        Row(target="P11", what="… lost wake-ups", unit="", ours=lost["ours"], exact=not lost["ours"], counted=counted),
    ]


async def _timed(round_trip: RoundTrip, request_id: str) -> float:
    """Return the seconds of a round trip; a time-out means a lost wake-up."""
    start = time.perf_counter()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(LOST):
            await round_trip(request_id)
    return time.perf_counter() - start


def answer_raw(folder: Path) -> None:
    """Run the child process of the limit."""
    connection = connect(folder / "rows.db", LEVEL)
    bell = _bell(folder / "child")
    bell.settimeout(None)
    bell.sendto(b"ready", str(folder / "parent"))
    while (message := bell.recv(64)) != b"stop":
        connection.execute(UPDATE, (message.decode(),))
        bell.sendto(message, str(folder / "parent"))


async def answer_ours(folder: Path) -> None:
    """Run our child process: an approver with the same store."""
    store = SqliteStore(folder / "rows.db", synchronous=LEVEL)
    bell = _bell(folder / "child")
    loop = asyncio.get_running_loop()
    bell.sendto(b"ready", str(folder / "parent"))
    while (message := await loop.sock_recv(bell, 64)) != b"stop":
        await store.close(message.decode(), "approved", YES, now=time.time())
    await store.aclose()


MEASUREMENTS = (wake_up,)

if __name__ == "__main__":
    kind, place = sys.argv[1:]
    if kind == "raw":
        answer_raw(Path(place))
    else:
        asyncio.run(answer_ours(Path(place)))
