"""The processes that test_crash.py kills: each pays once, with approval, and dies at the step that it is told.

A step is a hook of the controller, the moment before or after the tool's effect, or the moment before or after any
SQL statement of the store.
"""

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
    if threading.current_thread().name == "sayso-doorbell":
        return  # only reads, whenever the bell rings: no step of the call
    with lock:
        steps.append(name)
        if len(steps) == fatal:
            os.kill(os.getpid(), signal.SIGKILL)


class Mortal(sqlite3.Connection):
    """A connection that counts its statements."""

    def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
        step(f"before {sql}")
        try:
            return super().execute(sql, *values)
        finally:
            step(f"after {sql}")

    def executemany(self, sql: str, values: Any) -> sqlite3.Cursor:
        step(f"before {sql}")
        try:
            return super().executemany(sql, values)
        finally:
            step(f"after {sql}")


_connect = sqlite3.connect


def connect(*args: Any, **kwargs: Any) -> sqlite3.Connection:
    return _connect(*args, factory=Mortal, **kwargs)


sqlite3.connect = connect  # type: ignore[assignment]

from sayso import ApprovalController, ApprovalDecision, ApprovalRequest, requires_approval  # noqa: E402


@requires_approval
def pay(amount: int) -> str:
    step("before the effect")
    with Path("effects").open("a", encoding="utf-8") as effects:
        effects.write(f"paid {amount}\n")
        effects.flush()
        os.fsync(effects.fileno())
    step("after the effect")
    return "paid"


def yes(request: ApprovalRequest) -> ApprovalDecision:
    step("asked")
    return ApprovalDecision(approved=True, who="ann")


def live(until: int) -> None:
    global fatal  # noqa: PLW0603 - one process, one end
    fatal = until
    controller = ApprovalController(
        approval_callback=yes, store="sayso.db", session="s1", hooks=[lambda entry: step(f"hook {entry.step}")]
    )
    with controller.activated():
        pay(5)
    step("returned")
    fatal = 0  # what follows is the end of the process, not of the call
    Path("steps").write_text("\n".join(name.replace("\n", " ") for name in steps), encoding="utf-8")


if __name__ == "__main__":
    serve_crashes(live)
