"""A real pseudo-terminal in which a program is run and answered, and the screen that a person would see."""

import fcntl
import os
import pty
import select
import signal
import struct
import termios
import time
from collections.abc import Sequence

import pyte

_SECONDS = 30.0  # to wait for a text, before it is said that it never came
_SECONDS_TO_END = 60.0
KEYS = "[y] allow once"  # what is on the screen when a question can be answered


class Terminal:
    """A program in a terminal of this size; `screen` is what is on it now."""

    def __init__(self, command: Sequence[str], *, columns: int = 80, rows: int = 300) -> None:
        self._process, self._end = pty.fork()
        if self._process == 0:  # pragma: no cover - this is the child
            signal.signal(signal.SIGHUP, signal.SIG_DFL)  # `nohup` ignores it, but a program ends with its terminal
            os.environ |= {"NO_COLOR": "1", "TERM": "xterm"}
            for name in ("CI", "COLUMNS", "LINES"):
                os.environ.pop(name, None)
            os.execv(command[0], list(command))  # noqa: S606 - what the test says
        self._screen = pyte.Screen(columns, rows)
        self._stream = pyte.ByteStream(self._screen)
        self.raw = b""
        self.resize(columns, rows)

    @property
    def screen(self) -> str:
        return "\n".join(line.rstrip() for line in self._screen.display).rstrip()

    def resize(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self._end, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self._screen.resize(rows, columns)

    def write(self, keys: str | bytes) -> None:
        os.write(self._end, keys if isinstance(keys, bytes) else keys.encode())

    def wait_for(self, text: str, *, gone: bool = False) -> str:
        """Wait until a text is on the screen, or is not any more, and return the screen."""
        deadline = time.monotonic() + _SECONDS
        while (text in self.screen) is gone:
            assert time.monotonic() < deadline, (
                f"{text!r} is {'still' if gone else 'not'} on the screen:\n{self.screen}"
            )
            assert self._read(), f"the program has ended, and {text!r} never came:\n{self.screen}"
        return self.screen

    def press(self, keys: str | bytes, *, at: str = KEYS) -> None:
        """Answer a question, and wait until it has gone."""
        self.wait_for(at)
        self.write(keys)
        self.wait_for(at, gone=True)

    def end(self) -> tuple[str, int]:
        """Wait for the program's end; return the last screen and the exit code."""
        deadline = time.monotonic() + _SECONDS_TO_END
        while self._read():
            if time.monotonic() > deadline:
                self.signal(signal.SIGKILL)
                raise AssertionError(f"the program has not ended:\n{self.screen}")
        os.close(self._end)
        return self.screen, os.waitstatus_to_exitcode(os.waitpid(self._process, 0)[1])

    def signal(self, number: int) -> None:
        os.kill(self._process, number)

    def _read(self) -> bool:
        if not select.select([self._end], [], [], 1.0)[0]:
            return True
        try:
            data = os.read(self._end, 65536)
        except OSError:  # the terminal is gone with its process
            return False
        self.raw += data
        self._stream.feed(data)
        return bool(data)
