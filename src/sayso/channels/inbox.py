"""What a live inbox needs, and the words for what becomes of requests in it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from sayso.channels.question import named
from sayso.model import ApprovalDecision, ApprovalRequest

if TYPE_CHECKING:
    from sayso.inbox import Inbox


class Told(NamedTuple):
    """What came of an answer, in a sentence, and which requests it has closed."""

    sentence: str
    closed: Sequence[str]


@dataclass(frozen=True, kw_only=True)
class Means:
    """What the screen needs from whoever opens it."""

    who: str
    inbox: Inbox
    answer: Callable[[ApprovalRequest, ApprovalDecision], Awaitable[Told]]  # or `StillOpen`
    names: Callable[[Iterable[str]], Mapping[str, str]]  # short names for ids


def closed_words(request: ApprovalRequest) -> str:
    """Say what has become of a request that somebody else closed."""
    decision = request.decision
    if request.status == "expired":
        return f"{named(request)} has expired: nobody answered in time."
    if request.status == "withdrawn" or decision is None:
        return f"{named(request)} was withdrawn: nobody waits for an answer any more."
    where = f" ({decision.channel})" if decision.channel else ""
    word = "allowed" if decision.approved else "denied"
    return f"{named(request)} was {word} by {decision.who or 'somebody'}{where}."
