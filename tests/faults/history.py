"""What really happened in a run: each process writes down what it begins and what came of it, before and after."""

import itertools
import os
import signal
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec

from sayso import ApprovalDecision, ApprovalRequest
from sayso.core.canonical import thaw

T = TypeVar("T")

Kind = Literal["open", "close", "claim", "run", "refused", "ready"]


class Word(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a request stands, or should: its status, whose answer that is, and the arguments, if they were edited."""

    status: str
    who: str = ""
    args: str = ""


class Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of a history. An operation without a second line has an unknown outcome, as has one that failed."""

    at: float  # by the clock that all processes of a machine share and nobody sets
    process: str
    number: int  # of the operation, in this process
    step: Literal["invoked", "returned", "failed"]
    kind: Kind
    call: str = ""  # either names the request
    request: str = ""
    meant: Word | None = None
    found: Word | None = None
    taken: bool | None = None
    said: str = ""


class Recorder:
    """The history of one process; what it wrote is there even if it is killed the moment after."""

    def __init__(self, file: Path, process: str, ring: Callable[[], None], *, fatal: int = 0) -> None:
        self._file = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._process, self._ring = process, ring
        self._numbers = itertools.count()
        self._left = fatal  # lines until this process dies of the last one; 0 for never

    def write(self, number: int, step: Literal["invoked", "returned", "failed"], kind: Kind, **facts: Any) -> None:
        event = Event(at=time.monotonic(), process=self._process, number=number, step=step, kind=kind, **facts)
        os.write(self._file, msgspec.json.encode(event) + b"\n")
        self._ring()
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    async def during(
        self, kind: Kind, work: Awaitable[T], result: Callable[[T], Word | bool | None], **facts: Any
    ) -> T:
        """Write down that this begins, and what came of it."""
        number = next(self._numbers)
        self.write(number, "invoked", kind, **facts)
        try:
            found = await work
        except BaseException as error:
            self.write(number, "failed", kind, said=f"{type(error).__name__}: {error}", **facts)
            raise
        seen = result(found)
        self.write(
            number,
            "returned",
            kind,
            found=seen if isinstance(seen, Word) else None,
            taken=seen if isinstance(seen, bool) else None,
            **facts,
        )
        return found

    def note(self, kind: Kind, **facts: Any) -> None:
        """Write down what has happened."""
        self.write(next(self._numbers), "returned", kind, **facts)


def read(file: Path, start: int = 0) -> tuple[list[Event], int]:
    """Return the events from a place on, and the place behind the last whole one."""
    with file.open("rb") as history:
        history.seek(start)
        lines, _, _ = history.read().rpartition(b"\n")
    found = [msgspec.json.decode(line, type=Event) for line in lines.split(b"\n") if line]
    return found, start + len(lines) + bool(lines)


def plain(args: Mapping[str, Any]) -> str:
    """Return arguments as they are compared."""
    return msgspec.json.encode(thaw(args), order="deterministic").decode()


def meaning(status: str, decision: ApprovalDecision | None) -> Word:
    """Return what a decision means a request to be."""
    if decision is None or status not in {"approved", "denied", "used"}:
        return Word(status)
    edited = decision.override_args
    return Word(status, decision.who or "", "" if edited is None else plain(edited))


def word_of(request: ApprovalRequest) -> Word:
    """Return how a request stands."""
    return meaning(request.status, request.decision)


def of_kind(events: Iterable[Event], kind: Kind, step: str = "returned") -> list[Event]:
    """Return the events of one kind."""
    return [each for each in events if (each.kind, each.step) == (kind, step)]
