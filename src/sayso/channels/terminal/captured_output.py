"""Captured stdout and stderr: while a question is open, what the process writes is drawn above it, line by line.

The file descriptors themselves lead into a pipe, so every handle is covered: `print`, logging handlers made earlier, C
code, and the child processes that start meanwhile.
"""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import contextvars
import fcntl
import os
import re
import stat
import sys
import threading
from collections.abc import Generator
from pathlib import Path
from typing import TextIO

from prompt_toolkit.application import run_in_terminal
from prompt_toolkit.output import Output

from sayso.channels.display.request_lines import Fragment, Line, wrap_line

_MARK = ("", "┊ ")  # before each printed row: without it, other code could imitate a question above the keys
_COLOUR = re.compile(r"(\x1b\[[0-9;:]*m)")
_NO_COLOUR = "\x1b[0m"
# A colour; then every other escape sequence, control string or key, in 7-bit and 8-bit form; then single control
# characters, which may move the cursor.
_CODES = re.compile(
    rf"{_COLOUR.pattern}"
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)?"
    r"|\x1b[ -/]*[0-~]?"
    r"|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]"
)


def strip_control_codes(text: str) -> str:
    """Sanitise printed text: colours stay, cursor movement and all other escape sequences go."""
    return _CODES.sub(lambda code: code[1] or "", text)


def marked_rows(line: str, width: int) -> list[str]:
    """Wrap a printed line into rows with our mark, as a terminal would leave it."""
    last = line.rstrip("\r").rpartition("\r")[2].expandtabs()  # of a progress bar, only its last state
    first, *others = _COLOUR.split(strip_control_codes(last))
    parts: Line = [_MARK, ("", first), *zip(others[::2], others[1::2], strict=True)]
    return ["".join([*map(_coloured, row), _NO_COLOUR]) for row in wrap_line(parts, width)]


def _coloured(part: Fragment) -> str:
    code, text = part
    return code + text if _COLOUR.fullmatch(code) else text


_LARGEST_PIPE = 1 << 20  # C code that holds the interpreter's lock can write this much without waiting for us
_MOST_READS = 64
_CHANGING = threading.Lock()  # held while descriptors change, and while they are inspected


