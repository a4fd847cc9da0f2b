"""The person at this terminal: asked with single keys, one question at a time, without stopping anybody's event loop.

Everything that touches the terminal happens in one thread of its own, so that it does not matter from which loop or
thread a question comes.
"""

from __future__ import annotations

import asyncio
import atexit
import codecs
import concurrent.futures
import contextlib
import getpass
import os
import signal
import sys
import threading
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

from sayso.core.model import ApprovalDecision, ApprovalRequest, Seen
from sayso.core.ports import Hearing

try:
    from prompt_toolkit.utils import is_dumb_terminal

    from sayso.channels.terminal.bulk_answer import answer_together
    from sayso.channels.terminal.dialog import Action, Answer, Sheet, told
    from sayso.channels.terminal.keys import ENTER, Closed, Interrupted
    from sayso.channels.terminal.prompt import Ends, Prompt, shared_terminal
    from sayso.channels.terminal.question import Question
except ImportError as error:
    raise ImportError("the terminal prompt is not installed; run `pip install sayso[cli]`") from error

T = TypeVar("T")
_CHANNEL = "terminal"
_FAREWELL_SECONDS = 2.0
_GONE = "This was answered elsewhere, has expired or was withdrawn."


class TerminalChannel:
    """Asks whoever sits at this terminal: `ApprovalController(channels=[TerminalChannel()])`."""

    def __init__(self, *, who: str | None = None) -> None:
        """Name the person, whose login name it is if left out."""
        self._who = who or _login()

    async def announce(self, request: ApprovalRequest) -> ApprovalDecision | None:
        """Show the request and return the answer, or None if it is left to others."""
        return await self._ask(request, None)

    async def hear(self, request: ApprovalRequest, hearing: Hearing) -> ApprovalDecision | None:
        """Do the same with a hearing: an edit is judged before it is answered, and people see who else looks."""
        return await self._ask(request, _DistantHearing(hearing, asyncio.get_running_loop()))

    async def _ask(self, request: ApprovalRequest, hearing: Hearing | None) -> ApprovalDecision | None:
        problem = nobody()
        if problem is not None:
            return ApprovalDecision(approved=False, note=problem, channel=_CHANNEL)
        question = Question(request, who=self._who, channel=_CHANNEL, hearing=hearing)
        return await asyncio.wrap_future(_Desk.here().put(question))


def nobody() -> str | None:
    """Return why nobody can be asked here, or None if somebody can."""
    if os.environ.get("CI"):
        return "nobody can be asked: this is a CI run"
    try:
        ends = sys.stdin.isatty() and (sys.stderr.isatty() or sys.stdout.isatty())
    except (AttributeError, ValueError):  # closed, or none at all
        ends = False
    problem = unfit() if ends else "there is no terminal"
    return None if problem is None else f"nobody can be asked: {problem}"


def unfit() -> str | None:
    """Return why this terminal cannot show a question as it is, or None if it can."""
    if is_dumb_terminal():
        return "this terminal cannot move its cursor (TERM=dumb; use one that can)"
    encoding = (sys.stderr if sys.stderr.isatty() else sys.stdout).encoding or "utf-8"
    if codecs.lookup(encoding).name != "utf-8":  # else texts that differ could look alike
        return f"this terminal takes {encoding}, which cannot show every character (set LC_ALL=C.UTF-8)"
    return None


def _login() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "somebody at the terminal"


class _DistantHearing:
    """A hearing that is at home in another loop, and has to be held there."""

    def __init__(self, hearing: Hearing, home: asyncio.AbstractEventLoop) -> None:
        self._hearing = hearing
        self._home = home

    async def edited(self, args: Mapping[str, Any]) -> ApprovalRequest:
        """Return the request as it would be asked with these arguments; see `Hearing`."""
        return await self._at_home(self._hearing.edited(args))

    async def seen(self, who: str, channel: str) -> tuple[Seen, ...]:
        """Note who has it before them, and return all who have; see `Hearing`."""
        return await self._at_home(self._hearing.seen(who, channel))

    async def _at_home(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            held = asyncio.run_coroutine_threadsafe(work, self._home)
        except RuntimeError:  # that loop has ended, and the run that asked with it
            work.close()
            raise Closed from None
        return await asyncio.wrap_future(held)


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
        self._questions: list[Question] = []
        self._count = 0
        self._startled = False  # the last question went away by itself
        self._working: asyncio.Task[None] | None = None
        self._thread = threading.Thread(target=self._loop.run_forever, name="sayso-terminal", daemon=True)
        self._thread.start()
        atexit.register(self._leave)

    def put(self, question: Question) -> concurrent.futures.Future[ApprovalDecision | None]:
        """Lay a question on the desk; whoever cancels what is returned takes it away again."""
        question.answer.add_done_callback(lambda _: self._loop.call_soon_threadsafe(question.closed.set))
        self._loop.call_soon_threadsafe(self._take, question)
        return question.answer

    def _take(self, question: Question) -> None:
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
            await asyncio.wait({self._working}, timeout=_FAREWELL_SECONDS / 2)
            self._working.cancel()  # in the middle of a note, or of an edit
            await asyncio.wait({self._working})

    async def _work(self) -> None:
        with shared_terminal() as ends:
            while self._questions:
                question = self._questions[0]
                if not question.answer.done():
                    await self._handle(question, ends)
                self._questions.remove(question)

    async def _handle(self, question: Question, ends: Ends) -> None:
        def status() -> str:
            return question.status(f"{question.number} of {self._count}")

        stage = Prompt(question, status, ends=ends, startled=self._startled)
        looking = asyncio.ensure_future(question.look_round())
        try:
            answer = await self._asked(question, stage)
        finally:
            looking.cancel()
        self._startled = answer is None or not question.settle(None if answer == "left" else answer)
        sentence = _GONE if answer is None or self._startled else told(answer)
        stage.tell([[("class:status", sentence)]])

    async def _asked(self, question: Question, stage: Prompt) -> Answer | None:
        """Return the answer, or None if none is wanted any more."""
        sheet = Sheet(
            question,
            stage,
            waiting=lambda: [each.request for each in self._waiting()],
            more={**_here(question), "o": lambda: answer_together(question, self._waiting(), stage)},
            without="" if question.can_be_allowed else "yae",
        )
        try:
            return await sheet.ask()
        except Closed:
            return None
        except Interrupted:
            return _ended(question)
        except EOFError:
            return question.no("the terminal was closed")

    def _waiting(self) -> Sequence[Question]:
        return [each for each in self._questions if not each.answer.done()]


def _here(question: Question) -> Mapping[str, Action]:
    """Return what keys do that have a meaning only where the run itself is."""

    async def deny() -> Answer:
        return question.no()

    async def leave() -> Answer:
        return "left"

    async def end() -> Answer:
        return _ended(question)

    return {ENTER: deny, "l": leave, "q": end}


def _ended(question: Question) -> ApprovalDecision:
    """End the run as Ctrl-C does; the host's own code decides what that means."""
    os.kill(os.getpid(), signal.SIGINT)
    return question.no("the person at the terminal ended the run")
