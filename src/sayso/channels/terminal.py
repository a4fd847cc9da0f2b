"""The person at this terminal: asked with single keys, one question at a time, without stopping anybody's event loop.

Everything that touches the terminal happens in one thread of its own, so that it does not matter from which loop or
thread a question comes.
"""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import contextlib
import getpass
import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Coroutine, Generator
from pathlib import Path
from typing import Any, ClassVar, Literal

import msgspec

from sayso.canonical import freeze, parse_args, thaw
from sayso.channels.showing import shown
from sayso.channels.visible import visible
from sayso.model import ApprovalDecision, ApprovalRequest

try:
    from prompt_toolkit.application import create_app_session
    from prompt_toolkit.formatted_text import FormattedText
    from prompt_toolkit.input import Input, create_input
    from prompt_toolkit.output import Output, create_output
    from prompt_toolkit.output.vt100 import Vt100_Output
    from prompt_toolkit.patch_stdout import patch_stdout
    from prompt_toolkit.shortcuts import PromptSession, print_formatted_text

    from sayso.channels.keys import STYLE, pressed
except ImportError as error:
    raise ImportError("the terminal prompt is not installed; run `pip install sayso[cli]`") from error

Scope = Literal["call", "prefix", "folder", "tool"]

_KEYS = (
    "[y] allow once  [a] allow for…  [e] edit  [n] deny  [m] deny, with a note  [v] view all  [l] leave it  [q] quit"
)
_LIFETIMES: list[tuple[str, float | None]] = [
    ("this session", None),
    ("an hour", 3600.0),
    ("a day", 86_400.0),
]
_FAREWELL_SECONDS = 2.0


class TerminalChannel:
    """Asks whoever sits at this terminal: `ApprovalController(channels=[TerminalChannel()])`."""

    def __init__(self, *, who: str | None = None) -> None:
        """Name the person, whose login name it is if left out."""
        self._who = who or _login()

    async def announce(self, request: ApprovalRequest) -> ApprovalDecision | None:
        """Show the request and return the answer, or None if it is left to others."""
        problem = nobody()
        if problem is not None:
            return ApprovalDecision(approved=False, note=problem, channel="terminal")
        return await asyncio.wrap_future(_Desk.here().put(request, self._who))


def nobody() -> str | None:
    """Return why nobody can be asked here, or None if somebody can."""
    if os.environ.get("CI"):
        return "nobody can be asked: this is a CI run"
    try:
        ends = sys.stdin.isatty() and (sys.stderr.isatty() or sys.stdout.isatty())
    except (AttributeError, ValueError):  # closed, or none at all
        ends = False
    return None if ends else "nobody can be asked: there is no terminal"


def _login() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "somebody at the terminal"


class _Question:
    """A request that waits for its turn or has it."""

    def __init__(self, request: ApprovalRequest, who: str) -> None:
        self.request = request
        self.who = who
        self.number = 0  # among those that lie there together
        self.asked_at = time.monotonic()
        self.answer: concurrent.futures.Future[ApprovalDecision | None] = concurrent.futures.Future()
        self.closed = asyncio.Event()  # set in the desk's own loop


