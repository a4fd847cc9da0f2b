"""Patched stdout and stderr: whole lines that other code prints are drawn above the question."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import re
import sys
import threading
from collections.abc import Generator
from typing import TextIO, cast

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


class PatchedOutput:
    """Thread-safe replacement of `sys.stdout` and `sys.stderr`.

    Printed text is untrusted and must not draw over the question. Prompt-toolkit's `patch_stdout` writes from a thread
    of its own while no prompt is active, and so may write while the next one is drawn.
    """

    def __init__(self, real: TextIO, output: Output) -> None:
        self._real = real
        self._output = output
        self._loop = asyncio.get_running_loop()
        self._context = contextvars.copy_context()  # it holds the active prompt
        self._lock = threading.Lock()
        self._text = ""
        self._is_due = False
        self._is_paused = False
        self.rows_printed = 0

    def write(self, text: str) -> int:
        """Buffer text until its line is complete."""
        with self._lock:
            self._text += text
            due = "\n" in text and not self._is_due
            self._is_due = self._is_due or due
        if due:
            with contextlib.suppress(RuntimeError):  # the loop is closed: the process ends
                self._loop.call_soon_threadsafe(self._print_lines, context=self._context)
        return len(text)

    def flush(self) -> None:
        """Do nothing: an incomplete line would be drawn over."""

    @contextlib.contextmanager
    def paused(self) -> Generator[None]:
        """Buffer all output while another program owns the screen."""
        self._is_paused = True
        try:
            yield
        finally:
            self._is_paused = False
            self._print_lines()

    def _print_lines(self) -> None:
        if self._is_paused:
            return
        with self._lock:
            lines, newline, self._text = self._text.rpartition("\n")
            self._is_due = False
        if newline:
            width = self._output.get_size().columns
            printed = [row for line in lines.split("\n") for row in marked_rows(line, width)]
            self.rows_printed += len(printed)
            run_in_terminal(lambda: self._print("".join(f"{row}\n" for row in printed)))

    def flush_rest(self) -> None:
        """Print the buffered rest."""
        with self._lock:
            rest, self._text = self._text, ""
        if rest:
            self._print(strip_control_codes(rest))

    def _print(self, text: str) -> None:
        self._output.enable_autowrap()
        self._output.write_raw(text)
        self._output.flush()

    def __getattr__(self, name: str) -> object:
        """Delegate everything else to the original stream."""
        return getattr(self._real, name)


@contextlib.contextmanager
def patch_output(output: Output) -> Generator[PatchedOutput]:
    """Replace stdout and stderr, so that printed lines are drawn above the question."""
    before = sys.stdout, sys.stderr
    above = PatchedOutput(sys.stdout, output)
    sys.stdout = sys.stderr = cast("TextIO", above)
    try:
        yield above
    finally:
        sys.stdout, sys.stderr = before
        above.flush_rest()
