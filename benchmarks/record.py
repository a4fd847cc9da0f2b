"""P1, P7: the price of a record, in processor time: an allowed call with its two audit lines, beside raw ones.

The raw line does nothing but what the promise needs: the same bytes are encoded, chained by a hash, and inserted in
groups.
"""

from __future__ import annotations

import hashlib
import os
import resource
import sqlite3
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec

from benchmarks import report
from benchmarks.hot import ARGS, NAME, controller, write_file
from benchmarks.rows import Row, at_most, compare, row
from benchmarks.timing import Effort, Sample, interleave
from sayso import guard

_GROUP = 500  # lines in a commit, as the store's largest group
_ENCODER = msgspec.json.Encoder()
_POLICY = """\
default: required
tools:
  write_file: none
  read_*: none
  pay: {approval: required, when: {args.amount: {gt: 10}}}
shell:
  rules:
    - {pattern: git status, approval: none}
    - {pattern: ls, approval: none}
"""
_JUDGE = """\
from sayso import ToolCall, load_policy
load_policy({file!r}).judge(ToolCall(tool="write_file", args={{"path": "a.txt"}}))
"""


class RawLines:
    """Encodes, chains and inserts lines, and nothing else."""

    def __init__(self, file: Path, lines: list[Any]) -> None:
        self._connection = sqlite3.connect(file, isolation_level=None)
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = FULL")
        self._connection.execute("CREATE TABLE lines (number INTEGER PRIMARY KEY, line BLOB, hash TEXT)")
        self._lines, self._number, self._hash = lines, 0, "0" * 64
        self._group: list[tuple[int, bytes, str]] = []

    def add(self) -> None:
        """Write the lines of one call."""
        for each in self._lines:
            line = _ENCODER.encode(each)
            self._number += 1
            self._hash = hashlib.sha256(f"{self._hash}:{self._number}:".encode() + line).hexdigest()
            self._group.append((self._number, line, self._hash))
        if len(self._group) >= _GROUP:
            self._commit()

    async def flush(self) -> None:
        """Commit what is left."""
        self._commit()

    def _commit(self) -> None:
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.executemany("INSERT INTO lines VALUES (?, ?, ?)", self._group)
        self._connection.execute("COMMIT")
        self._group.clear()


def _processor_time(
    call: Callable[[], object], then: Callable[[], Awaitable[object]] | None = None, *, awaits: bool = False
) -> Sample:
    """Count the processor time of all threads of this process, until everything is written."""

    async def sample(count: int) -> float:
        start = time.process_time()
        for _ in range(count):
            done: Any = call()
            if awaits:
                await done
        if then is not None:
            await then()
        return time.process_time() - start

    return sample


def _looked_up() -> Callable[[], object]:
    rules = {NAME: "none"}

    async def call() -> None:
        if rules[NAME] == "none":
            await write_file(**ARGS)

    return call


def tool(path: str, text: str, mode: str) -> str:  # noqa: ARG001 - a minimal tool
    return "done"


async def sustained(effort: Effort) -> list[Row]:
    """P1: a guarded function that runs unasked, until both lines of its audit are in the file."""
    with report.scratch() as folder:
        ours = controller("none", Path(folder) / "ours.db")
        guarded = guard(tool, ours, name=NAME)
        guarded(**ARGS)
        await ours.flush()
        raw = RawLines(Path(folder) / "raw.db", [msgspec.json.decode(line) for _, line, _ in await ours.store.audit()])
        seconds = await interleave(
            {
                "ours": _processor_time(lambda: guarded(**ARGS), ours.flush),
                "raw": _processor_time(raw.add, raw.flush),
                "lookup": _processor_time(_looked_up(), awaits=True),
            },
            effort,
        )
        await ours.aclose()
    return [
        row(
            "P1",
            "CPU until written; peer: look-up",
            seconds["ours"],
            limit=compare(seconds["ours"], seconds["raw"], at_most(3)),
            peer=compare(seconds["ours"], seconds["lookup"], at_most(20)),
        )
    ]


def first_judgement(effort: Effort) -> list[Row]:
    """P7: a fresh process loads a policy file and judges one call; noise only adds, so the best of each is compared."""
    with report.scratch() as folder:
        file = Path(folder) / "sayso.yaml"
        file.write_text(_POLICY)
        turns = [
            [_child_time(statement) for statement in (_JUDGE.format(file=str(file)), "pass")]
            for _ in range(effort.rounds + 2)
        ]
    ours, bare = (list(each) for each in zip(*turns[1:], strict=True))
    return [
        row("P7", "CPU of a fresh process; limit: pass", [min(ours)], limit=compare(ours, bare, at_most(3), least=True))
    ]


def _child_time(statement: str) -> float:
    """Return the processor time of an interpreter that keeps its byte code, as an installed package has it."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", statement], check=True, env={**os.environ, "PYTHONDONTWRITEBYTECODE": ""})  # noqa: S603 - statements from above
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


MEASUREMENTS = (sustained, first_judgement)