class _Desk:
    """The one thread that owns the terminal, and the questions that lie on it."""

    _here: ClassVar[_Desk | None] = None
    _lock: ClassVar[threading.Lock] = threading.Lock()

    @classmethod
    def here(cls) -> _Desk:
        """Return the desk of this process: there is one terminal, however many ask there."""
        with cls._lock:
            if cls._here is None or cls._here.process != os.getpid():
                cls._here = cls()
            return cls._here

    def __init__(self) -> None:
        self.process = os.getpid()
        self._loop = asyncio.new_event_loop()
        self._questions: list[_Question] = []
        self._count = 0
        self._working: asyncio.Task[None] | None = None
        self._thread = threading.Thread(target=self._loop.run_forever, name="sayso-terminal", daemon=True)
        self._thread.start()
        atexit.register(self._leave)

    def put(self, request: ApprovalRequest, who: str) -> concurrent.futures.Future[ApprovalDecision | None]:
        """Lay a question on the desk; whoever cancels what is returned takes it away again."""
        question = _Question(request, who)
        question.answer.add_done_callback(lambda _: self._loop.call_soon_threadsafe(question.closed.set))
        self._loop.call_soon_threadsafe(self._take, question)
        return question.answer

    def _take(self, question: _Question) -> None:
        if not self._questions:
            self._count = 0
        self._count += 1
        question.number = self._count
        self._questions.append(question)
        if self._working is None or self._working.done():
            self._working = self._loop.create_task(self._work())
            self._working.add_done_callback(self._worked)

    def _worked(self, work: asyncio.Task[None]) -> None:
        """Hand back what is left if the terminal failed: nobody must wait for an answer that cannot come."""
        error = None if work.cancelled() else work.exception()
        for question in self._questions if error is not None else ():
            if not question.answer.done():
                question.answer.set_exception(error)
        if error is not None:
            self._questions.clear()

    def _leave(self) -> None:
        """Give the terminal back as it was when the process ends in the middle of a question."""
        if self._thread.is_alive():
            with contextlib.suppress(RuntimeError, concurrent.futures.TimeoutError, concurrent.futures.CancelledError):
                asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(_FAREWELL_SECONDS)

    async def _stop(self) -> None:
        for question in self._questions:
            question.answer.cancel()
        if self._working is not None:
            with contextlib.suppress(asyncio.CancelledError):
                await self._working

    async def _work(self) -> None:
        with _terminal() as (keyboard, screen), create_app_session(input=keyboard, output=screen):
            while self._questions:
                question = self._questions[0]
                if not question.answer.done():
                    await self._handle(question, keyboard, screen)
                self._questions.remove(question)

    async def _handle(self, question: _Question, keyboard: Input, screen: Output) -> None:
        sheet = _Sheet(question, keyboard, screen, others=lambda: self._count)
        try:
            answer = await sheet.ask()
        except (EOFError, KeyboardInterrupt):
            answer = sheet.no("the terminal was closed")
        try:
            question.answer.set_result(answer)
        except concurrent.futures.InvalidStateError:
            sheet.say("This was answered elsewhere, has expired or was withdrawn.")
        else:
            sheet.say(_told(answer))


@contextlib.contextmanager
def _terminal() -> Generator[tuple[Input, Output]]:
    """Hold the terminal's two ends; what others print meanwhile goes above the question."""
    stream = sys.stderr if sys.stderr.isatty() else sys.stdout
    keyboard, screen = create_input(), create_output(stdout=stream)
    if isinstance(screen, Vt100_Output):
        screen.enable_cpr = False  # a question must not wait for what some terminals never say
    # What is written to a file or a pipe is nobody's business here.
    shared = sys.stdout.isatty() and sys.stderr.isatty()
    with patch_stdout(raw=True) if shared else contextlib.nullcontext():
        yield keyboard, screen


