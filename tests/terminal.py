"""A real pseudo-terminal in which a program is run and answered."""

import os
import pty
import signal
from collections.abc import Sequence


def in_a_terminal(command: Sequence[str], keys: Sequence[str], *, interrupt: bool = False) -> tuple[str, int]:
    """Run a program, answer each `Run it?` with the next line, and return what was on the screen and how it ended.

    When there are no more lines, `interrupt` sends what Ctrl-C does.
    """
    process, terminal = pty.fork()
    if process == 0:  # pragma: no cover - this is the child
        os.environ |= {"NO_COLOR": "1", "TERM": "xterm", "COLUMNS": "80"}
        os.execv(command[0], list(command))  # noqa: S606 - what the test says
    screen, waiting = "", list(keys)
    while True:
        try:
            screen += os.read(terminal, 4096).decode()
        except OSError:  # the terminal is gone with its process
            break
        if screen.endswith("Run it? "):
            if waiting:
                os.write(terminal, waiting.pop(0).encode() + b"\n")
            elif interrupt:
                os.kill(process, signal.SIGINT)
            screen += " "
    return screen, os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
