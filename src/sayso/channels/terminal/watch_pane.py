"""View of a question on the full screen: scrollable rows, and guarded keys.

Tests: tests/cli/test_watch.py
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, TypeVar

from prompt_toolkit.application import Application, in_terminal
from prompt_toolkit.application.current import set_app

from sayso.channels.display.request_lines import NARROWEST, Line, request_lines, wrap_line
from sayso.channels.terminal.keys import NOT_YET, Choice, Closed, TypeAheadGuard
from sayso.channels.terminal.question import Question
from sayso.core.model import ApprovalRequest

T = TypeVar("T")
Part = Callable[[int], list[Line]]  # lines for a width


class Pane:
    """The pane of the selected request; a `QuestionView`."""

    how_to_see_all = "scroll to its end with space, or press v"

    def __init__(self, question: Question, app: Application[None], show_message: Callable[[str], None]) -> None:
        self.question = question
        self._show_message = show_message
        self.choice: Choice | None = None
        self.key_guard = TypeAheadGuard()
        self.line_prompt: str | None = None  # the prompt of a line that is being typed
        self._app = app
        self._pressed: asyncio.Future[str] | None = None
        self._typed: asyncio.Future[str] | None = None
        self._parts: list[Part] = []
        self._jump_to: int | None = None  # index of the part to scroll to when it is drawn
        self._top = 0
        self._seen_rows = 0  # seen from the top, without a gap
        self._drawn = (0, 0)  # width and height
        self.seen_all = False

    @property
    def width(self) -> int:
        """Width in columns."""
        return self._app.output.get_size().columns

    def show_request(
        self,
        request: ApprovalRequest,
        *,
        whole: bool,  # noqa: ARG002 - it can be scrolled, so nothing is folded
        original: Mapping[str, Any] | None = None,
    ) -> None:
        """Show a request in place of the previous lines."""

        @lru_cache(maxsize=1)
        def rows(width: int) -> list[Line]:
            return request_lines(request, width, whole=True, original=original, needs=self.question.needs).lines

        self._parts = [rows]
        self.seen_all = False
        self._reset_scroll()

    def show_lines(self, lines: Iterable[Line]) -> None:
        """Append lines, and scroll to them."""
        kept = list(lines)
        self._jump_to = len(self._parts)
        self._parts.append(lambda width: [piece for line in kept for piece in wrap_line(line, width)])
        self._app.invalidate()

    def show_message(self, sentence: str) -> None:
        """Show a message in the status row."""
        self._show_message(sentence)

    def count_as_seen(self) -> None:
        """Mark the request as viewed in full."""
        self.seen_all = True

    async def read_key(self, choice: Choice) -> str:
        """Wait for a key."""
        self.choice, self._pressed = choice, asyncio.get_running_loop().create_future()
        self.key_guard = TypeAheadGuard()
        self._app.invalidate()
        try:
            key = await self.question.while_open(self._pressed)
            if choice.is_idle or key == "b":
                del self._parts[1:]  # earlier lines below the request are obsolete
            return key
        finally:
            self.choice = None
            self.key_guard.disarm()

    async def read_line(self, words: str) -> str:
        """Wait for a line."""
        self.line_prompt, self._typed = words, asyncio.get_running_loop().create_future()
        self._app.invalidate()
        try:
            line = await self._typed  # to its end, even if the question is closed: its rest must not become keys
        finally:
            self.line_prompt = None
            self._app.invalidate()
        if self.question.closed.is_set():
            raise Closed
        return line

    async def run_in_terminal(self, work: Callable[[int], T]) -> T:
        """Run a function while it owns the terminal."""
        with set_app(self._app):
            async with in_terminal():
                return await asyncio.to_thread(work, self._app.output.fileno())

    # --- Input ---------------------------------------------------------------------------------------

    def handle_key(self, key: str) -> bool:
        """Handle a key that is bound here; any other is only noted by the guard."""
        choice, waiting = self.choice, self._pressed
        if choice is None or waiting is None or (key not in choice.keys and key not in choice.toggles):
            self.key_guard.note_other_key()
            return False

        def act() -> None:
            if key in choice.toggles:
                choice.toggles[key]()
                self._app.invalidate()
            elif not waiting.done():
                self._show_message("")  # the last one is obsolete
                waiting.set_result(key)

        self.key_guard.accept_key(act)
        return True

    def submit_line(self, text: str) -> None:
        """Accept a typed line."""
        if self._typed is not None and not self._typed.done():
            self._typed.set_result(text)

    def scroll(self, screens: int) -> None:
        """Scroll by pages, less one row of overlap."""
        width, height = self._drawn
        last = max(len(self._rows(width)) - height, 0)
        self._top = min(max(self._top + screens * max(height - 1, 1), 0), last)

    def legend(self) -> str:
        """Return the key legend, once keys count."""
        if self.choice is None:
            return ""
        legend = self.choice.legend() if self.key_guard.armed else NOT_YET
        return "\n".join(filter(None, (self.choice.hint(), legend)))

    # --- Drawing -------------------------------------------------------------------------------------

    def visible_rows(self, width: int, height: int) -> tuple[list[Line], int]:
        """Return the rows that fit, and the number of rows below them."""
        if width != self._drawn[0] and not self.seen_all:
            self._reset_scroll()  # other rows at another width
        rows = self._rows(width)
        if self._jump_to is not None:
            before = sum(len(part(width)) for part in self._parts[: self._jump_to])
            self._top, self._jump_to = before, None
        self._top = max(min(self._top, len(rows) - height), 0)
        self._drawn = (width, height)
        return rows[self._top : self._top + height], max(len(rows) - self._top - height, 0)

    def after_render(self) -> None:
        """Record which rows were on the screen, and arm the keys."""
        width, height = self._drawn
        if width >= NARROWEST and self._top <= self._seen_rows:
            self._seen_rows = max(self._seen_rows, self._top + height)
        needed = len(self._parts[0](width)) if self._parts else 0
        self.seen_all = self.seen_all or (bool(needed) and self._seen_rows >= needed)
        if self.choice is not None and not self.key_guard.arming_started:
            self.key_guard.arm(self._app.invalidate)

    def _reset_scroll(self) -> None:
        self._top = self._seen_rows = 0
        self._jump_to = None
        self._app.invalidate()

    def _rows(self, width: int) -> list[Line]:
        return [line for part in self._parts for line in part(width)]
