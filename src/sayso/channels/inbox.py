"""What a live inbox needs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

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
