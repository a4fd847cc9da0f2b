"""The processes that test_crash.py kills: each resumes a parked run, and dies at the statement that it is told.

A step is the moment before or after any SQL statement that changes the store, or the tool's effect.
"""

import asyncio
import os
import signal
import sqlite3
import threading
from pathlib import Path
from typing import Any

from tests.children import serve_crashes

steps: list[str] = []
fatal = 0
lock = threading.Lock()


def step(name: str) -> None:
    with lock:
        steps.append(name)
        if len(steps) == fatal:
            os.kill(os.getpid(), signal.SIGKILL)


class Mortal(sqlite3.Connection):
    """A connection that counts the statements that change something."""

    def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
        changes = not sql.startswith(("SELECT", "PRAGMA", "BEGIN"))
        if changes:
            step(f"before {sql}")
        try:
            return super().execute(sql, *values)
        finally:
            if changes:
                step(f"after {sql}")


_connect = sqlite3.connect


def connect(*args: Any, **kwargs: Any) -> sqlite3.Connection:
    return _connect(*args, factory=Mortal, **kwargs)


sqlite3.connect = connect  # type: ignore[assignment]

from tests.adapters.pydantic_ai.crash_agent import FILE, cashier, controller_at  # noqa: E402

from sayso import ApprovalDecision  # noqa: E402
from sayso.adapters.pydantic_ai import park, resume  # noqa: E402


async def work() -> None:
    global fatal  # noqa: PLW0603 - one process, one end
    limit, fatal = fatal, 0
    async with controller_at(FILE) as controller:
        parked = await park(await cashier(controller, step).run("go"), controller)
        for request in await controller.pending():
            await controller.answer(request.id, ApprovalDecision(approved=True))
        Path("parked").write_text(parked, encoding="utf-8")
        steps.clear()
        fatal = limit
        await resume(cashier(controller, step), parked, controller=controller)
        step("returned")
        fatal = 0  # what follows is the end of the process, not of the run


def live(until: int) -> None:
    global fatal  # noqa: PLW0603 - as above
    fatal = until
    asyncio.run(work())
    Path("steps").write_text("\n".join(name.replace("\n", " ") for name in steps), encoding="utf-8")


if __name__ == "__main__":
    serve_crashes(live)