class _Sheet:
    """One question on the screen, and what the keys do with it."""

    def __init__(self, question: _Question, keyboard: Input, screen: Output, *, others: Callable[[], int]) -> None:
        self._question = question
        self._request = question.request
        self._keyboard = keyboard
        self._screen = screen
        self._who = question.who
        self._others = others
        self._seen_all = True

    async def ask(self) -> ApprovalDecision | None:
        """Show the question and follow keys until there is an answer; None if it is left, or answered elsewhere."""
        self._show(self._request, whole=False)
        actions: dict[str, Callable[[], Coroutine[Any, Any, ApprovalDecision | None]]] = {
            "y": self._allow,
            "a": self._allow_for,
            "e": self._edit,
            "m": self._deny_with_note,
            "v": self._view,
            "q": self._quit,
        }
        while True:
            key = await self._key("ynaemvlq", _KEYS)
            if key in {"", "l"}:
                return None
            answer = self.no(None) if key in {"n", "enter"} else await actions[key]()
            if answer is not None:
                return answer

    def no(self, note: str | None) -> ApprovalDecision:
        """Return a refusal."""
        return ApprovalDecision(approved=False, note=note, who=self._who, channel="terminal")

    def say(self, text: str) -> None:
        """Print a line of our own."""
        print_formatted_text(FormattedText([("class:status", text)]), style=STYLE, output=self._screen)

    async def _key(self, keys: str, words: str) -> str:
        return await pressed(
            keys, words, self._status, closed=self._question.closed, keyboard=self._keyboard, screen=self._screen
        )

    def _status(self) -> str:
        waited = time.monotonic() - self._question.asked_at
        # Once more what it is about: what is above may be long, and written by the agent.
        who = " > ".join(self._request.agent_path)
        what = visible(f"{who}: {self._request.tool_name}" if who else self._request.tool_name)
        facts = [f"Run {what}?", f"{self._question.number} of {self._others()}", f"waiting {_span(waited)}"]
        if self._request.expires_at is not None:
            facts.append(f"expires in {_span(max(self._request.expires_at - time.time(), 0))}")
        return " · ".join(facts)

    def _show(self, request: ApprovalRequest, *, whole: bool) -> None:
        found = shown(request, self._screen.get_size().columns, whole=whole)
        self._seen_all = found.whole
        text = FormattedText([("", "\n"), *(part for line in found.lines for part in [*line, ("", "\n")])])
        print_formatted_text(text, style=STYLE, output=self._screen, end="")

    async def _allow(self) -> ApprovalDecision | None:
        if not self._seen_all:
            self.say("Not everything was shown. Press v to see all of it first.")
            return None
        return ApprovalDecision(approved=True, who=self._who, channel="terminal")

    async def _view(self) -> None:
        self._show(self._request, whole=True)

    async def _allow_for(self) -> ApprovalDecision | None:
        """Offer what the request offers to remember, and for how long."""
        scopes = self._request.scopes
        if not self._seen_all or not scopes:
            self.say("Press v to see all of it first." if scopes else "The rule lets no answer be remembered.")
            return None
        lifetime = 0
        for number, scope in enumerate(scopes, 1):
            self.say(f"  [{number}] {visible(scope.label)}")
        while True:
            words = f"[1-{len(scopes)}] allow, for {_LIFETIMES[lifetime][0]}  [t] for how long  [b] back"
            key = await self._key("".join(map(str, range(1, len(scopes) + 1))) + "tb", words)
            if key == "t":
                lifetime = (lifetime + 1) % len(_LIFETIMES)
            elif key.isdigit():
                return self._remembered(scopes[int(key) - 1].kind, _LIFETIMES[lifetime][1])
            else:
                return None

    def _remembered(self, scope: Scope, seconds: float | None) -> ApprovalDecision:
        return ApprovalDecision(
            approved=True,
            remember="session" if seconds is None else "always",
            scope=scope,
            until=None if seconds is None else time.time() + seconds,
            who=self._who,
            channel="terminal",
        )

    async def _edit(self) -> ApprovalDecision | None:
        """Let the arguments be changed in the person's editor, show them as they are then, and ask once more."""
        try:
            edited = await asyncio.to_thread(_in_editor, thaw(self._request.args))
        except (OSError, ValueError) as problem:
            self.say(visible(f"Nothing was changed: {problem}"))
            return None
        changed = msgspec.structs.replace(self._request, args=edited, presentation=None)
        self._show(changed, whole=True)
        key = await self._key("yb", "[y] allow once, with these arguments  [b] back")
        if key != "y":
            self._show(self._request, whole=False)
            return None
        return ApprovalDecision(approved=True, override_args=edited, who=self._who, channel="terminal")

    async def _deny_with_note(self) -> ApprovalDecision | None:
        session: PromptSession[str] = PromptSession(input=self._keyboard, output=self._screen, erase_when_done=True)
        typing = asyncio.ensure_future(session.prompt_async("Why not? ", handle_sigint=False))
        closing = asyncio.ensure_future(self._question.closed.wait())
        try:
            await asyncio.wait({typing, closing}, return_when=asyncio.FIRST_COMPLETED)
            return self.no(typing.result().strip() or None) if typing.done() else None
        finally:
            closing.cancel()
            if not typing.done():
                session.app.exit(result="")
                await typing

    async def _quit(self) -> ApprovalDecision:
        """End the run as Ctrl-C does; the host's own code decides what that means."""
        os.kill(os.getpid(), signal.SIGINT)
        return self.no("the person at the terminal ended the run")


def _told(answer: ApprovalDecision | None) -> str:
    """Say what was answered, for whoever reads the screen later."""
    if answer is None:
        return "Left to others."
    if not answer.approved:
        return visible(f"Denied: {answer.note}" if answer.note else "Denied.")
    edited = "" if answer.override_args is None else ", with other arguments"
    return f"Allowed once{edited}." if answer.remember == "none" else "Allowed, and remembered."


def _in_editor(args: dict[str, Any]) -> dict[str, Any]:
    """Return what the person makes of arguments in their editor, as JSON."""
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    try:
        text = json.dumps(args, ensure_ascii=False, indent=2)
    except TypeError as error:  # written down in some other way, it would come back as something else
        raise ValueError(f"an argument is no plain data, and cannot be edited as text ({error})") from error
    with tempfile.TemporaryDirectory(prefix="sayso-") as folder:
        file = Path(folder, "arguments.json")
        file.write_text(f"{text}\n", encoding="utf-8")
        if subprocess.run([*shlex.split(editor), str(file)], check=False).returncode != 0:  # noqa: S603 - the person's own
            raise ValueError(f"{editor!r} ended with an error")
        return thaw(freeze(parse_args(file.read_text(encoding="utf-8"))))


def _span(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}" if minutes >= 60 else f"{minutes}:{rest:02}"  # noqa: PLR2004 - minutes of an hour