class CapturedOutput:
    """Standard output and error of this process, in a pipe; used in the thread of the terminal.

    A child process that started meanwhile keeps the pipe. After the capture its output passes through unchanged, until
    it ends; but while another capture is active, it joins the output of that one.
    """

    def __init__(self, terminal: TextIO) -> None:
        self.terminal = os.fdopen(os.dup(terminal.fileno()), "w", encoding=terminal.encoding)
        self.rows_printed = 0
        self._screen: Output | None = None
        self._context = contextvars.copy_context()
        self._is_paused = self._is_over = False
        self._text = ""
        self._undrawn: list[str] = []  # rows that the prompt has still to make room for
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._outlet, self._inlet = _open_pipe()
        self._duplicates: dict[int, int] = {}  # of the redirected descriptors

    @contextlib.contextmanager
    def capture(self, screen: Output) -> Generator[None]:
        """Capture the output of this process for the block, and draw it on this screen."""
        try:
            self._start(screen)
            yield
        finally:
            self.release()

    @property
    def is_active(self) -> bool:
        """Whether the output is captured now."""
        return self in _captures

    def release(self) -> None:
        """Restore the descriptors, and print the rest of the output; nothing happens the second time."""
        if not self.is_active:
            return
        with _CHANGING:
            _captures.remove(self)
            for descriptor, duplicate in self._duplicates.items():
                with contextlib.suppress(OSError):  # other code has closed it
                    if os.path.sameopenfile(descriptor, self._inlet):
                        os.dup2(duplicate, descriptor, inheritable=os.get_inheritable(descriptor))
                os.close(duplicate)
        os.close(self._inlet)
        self._is_paused = False
        for _ in range(_MOST_READS):  # a program that never stops writing must not hold up the answer
            if not self._read():
                break
        self._undrawn += self._complete_rows()
        self._draw(strip_control_codes(self._text))
        self._screen = None
        if self._is_over:
            self.terminal.close()

    @contextlib.contextmanager
    def paused(self) -> Generator[None]:
        """Hold back all output while another program owns the screen."""
        self._is_paused = True
        try:
            yield
        finally:
            self._is_paused = False
            self._print_rows()

    def _start(self, screen: Output) -> None:
        """Redirect every descriptor of the terminal into the pipe."""
        self._screen = screen
        self._context = contextvars.copy_context()  # it has the active prompt, as that of the reader has
        asyncio.get_running_loop().add_reader(self._outlet, self._receive)
        _flush_streams()
        with _CHANGING:
            _captures.append(self)  # first, so that `release` restores what an error leaves half done
            for descriptor in _terminal_descriptors(self.terminal.fileno()):
                self._duplicates[descriptor] = os.dup(descriptor)
                os.dup2(self._inlet, descriptor, inheritable=os.get_inheritable(descriptor))

    def _receive(self) -> None:
        if self._read():
            self._print_rows()

    def _read(self) -> bool:
        """Read from the pipe; false if it is empty, or at its end."""
        try:
            data = os.read(self._outlet, _LARGEST_PIPE)
        except BlockingIOError:
            return False
        if not data:
            self._end()
        elif self._screen is not None:
            self._text += self._decoder.decode(data)
        elif _captures:
            _captures[-1].add_output(self._decoder.decode(data))
        else:
            self.terminal.buffer.write(data)
            self.terminal.flush()
        return bool(data)

    def add_output(self, text: str) -> None:
        """Print the text of an earlier capture's pipe, like the output of this one."""
        self._text += text
        asyncio.get_running_loop().call_soon(self._print_rows, context=self._context)

    def _end(self) -> None:
        """Close the pipe: no process writes into it any more."""
        self._is_over = True
        asyncio.get_running_loop().remove_reader(self._outlet)
        os.close(self._outlet)
        if self._screen is None:
            self.terminal.close()

    def _print_rows(self) -> None:
        rows = [] if self._is_paused else self._complete_rows()
        if rows:
            self.rows_printed += len(rows)
            self._undrawn += rows
            run_in_terminal(self._draw)

    def _complete_rows(self) -> list[str]:
        """Take the complete lines from the buffer: an incomplete one would be drawn over."""
        lines, newline, self._text = self._text.rpartition("\n")
        if not newline or self._screen is None:
            return []
        width = self._screen.get_size().columns
        return [row for line in lines.split("\n") for row in marked_rows(line, width)]

    def _draw(self, rest: str = "") -> None:
        rows, self._undrawn = self._undrawn, []
        if self._screen is not None and (rows or rest):
            self._screen.enable_autowrap()
            self._screen.write_raw("".join(f"{row}\n" for row in rows) + rest)
            self._screen.flush()


_captures: list[CapturedOutput] = []  # the active one, if any


def terminal_stream() -> TextIO | None:
    """Return the stream of the terminal, stderr or else stdout, also while they are captured."""
    with _CHANGING:
        if _captures:
            return _captures[-1].terminal
        return next(filter(is_terminal, (sys.stderr, sys.stdout)), None)


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a stream is open and leads to a terminal."""
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # it is closed
        return False


def _open_pipe() -> tuple[int, int]:
    outlet, inlet = os.pipe()
    os.set_blocking(outlet, False)
    if sys.platform == "linux":
        with contextlib.suppress(OSError):  # more than this user may have
            fcntl.fcntl(inlet, fcntl.F_SETPIPE_SZ, _LARGEST_PIPE)
    return outlet, inlet


def _flush_streams() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, OSError, ValueError):  # there is none, or it is closed
            stream.flush()


def _terminal_descriptors(own: int) -> list[int]:
    """Return the descriptors of this process that write to the terminal, but ours and that of the keyboard."""
    terminals = {os.fstat(own).st_rdev}
    with contextlib.suppress(OSError):  # the process has no controlling terminal
        terminals.add(Path("/dev/tty").stat().st_rdev)
    descriptors = [int(each.name) for each in Path("/dev/fd").iterdir()]
    return [each for each in descriptors if each not in {0, own} and _writes_to(each, terminals)]


def _writes_to(descriptor: int, terminals: set[int]) -> bool:
    try:
        facts, flags = os.fstat(descriptor), fcntl.fcntl(descriptor, fcntl.F_GETFL)
    except OSError:  # it was that of the listing, or other code has closed it
        return False
    return stat.S_ISCHR(facts.st_mode) and facts.st_rdev in terminals and flags & os.O_ACCMODE != os.O_RDONLY
