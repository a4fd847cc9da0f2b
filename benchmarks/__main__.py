"""Command line of the benchmarks: `python3 dev.py bench`."""

from __future__ import annotations

import argparse
import asyncio
import inspect
import sys
from dataclasses import replace
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

from benchmarks import report
from benchmarks.timing import FULL, QUICK, Effort, forget_heap

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from benchmarks.rows import Row

    Measurement = Callable[[Effort], list[Row] | Awaitable[list[Row]]]

# `imports` first: it measures other processes, which leftovers of the other groups would disturb.
GROUPS = (
    "imports",
    "hot",
    "record",
    "roundtrip",
    "policy",
    "engines",
    "pydanticai",
    "fingerprint",
    "store",
    "database",
    "growth",
    "fleet",
    "wake",
    "pending",
    "lag",
    "hub",
)

FRAMEWORKS = (
    "google-adk",
    "langchain",
    "mcp",
    "openai-agents",
)  # groups that need something of their own, so they run only when they are named

EPILOG = """\
examples:
  python3 dev.py bench                 everything, some minutes; run it on a quiet machine
  python3 dev.py bench hot store       only these groups
  python3 dev.py bench --quick         everything, roughly

how to read the table:
  limit     the least work that could do the job, written in the benchmark: a floor, not a competitor
  peer      what people use today, or the way they do it today
  ÷ limit   ours as a multiple of the limit: the middle of all rounds [the middle half of them]
  goals     what ÷ limit and ÷ peer should be, from docs/performance.md
  ²         measured a second time, because the first time missed its goal

Only ratios count: all contenders take turns in one process, and times move with the machine.
"""


def main() -> None:
    """Measure, show every row as it comes, and write the results."""
    arguments = _parser().parse_args()
    effort = QUICK if arguments.quick else FULL
    print(f"{report.machine()}\n\n{report.HEADING}")
    rows: list[Row] = []
    for name in arguments.groups or GROUPS:
        print(f"── {name} " + "─" * (95 - len(name)), flush=True)
        for found in _measure_group(import_module(f"benchmarks.{name.replace('-', '_')}"), effort):
            print(report.line(found), flush=True)
            rows.append(found)
    missed = [each for each in rows if each.ok is False]
    framework = next((name for name in arguments.groups if name in FRAMEWORKS), None)  # has no library that draws
    files = report.write(rows, quick=arguments.quick, name=framework or "results", drawn=framework is None)
    print(f"\n{len(rows)} rows, {len(missed)} missed their goal. Written: {', '.join(map(str, files))}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python3 dev.py bench",
        description="Measure sayso beside the least work that could do the job, and beside its peers.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("groups", nargs="*", metavar="GROUP", help=f"one of: {', '.join((*GROUPS, *FRAMEWORKS))}")
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds; noisier")
    unknown = [name for name in parser.parse_args().groups if name not in GROUPS + FRAMEWORKS]
    if unknown:
        parser.error(f"there is no group {unknown[0]!r}; choose from {', '.join(GROUPS + FRAMEWORKS)}")
    return parser


def _measure_group(group: ModuleType, effort: Effort) -> Iterator[Row]:
    for measurement in group.MEASUREMENTS:
        yield from _with_retry(measurement, effort)


def _with_retry(measurement: Measurement, effort: Effort) -> list[Row]:
    """Measure; if a goal is missed, measure once more, because the machine may have been busy."""
    first = _run_once(measurement, effort)
    if all(row.ok is not False for row in first):
        return first
    second = _run_once(measurement, effort)
    return [
        replace(again, retried=True) if before.ok is False else before
        for before, again in zip(first, second, strict=True)
    ]


def _run_once(measurement: Measurement, effort: Effort) -> list[Row]:
    forget_heap()
    rows = measurement(effort)
    return asyncio.run(_await(rows)) if inspect.isawaitable(rows) else rows


async def _await(rows: Awaitable[list[Row]]) -> list[Row]:
    return await rows


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
