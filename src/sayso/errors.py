"""The exception hierarchy: every error that sayso raises on purpose.

ApprovalError(PermissionError)      a call that did not run
├── ApprovalDenied                  a person, a mode or a remembered decision said no, or nobody could be asked
├── ApprovalBlocked                 the policy never lets it run; also named BlockedError
├── ApprovalTimeout(TimeoutError)   nobody answered in time
├── ApprovalCancelled               the question was withdrawn before an answer
└── ApprovalPending                 it waits for an answer, but this caller does not wait
ConfigurationError(ValueError)      sayso was set up wrongly; nothing was judged
└── PolicyError                     a policy file with mistakes, each with its place
CanonicalError(ValueError)          arguments that no approval can be bound to
StoreError(RuntimeError)            the store cannot be read or written
└── AuditError                      the chain of the audit is broken
NotEntitled(PermissionError)        a person who may not give this answer
Unattended(LookupError)             a channel at which no person can be asked
StillOpen(ValueError)               an answer that was not accepted; the request stays open
UnknownRequest(LookupError)         no request has this id
AlreadyResuming(RuntimeError)       a parked run that another process is resuming
PathEscape(PermissionError)         a path leads out of the folder that it has to stay in
ToolError(RuntimeError)             a tool that was allowed to run failed; the message is for the model

Tests: tests/core/test_model.py
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from sayso.core.model import ApprovalRequest


class ApprovalError(PermissionError):
    """A tool call that did not run, and why."""

    # PermissionError is an OSError, which would read two arguments as errno and strerror;
    # overriding __init__ and passing one message keeps str() and args plain.
    def __init__(self, tool: str, reason: str, *, cause: str = "", note: str | None = None) -> None:
        super().__init__(f"{tool!r} did not run: {reason}")
        self.tool = tool
        self.reason = reason
        self.cause = cause
        self.note = note

    def __reduce__(self) -> tuple[object, ...]:
        """Support pickling, which a process pool does to every exception."""
        return _rebuild, (type(self), self.tool, self.reason, self.__dict__)


def _rebuild(kind: type[ApprovalError], tool: str, reason: str, facts: dict[str, object]) -> ApprovalError:
    error = kind(tool, reason)
    error.__dict__.update(facts)
    return error


class ApprovalDenied(ApprovalError):
    """A person, a mode or a remembered decision said no."""


class ApprovalBlocked(ApprovalError):
    """The policy never lets this call run; nobody was asked."""


BlockedError = ApprovalBlocked


class ApprovalTimeout(ApprovalError, TimeoutError):
    """Nobody answered in time, so the call did not run."""


class ApprovalCancelled(ApprovalError):
    """The question was withdrawn before it was answered."""


class ApprovalPending(ApprovalError):
    """The call waits for an answer; run it later with the request's id."""

    request: ApprovalRequest

    @classmethod
    def for_request(cls, request: ApprovalRequest) -> ApprovalPending:
        """Build the error that carries this open request."""
        error = cls(request.tool, f"it waits for an answer to request {request.id}", cause="pending")
        error.request = request
        return error


class ConfigurationError(ValueError):
    """sayso was set up in a way that has no safe meaning."""


class PolicyError(ConfigurationError):
    """A policy file with mistakes, all of them."""

    def __init__(self, mistakes: Sequence[Mistake]) -> None:
        super().__init__("\n".join(map(str, mistakes)))
        self.mistakes = tuple(mistakes)


class Mistake(NamedTuple):
    """One mistake in a file, with its position."""

    source: str
    line: int | None
    column: int | None
    message: str

    def __str__(self) -> str:
        """Return text such as `sayso.yaml:12:3: tools.shell is …`."""
        place = f":{self.line}:{self.column}" if self.line else ""
        return f"{self.source}{place}: {self.message}"


class CanonicalError(ValueError):
    """Arguments without a canonical form, so no approval can be bound to them."""


class StoreError(RuntimeError):
    """The store could not be opened, read or written."""


class AuditError(StoreError):
    """An entry of the audit was changed, dropped or moved."""


class NotEntitled(PermissionError):
    """A person gave an answer that they may not give; the request is still open."""


class Unattended(LookupError):
    """A channel has no person to ask. If no other channel can answer either, the question is withdrawn."""


class StillOpen(ValueError):
    """An answer was not accepted, and the request is still open; the message says why."""


class UnknownRequest(LookupError):
    """No request has this id."""


class AlreadyResuming(RuntimeError):
    """Another process is resuming this parked run."""


class PathEscape(PermissionError):
    """A path leads out of the folder that it has to stay in."""


class ToolError(RuntimeError):
    """A tool failed; the message is for the model, which can try something else."""
