"""The processes that a test starts, which must not outlive it."""

import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from typing import AnyStr

_SECONDS = 60.0  # to end in, when nobody writes or reads any more


@contextmanager
def bounded(process: subprocess.Popen[AnyStr]) -> Generator[subprocess.Popen[AnyStr]]:
    """Have a process until the block ends: it must end then, and is killed if it does not, or if the test fails."""
    with process:
        try:
            yield process
            for pipe in (process.stdin, process.stdout, process.stderr):
                if pipe is not None:
                    pipe.close()
            process.wait(_SECONDS)
        finally:
            process.kill()
