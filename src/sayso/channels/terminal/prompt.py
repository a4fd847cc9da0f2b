"""The stage of a question at the end of a terminal: what was shown scrolls away, and the keys are below it."""

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

from sayso.channels.display.request_lines import Line, filled, shown, wrapped
from sayso.channels.display.sanitize import visible
from sayso.channels.terminal.colours import STYLE
from sayso.channels.terminal.keys import Choice, Closed, Interrupted, Touch, pressed
from sayso.channels.terminal.patched_output import Above, printed_above
from sayso.channels.terminal.question import Question
from sayso.core.model import ApprovalRequest

T = TypeVar("T")


class Ends(NamedTuple):
    """A terminal's two ends, and what others print to it, if that passes through here."""

    keyboard: Input
    screen: Output
    above: Above | None = None


class Prompt:
    """The lines at the end of a terminal; see `Stage`."""

    how_to_see_all = "press v to see all of it first"

    def __init__(self, question: Question, status: Callable[[], str], *, ends: Ends, startled: bool) -> None:
        """Take the question, what is said about it above the keys, and the terminal.

        It is startling if another question went away by itself, perhaps just when a key was to be pressed.
        """
        self._question = question
        self._startled = startled
        self._status = status
        self._ends = ends
        self._screen = ends.screen
        self._rows: int | None = None  # of a request of which nothing was folded
        self._before = 0  # how many rows others had printed when it was shown
        self._is_seen = False
        self._choice = Choice(keys="", words=str)

    @property
    def width(self) -> int:
        """How many columns there are."""
        return self._screen.get_size().columns

    def show(self, request: ApprovalRequest, *, whole: bool) -> None:
        """Print a request."""
        found = shown(request, self.width, whole=whole)
        self._rows, self._before = len(found.lines) if found.whole else None, self.printed
        self._is_seen = whole
        self._print([[], *found.lines])

    @property
    def seen_all(self) -> bool:
        """Whether all of it is on the screen, or was opened."""
        return self._is_seen or (self._rows is not None and self.has_room(self._rows, self._before))

    @property
    def printed(self) -> int:
        """How many rows others have printed so far."""
        return 0 if self._ends.above is None else self._ends.above.rows

    def has_room(self, rows: int, before: int) -> bool:
        """Whether so many rows, told when others had printed so much before, are above the keys and on the screen."""
        below = [row for text in (self._status(), self._choice.words()) for row in filled(text, self.width - 1)]
        return rows + self.printed - before + len(below) <= self._screen.get_size().rows

    def tell(self, lines: Iterable[Line]) -> None:
        """Print lines."""
        self._print(piece for line in lines for piece in wrapped(line, self.width))

    def say(self, sentence: str) -> None:
        """Print a sentence."""
        self.tell([("class:said", row)] for row in filled(visible(sentence), self.width))

    def _print(self, lines: Iterable[Line]) -> None:
        text = FormattedText([part for line in lines for part in [*line, ("", "\n")]])
        print_formatted_text(text, style=STYLE, output=self._screen, end="")

    def count_as_seen(self) -> None:
        """Take note that the person has seen all of it in another way."""
        self._is_seen = True

    async def key(self, choice: Choice) -> str:
        """Wait for a key."""
        self._choice = choice
        touch, self._startled = Touch(startled=self._startled), False
        waiting = pressed(choice, self._status, touch, keyboard=self._ends.keyboard, screen=self._screen)
        return await self._question.while_open(waiting)

    async def typed(self, words: str) -> str:
        """Wait for a line, to its end, whatever happens: the rest of it must not become keys at the next question."""
        session: PromptSession[str] = PromptSession(
            input=self._ends.keyboard, output=self._screen, erase_when_done=True, interrupt_exception=Interrupted
        )
        line = await session.prompt_async(
            lambda: "It is closed; press Enter. " if self._question.closed.is_set() else words,
            handle_sigint=False,
            refresh_interval=0.5,
        )
        if self._question.closed.is_set():
            raise Closed
        return line

    async def outside(self, work: Callable[[int], T]) -> T:
        """Do something that has the terminal meanwhile."""
        with contextlib.nullcontext() if self._ends.above is None else self._ends.above.held():
            return await asyncio.to_thread(work, self._screen.fileno())


@contextlib.contextmanager
def shared_terminal() -> Generator[Ends]:
    """Hold the terminal's two ends; what others print meanwhile goes above the question."""
    # What is written to a file or a pipe is nobody's business here.
    shared = sys.stdout.isatty() and sys.stderr.isatty()
    ends = terminal_ends()
    with (
        create_app_session(input=ends.keyboard, output=ends.screen),
        printed_above(ends.screen) if shared else contextlib.nullcontext() as above,
    ):
        yield ends._replace(above=above)


def terminal_ends() -> Ends:
    """Return the terminal's keyboard and screen."""
    screen = create_output(stdout=sys.stderr if sys.stderr.isatty() else sys.stdout)
    if isinstance(screen, Vt100_Output):
        screen.enable_cpr = False  # a question must not wait for what some terminals never say
    return Ends(create_input(), screen)
