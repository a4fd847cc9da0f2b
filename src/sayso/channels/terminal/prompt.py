"""View of a question at the end of the terminal: printed lines scroll, and the key legend is below them.

Tests: tests/channels/terminal/test_channel.py
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Callable, Generator, Iterable
from typing import NamedTuple, TypeVar

from prompt_toolkit.application import create_app_session
from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.input import Input, create_input
from prompt_toolkit.output import Output, create_output
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.shortcuts import PromptSession, print_formatted_text

from sayso.channels.display.request_lines import Line, request_lines, wrap_items, wrap_line
from sayso.channels.display.sanitize import visible
from sayso.channels.terminal.colours import STYLE
from sayso.channels.terminal.keys import Choice, Closed, Interrupted, TypeAheadGuard, wait_for_key
from sayso.channels.terminal.patched_output import PatchedOutput, patch_output
from sayso.channels.terminal.question import Question
from sayso.core.model import ApprovalRequest

T = TypeVar("T")


class TerminalIO(NamedTuple):
    """Input and output of a terminal, and the patched output of other code, if patched."""

    keyboard: Input
    screen: Output
    patched_output: PatchedOutput | None = None


class Prompt:
    """The prompt at the end of a terminal; a `QuestionView`."""

    how_to_see_all = "press v to see all of it first"

    def __init__(
        self, question: Question, status: Callable[[], str], *, terminal: TerminalIO, previous_vanished: bool
    ) -> None:
        self._question = question
        self._previous_vanished = previous_vanished
        self._status = status
        self._terminal = terminal
        self._screen = terminal.screen
        self._rows: int | None = None  # of the request, if nothing of it was folded
        self._before = 0  # rows printed by other code before the request
        self._is_seen = False
        self._choice = Choice(keys="", legend=str)

    @property
    def width(self) -> int:
        """Width in columns."""
        return self._screen.get_size().columns

    def show_request(self, request: ApprovalRequest, *, whole: bool) -> None:
        """Print a request."""
        found = request_lines(request, self.width, whole=whole)
        self._rows, self._before = len(found.lines) if found.whole else None, self.rows_printed_by_others
        self._is_seen = whole
        self._print([[], *found.lines])

    @property
    def seen_all(self) -> bool:
        """Whether the whole request is on the screen, or was opened in the pager."""
        return self._is_seen or (self._rows is not None and self.fits_on_screen(self._rows, self._before))

    @property
    def rows_printed_by_others(self) -> int:
        """Number of rows that other code has printed so far."""
        return 0 if self._terminal.patched_output is None else self._terminal.patched_output.rows_printed

    def fits_on_screen(self, rows: int, before: int) -> bool:
        """Whether these rows are still on the screen above the keys, after the rows that other code printed since."""
        below = [row for text in (self._status(), self._choice.legend()) for row in wrap_items(text, self.width - 1)]
        return rows + self.rows_printed_by_others - before + len(below) <= self._screen.get_size().rows

    def show_lines(self, lines: Iterable[Line]) -> None:
        """Print lines."""
        self._print(piece for line in lines for piece in wrap_line(line, self.width))

    def show_message(self, sentence: str) -> None:
        """Print a sentence."""
        self.show_lines([("class:said", row)] for row in wrap_items(visible(sentence), self.width))

    def _print(self, lines: Iterable[Line]) -> None:
        text = FormattedText([part for line in lines for part in [*line, ("", "\n")]])
        print_formatted_text(text, style=STYLE, output=self._screen, end="")

    def count_as_seen(self) -> None:
        """Mark the request as viewed in full."""
        self._is_seen = True

    async def read_key(self, choice: Choice) -> str:
        """Wait for a key."""
        self._choice = choice
        key_guard, self._previous_vanished = TypeAheadGuard(previous_vanished=self._previous_vanished), False
        waiting = wait_for_key(choice, self._status, key_guard, keyboard=self._terminal.keyboard, screen=self._screen)
        return await self._question.while_open(waiting)

    async def read_line(self, words: str) -> str:
        """Wait for a whole line, even if the question is closed: its rest must not become keys of the next one."""
        session: PromptSession[str] = PromptSession(
            input=self._terminal.keyboard, output=self._screen, erase_when_done=True, interrupt_exception=Interrupted
        )
        line = await session.prompt_async(
            lambda: "It is closed; press Enter. " if self._question.closed.is_set() else words,
            handle_sigint=False,
            refresh_interval=0.5,
        )
        if self._question.closed.is_set():
            raise Closed
        return line

    async def run_in_terminal(self, work: Callable[[int], T]) -> T:
        """Run a function while it owns the terminal."""
        with (
            contextlib.nullcontext()
            if self._terminal.patched_output is None
            else self._terminal.patched_output.paused()
        ):
            return await asyncio.to_thread(work, self._screen.fileno())


@contextlib.contextmanager
def shared_terminal() -> Generator[TerminalIO]:
    """Open the terminal with stdout and stderr patched."""
    # Output to a file or a pipe does not disturb the question.
    is_shared = sys.stdout.isatty() and sys.stderr.isatty()
    terminal = open_terminal()
    with (
        create_app_session(input=terminal.keyboard, output=terminal.screen),
        patch_output(terminal.screen) if is_shared else contextlib.nullcontext() as patched,
    ):
        yield terminal._replace(patched_output=patched)


def open_terminal() -> TerminalIO:
    """Open the terminal's input and output."""
    screen = create_output(stdout=sys.stderr if sys.stderr.isatty() else sys.stdout)
    if isinstance(screen, Vt100_Output):
        screen.enable_cpr = False  # a question must not wait for a reply that some terminals never send
    return TerminalIO(create_input(), screen)
