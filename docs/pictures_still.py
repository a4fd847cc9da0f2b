"""Runs a program while the clock stands still and ids are counted, so that it shows the same whenever it is run.

`pictures_still.py 1772443800 sayso pending` is `sayso pending` at that second; a file does in place of a module.
"""

from __future__ import annotations

import hashlib
import itertools
import runpy
import sys
import time
import uuid
from typing import Any

try:
    import uuid_utils
except ImportError:  # Python 3.14 and later make these ids themselves
    uuid_utils = None

_VERSION, _VARIANT = 0x7 << 76, 0x2 << 62


def stand_still(at: float) -> None:
    """Let it be this second, and let ids be a matter of it."""
    numbers = itertools.count()

    def counted() -> uuid.UUID:
        digest = hashlib.sha256(f"{at} {next(numbers)}".encode()).digest()
        number = (int(at * 1000) << 80) + (int.from_bytes(digest[:10]) & ~(0xF << 76) & ~(0x3 << 62))
        return uuid.UUID(int=number | _VERSION | _VARIANT)

    time.time = lambda: at
    owner: Any
    for owner in filter(None, (uuid, uuid_utils)):
        owner.uuid7 = counted


def main(at: str, program: str, *arguments: str) -> None:
    """Run the program as if nothing was between it and Python."""
    stand_still(float(at))
    sys.argv = [program, *arguments]
    if program.endswith(".py"):
        runpy.run_path(program, run_name="__main__")
    else:
        runpy.run_module(program, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
