"""The processes that a test starts, which must not outlive it."""

import os
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
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


@contextmanager
def crash_runner(module: str) -> Generator[Callable[[Path, int], int]]:
    """Yield a function that runs a module in a folder up to a fatal step (0: to its end), and returns the exit code.

    The module calls `serve_crashes`: its processes are forked before anything is opened, so that Python starts once.
    """
    root = Path(__file__).parents[1]
    command = [sys.executable, "-m", module]
    pipes = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=root)
    with bounded(pipes) as parent:
        orders, exits = parent.stdin, parent.stdout
        assert orders is not None
        assert exits is not None

        def run(folder: Path, fatal: int) -> int:
            folder.mkdir(parents=True, exist_ok=True)
            orders.write(f"{folder} {fatal}\n")
            orders.flush()
            return int(exits.readline())

        yield run


def serve_crashes(live: Callable[[int], None]) -> None:
    """Fork a process for each line of the input, which names a folder and a fatal step; print its exit code."""
    for line in sys.stdin:
        folder, fatal = line.rstrip("\n").rsplit(" ", 1)
        child = os.fork()
        if child == 0:
            os.chdir(folder)
            live(int(fatal))
            sys.exit()
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
