"""Statistics over requests: counts per hour, outcomes and answer times, cached for five seconds.

Tests: tests/server/routes/test_approvals.py
"""

from __future__ import annotations

import asyncio
import itertools
from bisect import bisect_right
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sayso.core.model import ApprovalRequest
    from sayso.core.ports import Clock, Store
    from sayso.core.tokens import Token

_HOUR = 3600
_FRESH_SECONDS = 5.0
_PIECE = 250
_MOST = 20_000
_BOUNDS = (10.0, 60.0, 300.0, 3600.0, None)  # seconds: upper bounds of the histogram of answer times
_OUTCOMES = ("approved", "denied", "expired", "withdrawn")


class Stats:
    """Statistics of one hub, with a cache: one count serves all queries within five seconds."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._cache: dict[tuple[str, int], tuple[float, dict[str, Any]]] = {}
        self._lock = asyncio.Lock()

    async def last_hours(self, token: Token, hours: int) -> dict[str, Any]:
        """Return the statistics of the last hours, with the current one, for a token's project."""
        key = (token.project, hours)
        async with self._lock:
            now = self._clock.now()
            self._cache = {each: entry for each, entry in self._cache.items() if now - entry[0] < _FRESH_SECONDS}
            if key not in self._cache:
                self._cache[key] = now, await self._count(token, hours, now)
            return self._cache[key][1]

    async def _count(self, token: Token, hours: int, now: float) -> dict[str, Any]:
        tally = _Tally(start=(now // _HOUR - hours + 1) * _HOUR, hours=hours)
        before, seen, complete = "", 0, True
        while piece := await self._store.recent(_PIECE, before=before):
            await asyncio.to_thread(tally.add, [each for each in piece if token.is_for(each.project)])
            before, seen = piece[-1].id, seen + len(piece)
            if piece[-1].asked_at < tally.start:
                break
            if seen >= _MOST:
                complete = False
                break
        return tally.as_dict() | {"complete": complete}


class _Tally:
    """Running totals of one count."""

    def __init__(self, start: float, hours: int) -> None:
        self.start = start
        self._by_hour: list[Counter[str]] = [Counter() for _ in range(hours)]
        self._by_tool: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._seconds: list[float] = []

    def add(self, requests: list[ApprovalRequest]) -> None:
        """Count the requests that were asked in that period."""
        for each in requests:
            if each.asked_at >= self.start:
                self._add(each)

    def _add(self, request: ApprovalRequest) -> None:
        self._count(request.asked_at, "asked")
        outcome = "approved" if request.status == "used" else request.status
        if outcome == "open":
            return
        decided = request.decision.decided_at if request.decision else request.expires_at
        self._count(request.asked_at if decided is None else decided, outcome)
        self._by_tool[request.tool][outcome] += 1
        if outcome in {"approved", "denied"} and decided is not None:
            self._seconds.append(max(0.0, decided - request.asked_at))

    def _count(self, at: float, what: str) -> None:
        hour = int((at - self.start) // _HOUR)
        self._by_hour[min(max(hour, 0), len(self._by_hour) - 1)][what] += 1

    def as_dict(self) -> dict[str, Any]:
        """Return the totals as plain data, tools with most requests first."""
        ranked = sorted(self._by_tool.items(), key=lambda each: (-each[1].total(), each[0]))
        return {
            "by_hour": [
                {"at": self.start + number * _HOUR} | {name: hour[name] for name in ("asked", *_OUTCOMES)}
                for number, hour in enumerate(self._by_hour)
            ],
            "waiting": _answer_times(sorted(self._seconds)),
            "by_tool": [{"tool": tool} | {name: ends[name] for name in _OUTCOMES} for tool, ends in ranked],
        }


def _answer_times(seconds: list[float]) -> dict[str, Any]:
    last = len(seconds) - 1
    at = {"p50": round(last * 0.5), "p90": round(last * 0.9), "max": last}
    ends = [len(seconds) if bound is None else bisect_right(seconds, bound) for bound in _BOUNDS]
    counts = [end - begin for begin, end in itertools.pairwise((0, *ends))]
    within = [{"up_to": bound, "answers": count} for bound, count in zip(_BOUNDS, counts, strict=True)]
    return {name: seconds[place] if seconds else None for name, place in at.items()} | {"within": within}
