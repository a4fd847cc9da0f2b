"""Terminal channel: asks with single keys, one question at a time, and blocks no event loop.

One thread owns the terminal, so that questions may come from any loop or thread.
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
from sayso.core.ports import RequestHandle
from sayso.errors import Unattended

try:
    from prompt_toolkit.utils import is_dumb_terminal

    from sayso.channels.terminal.bulk_answer import answer_in_bulk
    from sayso.channels.terminal.captured_output import is_terminal, terminal_stream
    from sayso.channels.terminal.dialog import Action, Answer, QuestionDialog, answer_text
    from sayso.channels.terminal.keys import ENTER, Closed, Interrupted
    from sayso.channels.terminal.prompt import Prompt, TerminalIO, shared_terminal
    from sayso.channels.terminal.question import Question
except ImportError as error:
    raise ImportError("the terminal prompt is not installed; run `pip install sayso[cli]`") from error

T = TypeVar("T")
_CHANNEL = "terminal"
_FAREWELL_SECONDS = 2.0
_NO_TERMINAL = "there is no terminal"
_GONE = "This was answered elsewhere, has expired or was withdrawn."
_COVERED = "Your last answer answers this too."


class TerminalChannel:
    """Channel for the user of this terminal: `ApprovalController(channels=[TerminalChannel()])`."""

    def __init__(self, *, who: str | None = None) -> None:
        """Name the approver; the login name if left out."""
        self._who = who or _login()

    async def announce(self, request: ApprovalRequest) -> ApprovalDecision | None:
        """Show the request and return the answer, or None if the user leaves it to other approvers."""
        return await self._submit(request, None)

    async def ask_interactively(self, request: ApprovalRequest, handle: RequestHandle) -> ApprovalDecision | None:
        """Ask with a handle: edits are previewed by policy and tool, and viewers see each other (presence)."""
        return await self._submit(request, _CrossLoopHandle(handle, asyncio.get_running_loop()))

    async def _submit(self, request: ApprovalRequest, handle: RequestHandle | None) -> ApprovalDecision | None:
        problem = unavailable_reason()
        if problem is not None:
            raise Unattended(problem)
        question = Question(request, who=self._who, channel=_CHANNEL, handle=handle)
        return await asyncio.wrap_future(_TerminalThread.instance().submit(question))


def unavailable_reason() -> str | None:
    """Return why no user can be asked at this terminal, or None."""
    if os.environ.get("CI"):
        return "nobody can be asked: this is a CI run"
    problem = unsupported_reason() if is_terminal(sys.stdin) else _NO_TERMINAL
    return None if problem is None else f"nobody can be asked: {problem}"


def unsupported_reason() -> str | None:
    """Return why this terminal cannot display a question faithfully, or None."""
    stream = terminal_stream()
    if stream is None:
        return _NO_TERMINAL
    if is_dumb_terminal():
        return "this terminal cannot move its cursor (TERM=dumb; use one that can)"
    encoding = stream.encoding or "utf-8"
    if codecs.lookup(encoding).name != "utf-8":  # otherwise different texts could look alike
        return f"this terminal takes {encoding}, which cannot show every character (set LC_ALL=C.UTF-8)"
    return None


def _login() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "somebody at the terminal"


class _CrossLoopHandle:
    """Proxy of a request handle that belongs to another event loop; its calls run there."""

    def __init__(self, handle: RequestHandle, owner_loop: asyncio.AbstractEventLoop) -> None:
        self._handle = handle
        self._owner_loop = owner_loop

    async def preview_edit(self, args: Mapping[str, Any]) -> ApprovalRequest:
        """Return the request with these arguments, as policy and tool judge them."""
        return await self._in_owner_loop(self._handle.preview_edit(args))

    async def mark_seen(self, who: str, channel: str) -> tuple[Seen, ...]:
        """Mark the request as viewed, and return all viewers."""
        return await self._in_owner_loop(self._handle.mark_seen(who, channel))

    async def pending(self) -> list[ApprovalRequest]:
        """Return all open requests of the store."""
        return await self._in_owner_loop(self._handle.pending())

    async def _in_owner_loop(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            result = asyncio.run_coroutine_threadsafe(work, self._owner_loop)
        except RuntimeError:  # that loop has ended, and with it the run that asked
            work.close()
            raise Closed from None
        return await asyncio.wrap_future(result)


class _TerminalThread:
    """The one thread that owns the terminal, with its queue of questions."""

    _instance: ClassVar[_TerminalThread | None] = None
    _lock: ClassVar[threading.Lock] = threading.Lock()

    @classmethod
    def instance(cls) -> _TerminalThread:
        """Return the singleton of this process: all runs share one terminal."""
        with cls._lock:
            if cls._instance is None or cls._instance.process != os.getpid():
                cls._instance = cls()
            return cls._instance

    def __init__(self) -> None:
        self.process = os.getpid()
        self._loop = asyncio.new_event_loop()
        self._questions: list[Question] = []
        self._count = 0
        self._previous_vanished = False  # the last question was closed elsewhere
        self._covered: set[str] = set()  # ids of the requests that the answers given here answer too
        self._queue_task: asyncio.Task[None] | None = None
        self._thread = threading.Thread(target=self._loop.run_forever, name="sayso-terminal", daemon=True)
        self._thread.start()
        atexit.register(self._shutdown)

    def submit(self, question: Question) -> concurrent.futures.Future[ApprovalDecision | None]:
        """Enqueue a question; cancelling the future that is returned removes it."""
        question.answer.add_done_callback(lambda _: self._loop.call_soon_threadsafe(question.closed.set))
        self._loop.call_soon_threadsafe(self._enqueue, question)
        return question.answer

    def _enqueue(self, question: Question) -> None:
        if not self._questions:
            self._count = 0
        self._count += 1
        question.number = self._count
        self._questions.append(question)
        if self._queue_task is None or self._queue_task.done():
            self._queue_task = self._loop.create_task(self._run_queue())
            self._queue_task.add_done_callback(self._on_queue_done)

    def _on_queue_done(self, work: asyncio.Task[None]) -> None:
        """Fail the remaining questions if the terminal failed: no caller must wait for ever."""
        error = None if work.cancelled() else work.exception()
        for question in self._questions if error is not None else ():
            if not question.answer.done():
                question.answer.set_exception(error)
        if error is not None:
            self._questions.clear()

    def _shutdown(self) -> None:
        """Restore the terminal when the process ends in the middle of a question."""
        if self._thread.is_alive():
            with contextlib.suppress(RuntimeError, concurrent.futures.TimeoutError, concurrent.futures.CancelledError):
                asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(_FAREWELL_SECONDS)

    async def _stop(self) -> None:
        for question in self._questions:
            question.answer.cancel()
        if self._queue_task is not None:
            await asyncio.wait({self._queue_task}, timeout=_FAREWELL_SECONDS / 2)
            self._queue_task.cancel()  # it may be reading a note or an edit
            await asyncio.wait({self._queue_task})

    async def _run_queue(self) -> None:
        while self._questions:
            with shared_terminal() as terminal:
                while self._questions and terminal.captured.is_active:
                    question = self._questions[0]
                    if not question.answer.done():
                        await self._handle(question, terminal)
                    self._questions.remove(question)

    async def _handle(self, question: Question, terminal: TerminalIO) -> None:
        def status() -> str:
            return question.status(f"{question.number} of {self._count}")

        prompt = Prompt(question, status, terminal=terminal, previous_vanished=self._previous_vanished)
        presence = asyncio.ensure_future(question.report_presence())
        try:
            answer = await self._ask(question, prompt)
        finally:
            presence.cancel()
        is_gone = answer is None or question.answer.done()
        gone = _COVERED if question.request.id in self._covered else _GONE
        words = gone if answer is None or is_gone else answer_text(answer, also=len(question.also_answers))
        prompt.show_lines([[("class:status", words)]])
        if len(self._waiting()) <= 1:
            terminal.captured.release()  # before the run goes on and prints
        self._previous_vanished = is_gone or not question.settle(None if answer == "left" else answer)
        if self._previous_vanished and not is_gone:
            prompt.show_lines([[("class:status", gone)]])
        if not self._previous_vanished:
            self._covered.update(question.also_answers)

    async def _ask(self, question: Question, view: Prompt) -> Answer | None:
        """Return the answer, or None if the question was closed elsewhere."""
        dialog = QuestionDialog(
            question,
            view,
            waiting=lambda: [each.request for each in self._waiting()],
            extra_actions={**_local_actions(question), "o": lambda: answer_in_bulk(question, self._waiting(), view)},
            disabled_keys="" if question.can_be_allowed else "yae",
        )
        try:
            return await dialog.ask()
        except Closed:
            return None
        except Interrupted:
            return _interrupt_run(question)
        except EOFError:
            return question.no("the terminal was closed")

    def _waiting(self) -> Sequence[Question]:
        return [each for each in self._questions if not each.answer.done()]


def _local_actions(question: Question) -> Mapping[str, Action]:
    """Return the actions of keys that make sense only in the process of the run itself."""

    async def deny() -> Answer:
        return question.no()

    async def leave_to_others() -> Answer:
        return "left"

    async def quit_run() -> Answer:
        return _interrupt_run(question)

    return {ENTER: deny, "l": leave_to_others, "q": quit_run}


def _interrupt_run(question: Question) -> ApprovalDecision:
    """End the run as Ctrl-C does, by SIGINT; the host's own handler decides what follows."""
    os.kill(os.getpid(), signal.SIGINT)
    return question.no("the person at the terminal ended the run")
