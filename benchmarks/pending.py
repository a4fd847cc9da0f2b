"""P12: cost of a pending request: memory, bytes on disk, and time with very many pending."""

from __future__ import annotations

import asyncio
import gc
import json
import time
import tracemalloc
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from benchmarks import report
from benchmarks.rawsqlite import connect
from benchmarks.roundtrip import Inbox
from benchmarks.rows import Row, at_most, compare, row
from benchmarks.timing import Effort
from sayso import ApprovalController, ApprovalDecision, Policy, ToolCall

ARGS_JSON = json.dumps({"path": "reports/2026/summary.txt", "text": "some text, " * 17, "mode": "append"})
POLICY = Policy({"write_file": "required"})
YES = ApprovalDecision(approved=True)
Hold = Callable[[int], Awaitable[object]]  # make that many wait; return the object that holds them


def call() -> ToolCall:
    """Return a call with arguments of its own, as a model sends them."""
    return ToolCall(tool="write_file", args=json.loads(ARGS_JSON))


def record(number: int) -> tuple[str, dict[str, Any]]:
    """Return the lower bound of a pending request."""
    return f"{number:032x}", {"tool": "write_file", "args": json.loads(ARGS_JSON), "status": "open"}


async def hold_records(count: int) -> object:
    loop = asyncio.get_running_loop()
    return {key: (kept, loop.create_future()) for key, kept in map(record, range(count))}


async def hold_tasks(count: int) -> object:
    held = await hold_records(count)

    async def wait(future: asyncio.Future[None]) -> None:
        await future

    tasks = [asyncio.create_task(wait(future)) for _, future in held.values()]  # type: ignore[attr-defined]
    await asyncio.sleep(0)
    return held, tasks


async def hold_ours(count: int) -> object:
    controller = ApprovalController(policy=POLICY, channels=[Inbox()])
    for _ in range(count):
        await controller.review(call())
    await asyncio.sleep(0.01)  # until every channel has announced, and its task has ended
    return controller


async def waiting(count: int) -> tuple[ApprovalController, list[str], list[asyncio.Task[Any]]]:
    """Start `count` calls that wait for their answer, each in a task; return controller, request ids and tasks."""
    inbox = Inbox()
    controller = ApprovalController(policy=POLICY, channels=[inbox])
    tasks = [asyncio.create_task(controller.settle(call())) for _ in range(count)]
    ids = [await inbox.asked.get() for _ in range(count)]
    await asyncio.sleep(0.01)  # as above
    return controller, ids, tasks


async def _bytes_each(hold: Hold, count: int) -> float:
    held = await hold(10)  # one-time allocations are not counted
    await _release()
    gc.collect()
    tracemalloc.start()
    held = await hold(count)
    gc.collect()
    size = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    await _release()
    del held
    return size / count


async def _release() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def memory(effort: Effort) -> list[Row]:
    """Count bytes; one round is enough, as nothing is random."""
    count = effort.count(5_000)
    ours, limit = [await _bytes_each(hold_ours, count)], [await _bytes_each(hold_records, count)]
    tasks, limit_tasks = [await _bytes_each(waiting, count)], [await _bytes_each(hold_tasks, count)]
    return [
        row("P12", "open request ÷ record + future", ours, unit="B", limit=compare(ours, limit, at_most(2.5))),
        row("P12", "… and a task that waits for it", tasks, unit="B", limit=compare(tasks, limit_tasks, at_most(2.5))),
    ]


async def hold_and_drain(count: int) -> tuple[float, float]:
    """Return the seconds per request to let that many wait, and to answer them all."""
    start = time.perf_counter()
    controller, ids, tasks = await waiting(count)
    held = time.perf_counter()
    for each in ids:
        await controller.answer(each, YES)
        await asyncio.sleep(0)  # as with answers that come over a connection
    outcomes = await asyncio.gather(*tasks)
    drained = time.perf_counter()
    if {type(outcome).__name__ for outcome in outcomes} != {"Approved"}:
        raise AssertionError("an approved call was not let run")
    return (held - start) / count, (drained - held) / count


async def many(effort: Effort) -> list[Row]:
    """Compare the cost of each of very many with the cost of each of a tenth."""
    most = effort.count(100_000)
    few: list[tuple[float, float]] = []
    lots: list[tuple[float, float]] = []
    for _ in range(2):
        few.append(await hold_and_drain(most // 10))
        lots.append(await hold_and_drain(most))
    sizes = f"{most // 1000}k ÷ {most // 10_000}k"
    (held, drained), (few_held, few_drained) = zip(*lots, strict=True), zip(*few, strict=True)
    return [
        row("P12", f"hold, each of {sizes}", held, limit=compare(held, few_held, at_most(1.5))),
        row("P12", f"answer, each of {sizes}", drained, limit=compare(drained, few_drained, at_most(1.5))),
    ]


async def on_disk(effort: Effort) -> list[Row]:
    """Weigh the stored row, and the file with its audit."""
    count = effort.count(2_000)
    args = len(ARGS_JSON)
    with report.scratch() as folder:
        path = Path(folder) / "rows.db"
        controller = ApprovalController(policy=POLICY, store=path)
        await asyncio.gather(*(controller.review(call()) for _ in range(count)))
        await controller.aclose()
        file = connect(path, "NORMAL")
        lengths = "length(id) + length(session) + length(call_id) + length(status) + 8 + length(packed)"
        stored = file.execute(f"SELECT avg({lengths}) FROM requests").fetchone()[0]  # noqa: S608 - from above
        file.close()
        whole = path.stat().st_size / count
    return [
        row(
            "P12", "stored row ÷ (1 kB + args)", [stored], unit="B", limit=compare([stored], [1_000 + args], at_most(1))
        ),
        row("P12", "file per request, with audit", [whole], unit="B", limit=compare([whole], [1_000 + args])),
    ]


MEASUREMENTS = (memory, many, on_disk)
