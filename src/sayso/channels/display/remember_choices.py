"""Choices for a remembered approval: scope, lifetime (TTL) and number of uses, each with its real effect in words.

Tests: tests/channels/terminal/test_remembering.py
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from sayso.channels.display.durations import format_duration_in_words
from sayso.channels.display.request_lines import Line, edited_names, hanging_indent
from sayso.core.decide import also_closes
from sayso.core.model import ApprovalDecision, ApprovalRequest, Remembered, Scope

_SPANS = ((3600.0, "an hour"), (86_400.0, "a day"), (7 * 86_400.0, "a week"), (30 * 86_400.0, "30 days"))
Uses = tuple[int | None, str]
USES: tuple[Uses, ...] = (
    (None, "any number of times"),
    (1, "once more"),
    (3, "3 times more"),
    (10, "10 times more"),
)
_ALSO = {
    "call": "and nothing else",
    "prefix": "whatever else follows these words",
    "folder": "including files that are created there later",
    "tool": "including calls that look nothing like this one",
}
_ALSO_BY_PAYLOAD = "whatever the other arguments are"


class Lifetime(NamedTuple):
    """TTL of a remembered decision: for the session or for all sessions, and for how many seconds."""

    words: str
    remember: Literal["session", "always"]
    seconds: float | None


def lifetimes(longest: float | None) -> list[Lifetime]:
    """Return the lifetimes to choose from, where the rules cap them at `longest` seconds."""
    everywhere = [
        Lifetime(f"for {words}, in every session", "always", seconds)
        for seconds, words in _SPANS
        if longest is None or seconds < longest
    ]
    if longest is None:
        return [
            Lifetime("in this session", "session", None),
            *everywhere,
            Lifetime("for ever, in every session", "always", None),
        ]
    most = dict(_SPANS).get(longest) or format_duration_in_words(longest)
    return [
        Lifetime(f"in this session, for {most} at most", "session", None),
        *everywhere,
        Lifetime(f"for {most}, in every session; the rules allow no longer", "always", longest),
    ]


def also_allowed(request: ApprovalRequest, scope: Scope) -> str:
    """Return which other calls an approval of this scope would allow."""
    payload = request.payload if scope.kind == "call" else None
    if payload is None or not edited_names(
        request.args, {name: payload[name] for name in payload if name in request.args}
    ):
        return _ALSO[scope.kind]
    return _ALSO_BY_PAYLOAD


@dataclass(frozen=True, kw_only=True)
class RememberedApproval:
    """An approval to be remembered: scope, lifetime and number of uses."""

    request: ApprovalRequest
    scope: Scope
    lifetime: Lifetime
    uses: int | None

    @property
    def problem(self) -> str | None:
        """Why this combination is invalid, if it is."""
        if self.scope.parts and self.uses is not None:
            return "A yes to several commands cannot be limited to a number of uses"
        return None

    def decision(self, *, who: str, channel: str) -> ApprovalDecision:
        """Return the decision; its lifetime begins now."""
        seconds = self.lifetime.seconds
        return ApprovalDecision(
            approved=True,
            remember=self.lifetime.remember,
            scope=self.scope.kind,
            until=None if seconds is None else time.time() + seconds,
            uses=self.uses,
            who=who,
            channel=channel,
        )

    def also_covers(self, others: Iterable[ApprovalRequest]) -> list[ApprovalRequest]:
        """Return which other requests would get the same answer; a counted approval covers no others."""
        keys = set(self.scope.keys)
        if self.uses is not None or "" in keys:  # a hub does not disclose the keys
            return []
        remembered = Remembered(
            id="",
            tool=self.request.tool_name,
            scope=self.scope,
            decision=self.decision(who="", channel=""),
            session=None if self.lifetime.remember == "always" else self.request.session,
            remembered_at=0.0,
            schema_hash=self.request.schema_hash,
            project=self.request.project,
        )
        now = time.time()
        return [other for other in others if also_closes(remembered, keys, self.request, other, now)]


class RememberChoices:
    """State of the remember menu: lifetime and uses are cycled by keys, and then a scope is chosen."""

    def __init__(self, request: ApprovalRequest, others: Callable[[], Sequence[ApprovalRequest]]) -> None:
        """Begin with the shortest lifetime; `others` returns the requests that the answer might also close."""
        self._request = request
        self._others = others
        self._lifetimes = lifetimes(request.remember_max)
        self._uses = list(USES)

    def next_lifetime(self) -> None:
        """Cycle to the next lifetime."""
        self._lifetimes.append(self._lifetimes.pop(0))

    def next_uses(self) -> None:
        """Cycle to the next number of uses."""
        self._uses.append(self._uses.pop(0))

    def lines(self, width: int) -> Iterator[Line]:
        """Yield the scopes, each with the other calls it would allow."""
        yield []
        yield [("class:heading", "allow, and remember it for")]
        for number, scope in enumerate(self._request.scopes, 1):
            yield from hanging_indent(("class:keys", f"  [{number}] "), scope.label, width)
            yield from hanging_indent(("", "      "), also_allowed(self._request, scope), width)

    def legend(self) -> str:
        """Return the key legend: the effect of each key with the lifetime and uses selected now."""
        scopes = self._request.scopes
        numbers = "1" if len(scopes) == 1 else f"1-{len(scopes)}"
        terms = f"{self._lifetimes[0].words}, {self._uses[0][1]}"
        also_answered = [
            f"[{at}] also answers {count} more open request{'' if count == 1 else 's'}"
            for at, scope in enumerate(scopes, 1)
            if (count := len(self.approval_for(scope).also_covers(self._others())))
        ]
        return "\n".join([f"[{numbers}] allow {terms}", *also_answered, "[t] for how long  [u] how often  [b] back"])

    def approval_for(self, scope: Scope) -> RememberedApproval:
        """Return the approval for a scope with the lifetime and uses selected now."""
        return RememberedApproval(
            request=self._request, scope=scope, lifetime=self._lifetimes[0], uses=self._uses[0][0]
        )
