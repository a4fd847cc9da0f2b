"""The processes that test_crash.py kills: each writes one file, with approval, and dies before its Nth step of that.

A step is a call of the operating system by the modules that write.
"""

import os
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Any

from tests.children import serve_crashes

from sayso import ApprovalController, ApprovalDecision, Policy
from sayso.tools.files import FileTools

MODULES = ("atomic_write.py", "directory.py", "openat.py")
CALLS = {"open", "write", "fsync", "rename", "link", "unlink", "fchmod", "fchown", "flock", "close", "lstat", "fstat"}
fatal = 0
steps = 0
wrote = False


def watch(frame: FrameType, event: str, argument: Any) -> None:
    global steps, wrote  # noqa: PLW0603 - one process, one count
    name = getattr(argument, "__name__", "")
    if event != "c_call" or not frame.f_code.co_filename.endswith(MODULES) or name not in CALLS:
        return
    wrote = wrote or name == "write"
    steps += 1
    if steps == fatal:
        os.kill(os.getpid(), signal.SIGKILL)


def live(until: int) -> None:
    global fatal  # noqa: PLW0603 - one process, one end
    fatal = until
    policy = Policy.from_dict({"default": "blocked", "sandbox": {"zones": {"w": {"root": "w"}}}}, base=Path.cwd())
    controller = ApprovalController(
        policy=policy, approval_callback=lambda _: ApprovalDecision(approved=True, who="ann"), store="state.db"
    )
    with FileTools(policy) as files, controller.activated():
        tool = files.functions[1]
        sys.setprofile(watch)  # of this thread, in which the tool runs: the preview has one of its own
        tool("/w/a.txt", "NEW" * 10_000)
        sys.setprofile(None)
    controller.close()
    assert wrote
    Path("steps").write_text(str(steps), encoding="utf-8")


if __name__ == "__main__":
    serve_crashes(live)
