"""View of a question at the end of the terminal: printed lines scroll, and the key legend is below them.

Tests: tests/channels/terminal/test_channel.py
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Generator, Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

from prompt_toolkit.application import create_app_session
from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.input import Input, create_input
from prompt_toolkit.output import Output, create_output
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.shortcuts import PromptSession, print_formatted_text

from sayso.channels.display.request_lines import Line, request_lines, wrap_items, wrap_line
from sayso.channels.display.sanitize import visible
from sayso.channels.terminal.captured_output import CapturedOutput, terminal_stream
from sayso.channels.terminal.colours import STYLE
from sayso.channels.terminal.keys import Choice, Closed, Interrupted, TypeAheadGuard, wait_for_key
from sayso.channels.terminal.other_writers import other_writers
from sayso.channels.terminal.question import Question
from sayso.core.model import ApprovalRequest

T = TypeVar("T")
OTHER_WRITERS = "Careful: {} can draw on this screen, too, and change what you see."


class TerminalIO(NamedTuple):
    """Input and output of a terminal, and the output of the process, which can be captured."""

    keyboard: Input
    screen: Output
    captured: CapturedOutput


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
        self._named_writers: set[str] = set()
        self._choice = Choice(keys="", legend=str)

    @property
    def width(self) -> int:
        """Width in columns."""
        return self._screen.get_size().columns

    def show_request(self, request: ApprovalRequest, *, whole: bool, original: Mapping[str, Any] | None = None) -> None:
        """Print a request."""
        found = request_lines(request, self.width, whole=whole, original=original, needs=self._question.needs)
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
        return self._terminal.captured.rows_printed

    def fits_on_screen(self, rows: int, before: int) -> bool:
        """Whether these rows are still on the screen above the keys, after the rows that other code printed since.

        The hint above the keys does not count: it is there only as long as they are not.
        """
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
        """Wait for a key; none counts until other programs that can draw on this screen are named on it."""
        while True:
            await self._warn_of_other_writers()
            key = await self._wait_for_key(choice)
            if not await self._warn_of_other_writers():
                return key

    async def _wait_for_key(self, choice: Choice) -> str:
        self._choice = choice
        key_guard, self._previous_vanished = TypeAheadGuard(previous_vanished=self._previous_vanished), False
        waiting = wait_for_key(choice, self._status, key_guard, keyboard=self._terminal.keyboard, screen=self._screen)
        return await self._question.while_open(waiting)

    async def _warn_of_other_writers(self) -> bool:
        """Name the programs that can draw over the question and were not named yet; false if there are none."""
        found = await asyncio.to_thread(other_writers, self._screen.fileno())
        new = {"programs that cannot be listed here"} if found is None else set(found)
        new -= self._named_writers
        if new:
            self._named_writers |= new
            sentence = OTHER_WRITERS.format(", ".join(sorted(new)))
            self.show_message(sentence)
            self._before -= len(wrap_items(visible(sentence), self.width))  # it may push the request out of sight
        return bool(new)

    async def read_line(self, words: str) -> str:
        """Wait for a whole line, even if the question is closed: its rest must not become keys of the next one."""
        session: PromptSession[str] = PromptSession(
            input=self._terminal.keyboard, output=self._screen, erase_when_done=True, interrupt_exception=Interrupted
        )
        line = await session.prompt_async(
            lambda: "The question is closed; press Enter. " if self._question.closed.is_set() else words,
            handle_sigint=False,
            refresh_interval=0.5,
        )
        if self._question.closed.is_set():
            raise Closed
        return line

    async def run_in_terminal(self, work: Callable[[int], T]) -> T:
        """Run a function while it owns the terminal."""
        with self._terminal.captured.paused():
            return await asyncio.to_thread(work, self._screen.fileno())


@contextlib.contextmanager
def shared_terminal() -> Generator[TerminalIO]:
    """Open the terminal, with the output of this process captured."""
    terminal = open_terminal()
    with (
        create_app_session(input=terminal.keyboard, output=terminal.screen),
        terminal.captured.capture(terminal.screen),
    ):
        yield terminal


def open_terminal() -> TerminalIO:
    """Open the terminal's input and output."""
    stream = terminal_stream()
    if stream is None:
        raise OSError("there is no terminal")
    captured = CapturedOutput(stream)
    screen = create_output(stdout=captured.terminal)
    if isinstance(screen, Vt100_Output):
        screen.enable_cpr = False  # a question must not wait for a reply that some terminals never send
    return TerminalIO(create_input(), screen, captured)
