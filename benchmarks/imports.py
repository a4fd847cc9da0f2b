"""P14: start-up time of `import sayso` and `sayso --help` in a fresh interpreter, over a bare one."""

from __future__ import annotations

import os
import subprocess
import sys
import time

from benchmarks import report
from benchmarks.rows import Goal, Row, at_most, compare, row
from benchmarks.timing import Effort

STATEMENTS = {
    "bare": "pass",
    "limit": "import asyncio, sqlite3, msgspec",
    "package": "import sayso",
    "working": "from sayso import ApprovalController, requires_approval",
    "sqlite": "from sayso import ApprovalController; from sayso.stores.sqlite import SqliteStore",
    "peer": "import pydantic_ai",
    "help": "import sys; sys.argv[1:] = ['--help']; from sayso.__main__ import main; main()",
    "click": "import click; click.Group('sayso', commands=[click.Command('init')]).main(['--help'])",
}


def loading(effort: Effort) -> list[Row]:
    """Start interpreters in turns; noise only adds, so the best of each is compared."""
    seconds: dict[str, list[float]] = {name: [] for name in STATEMENTS}
    with report.scratch() as compiled:
        for _ in range(effort.rounds + 1):
            for name, statement in STATEMENTS.items():
                seconds[name].append(_time_interpreter(statement, compiled))
    bare = min(seconds["bare"][1:])  # the first round wrote the byte code
    over = {name: [each - bare for each in found[1:]] for name, found in seconds.items()}
    return [
        _row(over, "package", "import sayso", at_most(1.5)),
        _row(over, "working", "… controller, requires_approval", at_most(1.5)),
        _row(over, "sqlite", "… controller, SQLite store", at_most(1.5)),
        row(
            "P14",
            "sayso --help; peer: click alone",
            [min(over["help"])],
            limit=compare(over["help"], over["limit"], at_most(2), least=True),
            peer=compare(over["help"], over["click"], least=True),
        ),
    ]


def _time_interpreter(statement: str, compiled: str) -> float:
    """Return the seconds of an interpreter that keeps its byte code, as an installed package has it, in that folder."""
    settings = {**os.environ, "PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": compiled}
    start = time.perf_counter()
    command = [sys.executable, "-c", statement]
    subprocess.run(command, check=True, env=settings, stdout=subprocess.DEVNULL)  # noqa: S603 - statements from above
    return time.perf_counter() - start


def _row(over: dict[str, list[float]], name: str, what: str, goal: Goal) -> Row:
    ours = over[name]
    return row(
        "P14",
        what,
        [min(ours)],
        limit=compare(ours, over["limit"], goal, least=True),
        peer=compare(ours, over["peer"], at_most(1 / 6), least=True),
    )


MEASUREMENTS = (loading,)
