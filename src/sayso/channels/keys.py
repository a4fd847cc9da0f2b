"""Single keys as answers: only what is typed at the question counts, one key at a time."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import termios
import textwrap
from collections.abc import Callable

from prompt_toolkit.application import Application, get_app
from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import HSplit, Layout, Window
from prompt_toolkit.layout.controls import FormattedTextControl
from prompt_toolkit.output import Output
from prompt_toolkit.styles import Style

STYLE = Style.from_dict(
    {
        "who": "bold", "tool": "bold underline", "name": "", "heading": "italic", "status": "bold", "keys": "",
        "folded": "italic", "number": "", "added": "ansigreen", "removed": "ansired", "hunk": "ansicyan",
        "asks": "ansiyellow", "blocked": "ansired", "gutter": "",
    }
)  # fmt: skip
_ARMING_SECONDS = 0.3  # a key that was meant for something else comes sooner
_ALONE_SECONDS = 0.05  # after a key; what comes faster was pasted, not typed
_CLOSED = ""
_NARROWEST = 20


async def pressed(
    keys: str,
    words: str,
    status: Callable[[], str],
    *,
    closed: asyncio.Event,
    keyboard: Input,
    screen: Output,
) -> str:
    """Wait for one of the keys and return it: "enter" for that key, and "" if the question was closed meanwhile."""
    wait = _Wait(keys)  # the keys are shown when they count
    app: Application[str] = Application(
        layout=Layout(HSplit([_row("class:status", status), _row("class:keys", lambda: words if wait.armed else "…")])),
        key_bindings=wait.bindings,
        style=STYLE,
        input=keyboard,
        output=screen,
        erase_when_done=True,
        refresh_interval=1.0,
        terminal_size_polling_interval=0.5,
    )
    _forget_what_was_typed()
    running = asyncio.ensure_future(app.run_async(pre_run=wait.arm, handle_sigint=False))
    closing = asyncio.ensure_future(closed.wait())
    try:
        await asyncio.wait({running, closing}, return_when=asyncio.FIRST_COMPLETED)
        if not running.done():
            app.exit(result=_CLOSED)
        return await running
    finally:
        closing.cancel()
        wait.disarm()


def _row(style: str, text: Callable[[], str]) -> Window:
    """Return a text that is as high as it has to be, broken between words."""

    def broken() -> FormattedText:
        width = max(get_app().output.get_size().columns - 1, _NARROWEST)
        return FormattedText([(style, textwrap.fill(text(), width, break_on_hyphens=False))])

    return Window(FormattedTextControl(broken), dont_extend_height=True)


class _Wait:
    """Counts keys: before it is armed none, and then only one that comes alone."""

    def __init__(self, keys: str) -> None:
        self.bindings = KeyBindings()
        self.armed = False
        self._burst = 0
        self._timers: list[asyncio.TimerHandle] = []
        for key in keys:
            self.bindings.add(key)(self._take)
        self.bindings.add(Keys.Enter)(self._take)
        self.bindings.add(Keys.Any)(self._ignore)
        self.bindings.add(Keys.BracketedPaste)(self._ignore)
        self.bindings.add(Keys.ControlC)(self._take)

    def arm(self) -> None:
        """Begin to count a moment after the question is on the screen."""
        loop = asyncio.get_running_loop()
        self._timers.append(loop.call_later(_ARMING_SECONDS, self._set, get_app()))

    def disarm(self) -> None:
        """Stop all timers."""
        for timer in self._timers:
            timer.cancel()

    def _set(self, app: Application[object]) -> None:
        self.armed = True
        app.invalidate()

    def _ignore(self, _: KeyPressEvent) -> None:
        self._burst += 1

    def _take(self, event: KeyPressEvent) -> None:
        self._burst += 1
        if not self.armed:
            return
        pressed = event.key_sequence[0].key
        name = {Keys.ControlM: "enter", Keys.Enter: "enter", Keys.ControlC: "q"}.get(pressed, str(pressed))  # type: ignore[call-overload]
        burst = self._burst

        def settle() -> None:
            if self._burst == burst and event.app.is_running:
                event.app.exit(result=name)

        self._timers.append(asyncio.get_running_loop().call_later(_ALONE_SECONDS, settle))


def _forget_what_was_typed() -> None:
    with contextlib.suppress(termios.error, OSError, ValueError):
        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
