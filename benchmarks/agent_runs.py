"""Rows of P4 and P6 that every agent framework has: a run of 20 calls, and a run that stops and goes on.

Processor time is measured, which other work disturbs least; it has that of all threads, so also that of the audit.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from benchmarks.rows import Row, at_most, compare, row
from benchmarks.timing import Effort, Sample, interleave, minus

CALLS = 20  # of the tool `write_file`, one in each response of the model
_MOST_RUNS = 20  # in one turn

Run = Callable[[], object]


def write_file(path: str) -> str:  # noqa: ARG001 - a minimal tool
    """Write a file."""
    return "written"


async def compare_runs(
    framework: str, effort: Effort, *, ungated: Run, ours: Run, empty: Run, theirs: Run, peer: str
) -> list[Row]:
    """P4: calls that run unasked, with the audit in a SQLite file; `empty` has hooks of the same kinds that do nothing.

    The framework's own price for such hooks is what no adapter can go below.
    """
    seconds = await _measure({"ungated": ungated, "ours": ours, "empty": empty, "theirs": theirs}, effort)
    what = f"{framework}, {CALLS} calls; limit: "
    return [
        row(
            "P4",
            f"{what}ungated; peer: {peer}",
            seconds["ours"],
            limit=compare(seconds["ours"], seconds["ungated"], at_most(1.10)),
            peer=compare(seconds["ours"], seconds["theirs"], at_most(1)),
        ),
        row("P4", f"{what}empty hooks", seconds["ours"], limit=compare(seconds["ours"], seconds["empty"])),
    ]


async def compare_stops(
    framework: str, effort: Effort, *, ungated: Run, ours: Run, theirs: Run, limit: str, goal: float = 0.5
) -> list[Row]:
    """P6: what sayso adds to the framework's own stop for an answer, and to going on after it."""
    seconds = await _measure({"ungated": ungated, "ours": ours, "theirs": theirs}, effort)
    added, own = minus(seconds["ours"], seconds["theirs"]), minus(seconds["theirs"], seconds["ungated"])
    what = f"{framework}, stop and go on: what sayso adds; limit: what {limit} adds"
    return [row("P6", what, added, limit=compare(added, own, at_most(goal)))]


async def _measure(runs: dict[str, Run], effort: Effort) -> dict[str, list[float]]:
    return await interleave({name: _repeat(run) for name, run in runs.items()}, effort, most=_MOST_RUNS)


def _repeat(run: Run) -> Sample:
    def sample(count: int) -> float:
        begin = time.process_time()
        for _ in range(count):
            run()
        return time.process_time() - begin

    return lambda count: asyncio.to_thread(sample, count)  # off the loop, as synchronous callers are
