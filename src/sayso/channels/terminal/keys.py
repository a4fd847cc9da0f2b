"""Single-key input that ignores type-ahead and pasted keys."""

from __future__ import annotations

import asyncio
import contextlib
import math
import sys
import termios
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from prompt_toolkit.application import Application, get_app
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import ConditionalContainer, HSplit, Layout, Window
from prompt_toolkit.layout.controls import FormattedTextControl
from prompt_toolkit.output import Output

from sayso.channels.display.request_lines import Line, wrap_items
from sayso.channels.terminal.colours import STYLE, highlight_keys

_ARMING_SECONDS = 0.3  # type-ahead arrives sooner
_LONG_ARMING_SECONDS = 1.0  # after a question that vanished
_ALONE_SECONDS = 0.05  # before and after a key; faster input was pasted, not typed
ENTER = "\r"
NOT_YET = "…"  # in place of the legend until the guard is armed


class Closed(Exception):
    """The question was closed elsewhere while the user had it on the screen."""


class Interrupted(Exception):
    """The user pressed Ctrl-C."""


@dataclass(frozen=True, kw_only=True)
class Choice:
    """Key bindings of one prompt: keys that answer, and toggles that only change the legend."""

    keys: str
    legend: Callable[[], str]
    hint: Callable[[], str] = str  # above the legend, for as long as it is true
    toggles: Mapping[str, Callable[[], None]] = field(default_factory=dict[str, Callable[[], None]])
    is_idle: bool = False  # no step is in progress, so the user may select another request


class TypeAheadGuard:
    """Ignores type-ahead and pasted keys: a key counts only after 0.3 s and if no other key arrives within 50 ms."""

    def __init__(self, *, previous_vanished: bool = False) -> None:
        """Begin disarmed; arming takes longer if the previous question was closed elsewhere."""
        self.armed = False
        self._delay = _LONG_ARMING_SECONDS if previous_vanished else _ARMING_SECONDS
        self._on_armed: Callable[[], None] | None = None
        self._last = -math.inf  # time of the last key
        self._timers: list[asyncio.TimerHandle] = []

    @property
    def arming_started(self) -> bool:
        """Whether the guard is armed, or about to be."""
        return self.armed or bool(self._timers)

    def arm(self, on_armed: Callable[[], None]) -> None:
        """Accept keys after a short delay: the question has just been rendered."""
        self._on_armed = on_armed
        self._timers.append(asyncio.get_running_loop().call_later(self._delay, self._arm))

    def _arm(self) -> None:
        self.armed = True
        if self._on_armed is not None:
            self._on_armed()

    def disarm(self) -> None:
        """Ignore all keys."""
        self.armed = False
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()

    def note_other_key(self) -> None:
        """Note an unbound key: it shows that its neighbours were typed or pasted for something else."""
        self._last = asyncio.get_running_loop().time()
        if self._timers and self._on_armed is not None and not self.armed:  # it may be held down
            self.disarm()
            self.arm(self._on_armed)

    def accept_key(self, act: Callable[[], None]) -> None:
        """Act on a key if the guard is armed and no other key comes just before or after it."""
        before = self._last
        self.note_other_key()
        mine = self._last
        if not self.armed or mine - before < _ALONE_SECONDS:
            return

        def settle() -> None:
            if self._last == mine:
                act()

        self._timers.append(asyncio.get_running_loop().call_later(_ALONE_SECONDS, settle))


async def wait_for_key(
    choice: Choice, status: Callable[[], str], key_guard: TypeAheadGuard, *, keyboard: Input, screen: Output
) -> str:
    """Wait for one of the keys of a choice and return it.

    Raises:
        Interrupted: the user pressed Ctrl-C.
    """
    hint = _text_window(choice.hint, lambda row: [("class:said", row)])
    app: Application[str] = Application(
        layout=Layout(
            HSplit(
                [
                    ConditionalContainer(hint, filter=Condition(lambda: bool(choice.hint()))),
                    _text_window(status, lambda row: [("class:status", row)]),
                    _text_window(lambda: choice.legend() if key_guard.armed else NOT_YET, highlight_keys),
                ]
            )
        ),
        key_bindings=_bindings(choice, key_guard),
        style=STYLE,
        input=keyboard,
        output=screen,
        erase_when_done=True,
        refresh_interval=1.0,
        terminal_size_polling_interval=0.5,
    )
    _flush_type_ahead()
    try:
        return await app.run_async(pre_run=lambda: key_guard.arm(app.invalidate), handle_sigint=False)
    finally:
        key_guard.disarm()


def _text_window(text: Callable[[], str], styled: Callable[[str], Line]) -> Window:
    """Return a window as high as its wrapped text."""

    def wrapped() -> FormattedText:
        rows = map(styled, wrap_items(text(), get_app().output.get_size().columns - 1))
        return FormattedText([part for row in rows for part in [*row, ("", "\n")]][:-1])

    return Window(FormattedTextControl(wrapped), dont_extend_height=True, wrap_lines=True)


def _bindings(choice: Choice, key_guard: TypeAheadGuard) -> KeyBindings:
    found = KeyBindings()
    for key in choice.keys:
        found.add(Keys.Enter if key == ENTER else key)(_answer_handler(key, key_guard))
    for key, toggle in choice.toggles.items():
        found.add(key)(_toggle_handler(toggle, key_guard))

    @found.add(Keys.Any)
    @found.add(Keys.BracketedPaste)
    def _(_: KeyPressEvent) -> None:
        key_guard.note_other_key()

    @found.add(Keys.ControlC)
    def _(event: KeyPressEvent) -> None:
        key_guard.accept_key(lambda: exit_app(event.app, exception=Interrupted()))

    return found


def _answer_handler(key: str, key_guard: TypeAheadGuard) -> Callable[[KeyPressEvent], None]:
    return lambda event: key_guard.accept_key(lambda: exit_app(event.app, result=key))


def _toggle_handler(toggle: Callable[[], None], key_guard: TypeAheadGuard) -> Callable[[KeyPressEvent], None]:
    def act(event: KeyPressEvent) -> None:
        toggle()
        event.app.invalidate()

    return lambda event: key_guard.accept_key(lambda: act(event))


def exit_app(app: Application[Any], *, result: str | None = None, exception: BaseException | None = None) -> None:
    """End an application with a result or an exception, unless it has ended already."""
    if app.is_running and not app.is_done:
        if exception is None:
            app.exit(result=result)
        else:
            app.exit(exception=exception)


def _flush_type_ahead() -> None:
    with contextlib.suppress(termios.error, OSError, ValueError):
        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
