"""How long and how often an answer is to stand: what a person can choose, in words that say what will really happen."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Literal, NamedTuple

from sayso.channels.showing import Line, hanging
from sayso.model import ApprovalDecision, ApprovalRequest, Remembered, Scope

_SPANS = ((3600.0, "an hour"), (86_400.0, "a day"), (7 * 86_400.0, "a week"), (30 * 86_400.0, "30 days"))
_UNITS = ((86_400, "day"), (3600, "hour"), (60, "minute"), (1, "second"))
_USES = ((None, "any number of times"), (1, "once more"), (3, "3 times more"), (10, "10 times more"))
_ALSO = {
    "call": "and nothing else",
    "prefix": "also with whatever else is written behind it",
    "folder": "also every file that is put there later",
    "tool": "also calls that look quite unlike this one",
}
_ALSO_BY_PAYLOAD = "also if arguments that are not named here differ"


class Lifetime(NamedTuple):
    """How long: in this session or in all, and for how many seconds."""

    words: str
    remember: Literal["session", "always"]
    seconds: float | None


def lifetimes(longest: float | None) -> list[Lifetime]:
    """Return what can be chosen where the rules let nothing stand longer than this."""
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
    most = _span(longest)
    return [
        Lifetime(f"in this session, for {most} at most", "session", None),
        *everywhere,
        Lifetime(f"for {most}, in every session; the rules allow no longer", "always", longest),
    ]


def _span(seconds: float) -> str:
    known = next((words for each, words in _SPANS if each == seconds), None)
    size, unit = next((each for each in _UNITS if seconds >= each[0] and seconds % each[0] == 0), (1, "second"))
    count = f"{seconds / size:g}"
    return known or f"{count} {unit}{'' if count == '1' else 's'}"


class Terms:
    """The terms of an answer that stands: they are turned round until they fit, and then one scope is chosen."""

    def __init__(self, request: ApprovalRequest, others: Callable[[], Sequence[ApprovalRequest]]) -> None:
        """Begin with the shortest; `others` are those that the answer might answer too."""
        self._request = request
        self._others = others
        self._lifetimes = lifetimes(request.remember_max)
        self._uses = list(_USES)

    def next_lifetime(self) -> None:
        """Go on to the next time."""
        self._lifetimes.append(self._lifetimes.pop(0))

    def next_uses(self) -> None:
        """Go on to the next number of uses."""
        self._uses.append(self._uses.pop(0))

    def lines(self, width: int) -> Iterator[Line]:
        """Yield the scopes, each with what else it would allow."""
        yield []
        yield [("class:heading", "allow, and let it stand for")]
        for number, scope in enumerate(self._request.scopes, 1):
            by_payload = scope.kind == "call" and self._request.payload is not None
            yield from hanging(("class:keys", f"  [{number}] "), scope.label, width)
            yield from hanging(("", "      "), _ALSO_BY_PAYLOAD if by_payload else _ALSO[scope.kind], width)

    def words(self) -> str:
        """Say which keys there are, and what each would really do now."""
        scopes = self._request.scopes
        numbers = "1" if len(scopes) == 1 else f"1-{len(scopes)}"
        terms = f"{self._lifetimes[0].words}, {self._uses[0][1]}"
        too = [
            f"[{at}] also answers {count} more that wait{'s' if count == 1 else ''}"
            for at, scope in enumerate(scopes, 1)
            if (count := len(self.answered_too(scope)))
        ]
        return "\n".join([f"[{numbers}] allow {terms}", *too, "[t] for how long  [u] how often  [b] back"])

    def problem(self, scope: Scope) -> str | None:
        """Say why this scope cannot be chosen on these terms, if it cannot."""
        if scope.parts and self._uses[0][0] is not None:
            return "Several commands cannot stand for a number of times; press u until it says any number."
        return None

    def decision(self, scope: Scope, *, who: str, channel: str) -> ApprovalDecision:
        """Return the answer on these terms."""
        lifetime = self._lifetimes[0]
        return ApprovalDecision(
            approved=True,
            remember=lifetime.remember,
            scope=scope.kind,
            until=None if lifetime.seconds is None else time.time() + lifetime.seconds,
            uses=self._uses[0][0],
            who=who,
            channel=channel,
        )

    def answered_too(self, scope: Scope) -> list[ApprovalRequest]:
        """Return which of the others would get the same answer; one that is counted answers no others."""
        if self._uses[0][0] is not None:
            return []
        stands = Remembered(
            id="",
            tool=self._request.tool_name,
            scope=scope,
            decision=self.decision(scope, who="", channel=""),
            session=None if self._lifetimes[0].remember == "always" else self._request.session,
            remembered_at=0.0,
            schema_hash=self._request.schema_hash,
        )
        known = set(scope.keys)
        return [
            other
            for other in self._others()
            if other.id != self._request.id
            and stands.covers(other.session, 0.0, other.schema_hash)
            and any(known.issuperset(each.keys) for each in other.scopes)
        ]
