"""The stage of a question on the full screen: rows that can be scrolled, and keys that count only at the question."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Iterable
from functools import lru_cache
from typing import TypeVar

from prompt_toolkit.application import Application, in_terminal
from prompt_toolkit.application.current import set_app

from sayso.channels.display.request_lines import NARROWEST, Line, shown, wrapped
from sayso.channels.terminal.keys import NOT_YET, Choice, Closed, Touch
from sayso.channels.terminal.question import Question
from sayso.core.model import ApprovalRequest

T = TypeVar("T")
Part = Callable[[int], list[Line]]  # lines for a width


class Pane:
    """A question and what was told about it, as far as it fits; see `Stage`."""

    how_to_see_all = "scroll to its end with space, or press v"

    def __init__(self, question: Question, app: Application[None], say: Callable[[str], None]) -> None:
        """Take the question, the application that shows it, and where sentences go."""
        self.question = question
        self._say = say
        self.choice: Choice | None = None
        self.touch = Touch()
        self.asks_for: str | None = None  # the words before a line that is to be typed
        self._app = app
        self._pressed: asyncio.Future[str] | None = None
        self._typed: asyncio.Future[str] | None = None
        self._parts: list[Part] = []
        self._jump_to: int | None = None  # the part that comes to the top when it is drawn
        self._top = 0
        self._seen_rows = 0  # from the top on, without a gap
        self._drawn = (0, 0)  # width and height
        self.seen_all = False

    @property
    def width(self) -> int:
        """How many columns there are."""
        return self._app.output.get_size().columns

    def show(self, request: ApprovalRequest, *, whole: bool) -> None:  # noqa: ARG002 - it can be scrolled, so nothing is folded
        """Show a request, in place of what was there."""

        @lru_cache(maxsize=1)
        def rows(width: int) -> list[Line]:
            return shown(request, width, whole=True).lines

        self._parts = [rows]
        self.seen_all = False
        self._start()

    def tell(self, lines: Iterable[Line]) -> None:
        """Show lines below, and bring them before the person's eyes."""
        kept = list(lines)
        self._jump_to = len(self._parts)
        self._parts.append(lambda width: [piece for line in kept for piece in wrapped(line, width)])
        self._app.invalidate()

    def say(self, sentence: str) -> None:
        """Say something in the row for that."""
        self._say(sentence)

    def count_as_seen(self) -> None:
        """Take note that the person has seen all of it in another way."""
        self.seen_all = True

    async def key(self, choice: Choice) -> str:
        """Wait for a key."""
        self.choice, self._pressed = choice, asyncio.get_running_loop().create_future()
        self.touch = Touch()
        self._app.invalidate()
        try:
            key = await self.question.while_open(self._pressed)
            if choice.at_rest or key == "b":
                del self._parts[1:]  # what was told before is done with
            return key
        finally:
            self.choice = None
            self.touch.disarm()

    async def typed(self, words: str) -> str:
        """Wait for a line."""
        self.asks_for, self._typed = words, asyncio.get_running_loop().create_future()
        self._app.invalidate()
        try:
            line = await self._typed  # to its end, whatever happens: the rest of it must not become keys
        finally:
            self.asks_for = None
            self._app.invalidate()
        if self.question.closed.is_set():
            raise Closed
        return line

    async def outside(self, work: Callable[[int], T]) -> T:
        """Do something that has the terminal meanwhile."""
        async with self._left():
            return await asyncio.to_thread(work, self._app.output.fileno())

    @contextlib.asynccontextmanager
    async def _left(self) -> AsyncGenerator[None]:
        with set_app(self._app):
            async with in_terminal():
                yield

    # --- What the person does ------------------------------------------------------------------------

    def press(self, key: str) -> bool:
        """Take a key, if it means something here; else it is only noted."""
        choice, waiting = self.choice, self._pressed
        if choice is None or waiting is None or (key not in choice.keys and key not in choice.turns):
            self.touch.pass_by()
            return False

        def act() -> None:
            if key in choice.turns:
                choice.turns[key]()
                self._app.invalidate()
            elif not waiting.done():
                waiting.set_result(key)

        self.touch.take(act)
        return True

    def write(self, text: str) -> None:
        """Take a typed line."""
        if self._typed is not None and not self._typed.done():
            self._typed.set_result(text)

    def scroll(self, screens: int) -> None:
        """Go up or down by so many screens, less one row that stays."""
        width, height = self._drawn
        last = max(len(self._rows(width)) - height, 0)
        self._top = min(max(self._top + screens * max(height - 1, 1), 0), last)

    def words(self) -> str:
        """Say which keys there are, as soon as they count."""
        if self.choice is None:
            return ""
        return self.choice.words() if self.touch.armed else NOT_YET

    # --- What is drawn -------------------------------------------------------------------------------

    def view(self, width: int, height: int) -> tuple[list[Line], int]:
        """Return the rows that fit, and how many are below them."""
        if width != self._drawn[0] and not self.seen_all:
            self._start()  # all rows are others now
        rows = self._rows(width)
        if self._jump_to is not None:
            before = sum(len(part(width)) for part in self._parts[: self._jump_to])
            self._top, self._jump_to = before, None
        self._top = max(min(self._top, len(rows) - height), 0)
        self._drawn = (width, height)
        return rows[self._top : self._top + height], max(len(rows) - self._top - height, 0)

    def was_drawn(self) -> None:
        """Take note of what the person has before their eyes, and begin to count keys."""
        width, height = self._drawn
        if width >= NARROWEST and self._top <= self._seen_rows:
            self._seen_rows = max(self._seen_rows, self._top + height)
        needed = len(self._parts[0](width)) if self._parts else 0
        self.seen_all = self.seen_all or (bool(needed) and self._seen_rows >= needed)
        if self.choice is not None and not self.touch.begun:
            self.touch.arm(self._app.invalidate)

    def _start(self) -> None:
        self._top = self._seen_rows = 0
        self._jump_to = None
        self._app.invalidate()

    def _rows(self, width: int) -> list[Line]:
        return [line for part in self._parts for line in part(width)]
