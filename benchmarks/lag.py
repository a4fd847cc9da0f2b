"""P15: event loop lag while very many requests are open and some are in flight."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

from benchmarks import report
from benchmarks.pending import POLICY, YES, call
from benchmarks.rawsqlite import RawStore
from benchmarks.roundtrip import Inbox
from benchmarks.rows import Row, at_most, compare, row
from benchmarks.store import ARGS
from benchmarks.timing import Effort, Lag, lag
from sayso import ApprovalController

PENDING = 10_000
IN_FLIGHT = 64
Work = Callable[[], Awaitable[object]]


@contextlib.asynccontextmanager
async def busy(work: Work | None) -> AsyncIterator[None]:
    """Keep the given number of round trips in flight."""
    end = asyncio.Event()

    async def forever() -> None:
        while work is not None and not end.is_set():
            await work()

    tasks = [asyncio.create_task(forever()) for _ in range(IN_FLIGHT)]
    yield
    end.set()
    await asyncio.gather(*tasks)


async def crowded(store: Path | None) -> tuple[ApprovalController, list[asyncio.Task[None]]]:
    """Return a controller with very many open requests, and the approvers for what comes after them."""
    inbox = Inbox()
    controller = ApprovalController(policy=POLICY, channels=[inbox], store=store)
    await asyncio.gather(*(controller.review(call()) for _ in range(PENDING)))
    for _ in range(PENDING):
        await inbox.asked.get()

    async def answer() -> None:
        while True:
            await controller.answer(await inbox.asked.get(), YES)

    return controller, [asyncio.create_task(answer()) for _ in range(IN_FLIGHT)]


def raw(store: RawStore) -> Work:
    """Return a round trip through the raw store: the cost of the machine itself."""
    body = repr(ARGS).encode()
    numbers = iter(range(10**9))

    async def once() -> None:
        request_id = str(next(numbers))
        await store.open(request_id, body)
        await store.close(request_id)

    return once


async def loop_lag(effort: Effort) -> list[Row]:
    """Take turns: idle, the raw store, ours in memory, ours in a file."""
    with report.scratch() as folder:
        memory, approvers = await crowded(None)
        file, file_approvers = await crowded(Path(folder) / "ours.db")
        limit = RawStore(Path(folder) / "raw.db", synchronous="FULL")
        works: dict[str, Work | None] = {
            "idle": None,
            "raw": raw(limit),
            "memory": lambda: memory.settle(call()),
            "file": lambda: file.settle(call()),
        }
        lags: dict[str, list[Lag]] = {name: [] for name in works}
        for _ in range(max(2, effort.rounds // 3)):
            for name, work in works.items():
                async with busy(work):
                    lags[name].append(await lag(1 + effort.scale))
                await file.flush()
        for task in [*approvers, *file_approvers]:
            task.cancel()
        await file.aclose()
        await limit.aclose()
    return [
        *_rows(lags, "memory", "in memory"),
        *_rows(lags, "file", "SQLite"),
        _rows(lags, "raw", "raw SQLite")[0],
    ]


def _rows(lags: dict[str, list[Lag]], name: str, what: str) -> list[Row]:
    """Compare the best rounds, as other load on the machine only adds; but report the worst moment, too."""
    p99 = {who: [each.p99 for each in found] for who, found in lags.items()}
    goal = None if name == "raw" else at_most(10)
    worst, idle = [max(each.worst for each in lags[who]) for who in (name, "idle")]
    return [
        row(
            "P15",
            f"p99 lag ÷ idle, {what}",
            [min(p99[name])],
            limit=compare(p99[name], p99["idle"], goal, least=True),
            peer=compare(p99[name], p99["raw"], least=True),
        ),
        row("P15", f"worst lag ÷ idle, {what}", [worst], limit=compare([worst], [idle])),
    ]


MEASUREMENTS = (loop_lag,)
