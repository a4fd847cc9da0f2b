"""The process that test_crash.py kills: it writes one file, with approval, and dies before its Nth step of that.

A step is a call of the operating system by the modules that write. Usage: crash_child.py FOLDER N
"""

import os
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Any

from sayso import ApprovalController, ApprovalDecision, Policy
from sayso.tools.files import FileTools

folder, fatal = Path(sys.argv[1]), int(sys.argv[2])
MODULES = ("atomic_write.py", "directory.py", "openat.py")
CALLS = {"open", "write", "fsync", "rename", "link", "unlink", "fchmod", "fchown", "flock", "close", "lstat", "fstat"}
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


policy = Policy.from_dict({"default": "blocked", "sandbox": {"zones": {"w": {"root": "w"}}}}, base=folder)
controller = ApprovalController(
    policy=policy, approval_callback=lambda _: ApprovalDecision(approved=True, who="ann"), store=folder / "state.db"
)
with FileTools(policy) as files, controller.activated():
    tool = files.functions[1]
    sys.setprofile(watch)  # of this thread, in which the tool runs: the preview has one of its own
    tool("/w/a.txt", "NEW" * 10_000)
    sys.setprofile(None)
controller.close()
assert wrote
print(steps)
