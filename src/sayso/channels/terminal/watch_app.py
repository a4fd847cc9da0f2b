"""Full-screen inbox (`sayso watch`): the list of open requests, the selected one in full, and the keys of the prompt.

Tests: tests/cli/test_watch.py
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from signal import SIGHUP, SIGTERM
from typing import TYPE_CHECKING, NamedTuple

from prompt_toolkit.application import Application
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import ConditionalContainer, HSplit, Layout, VSplit, Window
from prompt_toolkit.layout.controls import BufferControl, FormattedTextControl

from sayso.channels.display.answer_keys import FILTER_KEY
from sayso.channels.display.phrases import closed_text
from sayso.channels.display.sanitize import visible
from sayso.channels.terminal.colours import STYLE
from sayso.channels.terminal.dialog import QuestionDialog
from sayso.channels.terminal.keys import Closed, Interrupted, exit_app
from sayso.channels.terminal.prompt import open_terminal
from sayso.channels.terminal.question import Question
from sayso.channels.terminal.watch_filter import HOW_TO_FILTER, FilterLine
from sayso.channels.terminal.watch_layout import Listed, WatchLayout
from sayso.channels.terminal.watch_pane import Pane
from sayso.core.decide import is_overdue
from sayso.core.filters import RequestFilter
from sayso.core.model import ApprovalDecision, ApprovalRequest, Seen
from sayso.errors import StillOpen, StoreError, UnknownRequest

if TYPE_CHECKING:
    from sayso.client.inbox import Inbox

_CHANNEL = "watch"
_MOVES = {"j": 1, Keys.Down: 1, "k": -1, Keys.Up: -1}
_EXIT_SIGNALS = (SIGTERM, SIGHUP)  # the terminal has to be restored first
_SCROLLS = {" ": 1, Keys.PageDown: 1, "b": -1, Keys.PageUp: -1}
_ESCAPE = "\x1b"


class AnswerReport(NamedTuple):
    """Result of an answer: a sentence, the ids of the requests that are closed now, and the request if it is open."""

    sentence: str
    closed: Sequence[str]
    still_open: ApprovalRequest | None = None


@dataclass(frozen=True, kw_only=True)
class WatchContext:
    """Dependencies of the full-screen inbox: approver, inbox, and how to answer."""

    who: str
    inbox: Inbox
    answer: Callable[[ApprovalRequest, ApprovalDecision], Awaitable[AnswerReport]]  # raises `StillOpen`
    short_ids: Callable[[Iterable[str]], Mapping[str, str]]  # short names for ids
    wanted: RequestFilter  # the filter to begin with


class Watch:
    """Full-screen application; `await Watch(context).run()` until the user quits."""

    def __init__(self, context: WatchContext) -> None:
        self._context = context
        self._requests: dict[str, ApprovalRequest] = {}
        self._names: Mapping[str, str] = {}
        self._pane: Pane | None = None
        self._asking: asyncio.Task[None] | None = None
        self._answering: str | None = None  # id of the request whose answer is being submitted
        self._message = ""
        self._help = False
        self._note = Buffer(multiline=False, accept_handler=self._on_line_entered)
        self._filter = FilterLine(context.wanted, self._on_filter_changed)
        terminal = open_terminal()
        self._captured = terminal.captured
        self._app: Application[None] = Application(
            layout=self._layout(),
            key_bindings=self._bindings(),
            style=STYLE,
            input=terminal.keyboard,
            output=terminal.screen,
            full_screen=True,
            refresh_interval=1.0,
            terminal_size_polling_interval=0.5,
        )
        self._app.after_render += self._after_render

    async def run(self) -> None:
        """Show the inbox until the user quits.

        Raises:
            Interrupted: the user pressed Ctrl-C, or the process received a signal to end.
        """
        for signal in _EXIT_SIGNALS:
            asyncio.get_running_loop().add_signal_handler(signal, self._interrupt)
        following = asyncio.ensure_future(self._follow())
        following.add_done_callback(self._exit_on_error)
        try:
            with self._captured.capture(self._app.output), self._captured.paused():
                await self._app.run_async(handle_sigint=False)
        finally:
            for task in (following, self._asking):
                if task is not None:
                    task.cancel()
            await asyncio.wait({task for task in (following, self._asking) if task is not None})

    def _show_message(self, sentence: str) -> None:
        self._message = visible(sentence)
        self._app.invalidate()

    def _exit_on_error(self, task: asyncio.Task[None]) -> None:
        """End the application with the error of a background task, such as a failed store."""
        error = None if task.cancelled() else task.exception()
        if error is not None:
            exit_app(self._app, exception=error)

    # --- The requests --------------------------------------------------------------------------------

    async def _follow(self) -> None:
        """Load the open requests, and then subscribe to changes."""
        point, _ = await self._context.inbox.changes()
        self._apply_changes(await self._context.inbox.pending())
        clock = asyncio.ensure_future(self._expire_overdue())
        try:
            while True:
                await self._context.inbox.changed(point)
                point, changed = await self._context.inbox.changes(point)
                self._apply_changes(changed)
        finally:
            clock.cancel()

    async def _expire_overdue(self) -> None:
        while True:
            await asyncio.sleep(1.0)
            if any(is_overdue(each, time.time()) for each in self._requests.values()):
                with contextlib.suppress(StoreError):  # `_follow` reports the error
                    await self._context.inbox.pending()  # which closes them

    @property
    def _listed(self) -> dict[str, ApprovalRequest]:
        """The requests that match the filter; keys and answers go to them alone."""
        return {name: each for name, each in self._requests.items() if self._filter.matches(name)}

    def _apply_changes(self, changed: Iterable[ApprovalRequest]) -> None:
        for each in changed:
            if each.status == "open":
                self._requests[each.id] = each
                self._filter.add([each])
                continue
            is_listed = self._requests.pop(each.id, None) is not None and self._filter.matches(each.id)
            self._filter.forget(each.id)
            if is_listed and each.id != self._answering:
                self._show_message(closed_text(each))
        self._requests = dict(sorted(self._requests.items()))  # ids begin with the time
        self._names = self._context.short_ids(self._requests)
        self._refresh_pane()
        self._app.invalidate()

    def _refresh_pane(self) -> None:
        """Update the pane; a closed request stays there until the user moves, so that no key hits another one."""
        if self._pane is None:
            self._select(next(iter(self._listed), None))
            return
        question = self._pane.question
        now = self._requests.get(question.request.id)
        if now is not None:
            question.seen, question.votes = now.seen, now.votes
        elif question.request.id != self._answering and not question.closed.is_set():
            question.closed.set()

    def _on_filter_changed(self) -> None:
        """List what matches; the selected request stays if it does, and no key counts until it was drawn again."""
        self._filter.reset(self._requests.values())
        self._message = ""
        listed = self._listed
        if self._pane is not None and self._pane.question.request.id in listed:
            self._pane.key_guard.disarm()
        else:
            self._select(next(iter(listed), None))
        self._move_focus()
        self._app.invalidate()

    # --- The selected request ------------------------------------------------------------------------

    def _select(self, request_id: str | None) -> None:
        if self._asking is not None:
            self._asking.cancel()
        self._pane = self._asking = None
        if request_id is not None:
            request = self._requests[request_id]
            question = Question(request, who=self._context.who, channel=_CHANNEL, since=request.asked_at)
            self._pane = Pane(question, self._app, self._show_message)
            self._asking = asyncio.ensure_future(self._ask(self._pane))
            self._asking.add_done_callback(self._exit_on_error)
        self._app.invalidate()

    async def _ask(self, pane: Pane) -> None:
        request = pane.question.request
        presence = asyncio.ensure_future(self._mark_seen(request.id))
        try:
            barred = await self._barred_keys(pane.question)
            answer = await QuestionDialog(
                pane.question, pane, waiting=lambda: list(self._requests.values()), disabled_keys=barred
            ).ask()
        except Closed:
            return
        finally:
            presence.cancel()
        if isinstance(answer, ApprovalDecision):
            await self._submit_answer(request, answer)

    async def _barred_keys(self, question: Question) -> str:
        """Return the keys of answers that would not count, after the question says why."""
        request, wanted = question.request, question.request.approvers
        try:
            question.who = await self._context.inbox.approver_name(self._context.who)
            barrier = await self._context.inbox.barrier(request, self._context.who)
        except StoreError as problem:
            self._show_message(f"Whether your answer counts is not known: {problem}.")
            return ""  # a hub refuses it if it does not
        if wanted is not None and wanted.needs_identity:
            known = "your yes counts" if barrier is None else barrier.reason
            rule = f"its rule asks for {wanted}"
            question.needs = f"{wanted}{known.removeprefix(rule)}" if known.startswith(rule) else f"{wanted}; {known}"
        elif barrier is not None:
            self._show_message(f"You cannot answer this: {barrier.reason}.")
        several = "e" if wanted is not None and wanted.count > 1 else ""  # they say yes to the same arguments
        return several if barrier is None else "yaenm" if barrier.also_no else "yae"

    async def _mark_seen(self, request_id: str) -> None:
        """Mark the selected request as viewed (presence)."""
        with contextlib.suppress(StoreError, UnknownRequest):
            await self._context.inbox.mark_seen(
                request_id, Seen(who=self._context.who, channel=_CHANNEL, at=time.time())
            )

    async def _submit_answer(self, request: ApprovalRequest, answer: ApprovalDecision) -> None:
        """Submit the answer, and select the next request in the list."""
        self._answering, after = request.id, [each for each in self._listed if each > request.id]
        try:
            sentence, closed, still_open = await self._context.answer(request, answer)
        except StillOpen as problem:
            sentence, closed, still_open, after = str(problem), (), None, [request.id]
        finally:
            self._answering = None
        for each in closed:
            self._requests.pop(each, None)  # before the change feed reports it
        if still_open is not None:
            self._requests[still_open.id] = still_open  # with the vote
        self._asking = None  # this task itself, which is about to end
        self._select(next((each for each in after if each in self._requests), next(iter(self._listed), None)))
        self._show_message(sentence)

    # --- Keys ----------------------------------------------------------------------------------------

    def _bindings(self) -> KeyBindings:
        found = KeyBindings()
        is_reading_keys = ~Condition(self._is_typing)
        found.add(Keys.Any, filter=is_reading_keys)(self._on_key)

        @found.add(Keys.BracketedPaste, filter=is_reading_keys)
        def _(_: KeyPressEvent) -> None:
            if self._pane is not None:
                self._pane.key_guard.note_other_key()

        found.add(Keys.ControlC)(self._interrupt)

        @found.add(Keys.Escape, filter=Condition(lambda: self._filter.is_open), eager=True)
        def _(_: KeyPressEvent) -> None:
            self._filter.clear()

        return found

    def _interrupt(self, *_: object) -> None:
        exit_app(self._app, exception=Interrupted())

    def _is_typing(self) -> bool:
        return self._is_typing_note() or self._filter.is_open

    def _is_typing_note(self) -> bool:
        return self._pane is not None and self._pane.line_prompt is not None

    def _on_key(self, event: KeyPressEvent) -> None:
        key = event.data if len(event.data) == 1 else event.key_sequence[0].key
        if self._help:
            self._help = False
            if self._pane is not None:
                self._pane.key_guard.disarm()  # the help covered the request
        elif self._pane is None or not self._pane.handle_key(key):
            self._handle_navigation_key(key)
        self._app.invalidate()

    def _handle_navigation_key(self, key: str) -> None:
        pane = self._pane
        is_idle = pane is None or pane.question.closed.is_set() or (pane.choice is not None and pane.choice.is_idle)
        if key in _SCROLLS and pane is not None:
            pane.scroll(_SCROLLS[key])
        elif key in _MOVES and is_idle:
            self._message = ""
            self._select_neighbour(_MOVES[key])
        elif key == FILTER_KEY.key and is_idle:
            self._filter.open()
            self._message = HOW_TO_FILTER
            self._move_focus()
        elif key == _ESCAPE and is_idle and self._filter.text:
            self._filter.clear()
        elif key == "?":
            self._help = True
        elif key == "q" and is_idle:
            exit_app(self._app)

    def _select_neighbour(self, by: int) -> None:
        """Select the neighbour in that direction; for a closed request, its former neighbour."""
        here = "" if self._pane is None else self._pane.question.request.id
        listed = self._listed
        neighbours = [each for each in listed if (each > here if by > 0 else each < here)]
        there = neighbours[0 if by > 0 else -1] if neighbours else next(reversed(listed), None)
        if there != here and (neighbours or here not in listed):
            self._select(there)

    def _on_line_entered(self, note: Buffer) -> bool:
        if self._pane is not None:
            self._pane.submit_line(note.text)
        return False

    # --- The screen ----------------------------------------------------------------------------------

    def _layout(self) -> Layout:
        self._frame = frame = Window(FormattedTextControl(self._screen_text, focusable=True), always_hide_cursor=True)
        words = Window(FormattedTextControl(self._line_prompt), dont_extend_width=True, height=1)
        note = VSplit([words, Window(BufferControl(self._note), height=1)])
        typed_note = ConditionalContainer(note, filter=Condition(self._is_typing_note))
        return Layout(HSplit([frame, typed_note, self._filter.container()]), frame)

    def _line_prompt(self) -> str:
        if self._pane is None:
            return ""
        return (
            "The question is closed; press Enter. "
            if self._pane.question.closed.is_set()
            else self._pane.line_prompt or ""
        )

    def _screen_text(self) -> FormattedText:
        size = self._app.output.get_size()
        frame = WatchLayout(size.columns, size.rows - self._is_typing())
        listed = self._listed
        shown = Listed(
            requests=listed,
            names=self._names,
            others=len(self._requests) - len(listed),
            filter_text=self._filter.text,
            is_filter_typed=self._filter.is_open,
        )
        lines = frame.help() if self._help else frame.draw(shown, self._pane, self._message)
        return FormattedText([part for line in lines for part in [*line, ("", "\n")]][:-1])

    def _after_render(self, _: object) -> None:
        if self._pane is not None and not self._help:
            self._pane.after_render()
        self._move_focus()

    def _move_focus(self) -> None:
        """Let keys go where something is typed, else to the frame."""
        place = self._note if self._is_typing_note() else self._filter.buffer if self._filter.is_open else self._frame
        if not self._app.layout.has_focus(place):
            self._app.layout.focus(place)
            self._app.invalidate()
