"""What others print while a question is on the screen goes above it, whole lines at a time, in the loop that draws."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import sys
import threading
from collections.abc import Generator
from typing import TextIO, cast

from prompt_toolkit.application import run_in_terminal
from prompt_toolkit.output import Output


class _Above:
    """Stands in for `sys.stdout` and `sys.stderr`; anybody may write to it, from any thread.

    Prompt-toolkit has such a thing, but it writes from a thread of its own whenever no prompt is up, which may be the
    moment at which the next one is being drawn.
    """

    def __init__(self, real: TextIO, output: Output) -> None:
        self._real = real
        self._output = output
        self._loop = asyncio.get_running_loop()
        self._context = contextvars.copy_context()  # it knows which prompt is up
        self._lock = threading.Lock()
        self._text = ""
        self._is_due = False

    def write(self, text: str) -> int:
        """Keep it until its line is complete."""
        with self._lock:
            self._text += text
            due = "\n" in text and not self._is_due
            self._is_due = self._is_due or due
        if due:
            with contextlib.suppress(RuntimeError):  # the process ends
                self._loop.call_soon_threadsafe(self._print_lines, context=self._context)
        return len(text)

    def flush(self) -> None:
        """Do nothing: a line that is not complete would be drawn over."""

    def _print_lines(self) -> None:
        with self._lock:
            lines, newline, self._text = self._text.rpartition("\n")
            self._is_due = False
        if newline:
            run_in_terminal(lambda: self._print(lines + newline))

    def close_down(self) -> None:
        """Print what is left."""
        with self._lock:
            rest, self._text = self._text, ""
        if rest:
            self._print(rest)

    def _print(self, text: str) -> None:
        self._output.enable_autowrap()
        self._output.write_raw(text)
        self._output.flush()

    def __getattr__(self, name: str) -> object:
        return getattr(self._real, name)


@contextlib.contextmanager
def printed_above(output: Output) -> Generator[None]:
    """Let everything that is printed to this terminal go above what is on it."""
    before = sys.stdout, sys.stderr
    above = _Above(sys.stdout, output)
    sys.stdout = sys.stderr = cast("TextIO", above)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
        above.close_down()
