"""Statistics over requests: counts per hour, by tool, agent and person, outcomes and answer times.

Tests: tests/cli/operators/test_stats.py
"""

from __future__ import annotations

import asyncio
import itertools
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sayso.core.filters import RequestFilter, answers, asking_path, candidates

if TYPE_CHECKING:
    from sayso.core.model import ApprovalDecision, ApprovalRequest
    from sayso.core.ports import Requests

MOST_HOURS = 24 * 31
_HOUR = 3600
_MOST = 20_000
_BOUNDS = (10.0, 60.0, 300.0, 3600.0, None)  # seconds: upper bounds of the histogram of answer times
OUTCOMES = ("approved", "denied", "expired", "withdrawn")


def every_project(project: str) -> bool:  # noqa: ARG001 - as the filter is called
    """Count the requests of every project."""
    return True


async def count_requests(
    store: Requests, hours: int, now: float, is_visible: Callable[[str], bool] = every_project
) -> dict[str, Any]:
    """Return the statistics of the last hours, with the current one, as plain data.

    Requests of a project that is not visible are not counted. Only the newest 20,000 of the store are read.
    """
    tally = _Tally(start=(now // _HOUR - hours + 1) * _HOUR, hours=hours)
    read, complete = 0, True
    async for batch in candidates(store, RequestFilter(since=tally.start)):
        await asyncio.to_thread(tally.add, [each for each in batch if is_visible(each.project)])
        read += len(batch)
        if read >= _MOST and batch[-1].asked_at >= tally.start:
            complete = False
            break
    return tally.as_dict() | {"complete": complete}


class _Group:
    """Counts and answer times of the requests of one tool, agent or person."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.counts: Counter[str] = Counter()
        self.seconds: list[float] = []

    def add_answer(self, request: ApprovalRequest, answer: ApprovalDecision) -> None:
        """Add the time from question to answer."""
        if answer.decided_at is not None:
            self.seconds.append(max(0.0, answer.decided_at - request.asked_at))

    def as_dict(self, key: str, names: tuple[str, ...]) -> dict[str, Any]:
        """Return the row of a table."""
        facts = {key: self.name} | {name: self.counts[name] for name in names}
        return facts | _percentiles(sorted(self.seconds), {"p50": 0.5, "p90": 0.9})


class _Tally:
    """Running totals of one count."""

    def __init__(self, start: float, hours: int) -> None:
        self.start = start
        self._by_hour: list[Counter[str]] = [Counter() for _ in range(hours)]
        self._by_tool: dict[str, _Group] = {}
        self._by_agent: dict[str, _Group] = {}
        self._by_person: dict[str, _Group] = {}
        self._all = _Group("")

    def add(self, requests: list[ApprovalRequest]) -> None:
        """Count the requests that were asked in that period."""
        for each in requests:
            if each.asked_at >= self.start:
                self._add(each)

    def _add(self, request: ApprovalRequest) -> None:
        agent = " > ".join(asking_path(request))
        groups = [
            self._by_tool.setdefault(request.tool, _Group(request.tool)),
            self._by_agent.setdefault(agent, _Group(agent)),
            self._all,
        ]
        outcome = "approved" if request.status == "used" else request.status
        decision = request.decision
        for group in groups:
            group.counts.update(["asked", outcome])
            if decision is not None and outcome in {"approved", "denied"}:
                group.add_answer(request, decision)
        self._count(request.asked_at, "asked")
        if outcome != "open":
            decided = decision.decided_at if decision else request.expires_at
            self._count(request.asked_at if decided is None else decided, outcome)
        for answer in answers(request):
            if not answer.unattended:
                self._add_answer(request, answer)

    def _add_answer(self, request: ApprovalRequest, answer: ApprovalDecision) -> None:
        name = answer.who or ""
        group = self._by_person.setdefault(name.casefold(), _Group(name))  # one person has one name, in any case
        group.counts.update(["answered", "approved" if answer.approved else "denied"])
        group.add_answer(request, answer)

    def _count(self, at: float, what: str) -> None:
        hour = int((at - self.start) // _HOUR)
        self._by_hour[min(max(hour, 0), len(self._by_hour) - 1)][what] += 1

    def as_dict(self) -> dict[str, Any]:
        """Return the totals as plain data; in each table the row with the highest count comes first."""
        hours = [
            {"at": self.start + number * _HOUR} | {name: hour[name] for name in ("asked", *OUTCOMES)}
            for number, hour in enumerate(self._by_hour)
        ]
        busiest = max(hours, key=lambda each: each["asked"])
        counted = ("asked", *OUTCOMES)
        return {
            "by_hour": hours,
            "busiest": {"at": busiest["at"], "asked": busiest["asked"]} if busiest["asked"] else None,
            "waiting": _answer_times(sorted(self._all.seconds)),
            "by_tool": [each.as_dict("tool", counted) for each in _ranked(self._by_tool, "asked")],
            "by_agent": [each.as_dict("agent", counted) for each in _ranked(self._by_agent, "asked")],
            "by_person": [
                each.as_dict("who", ("answered", "approved", "denied")) for each in _ranked(self._by_person, "answered")
            ],
        }


def _ranked(groups: dict[str, _Group], count: str) -> list[_Group]:
    return sorted(groups.values(), key=lambda each: (-each.counts[count], each.name))


def _percentiles(seconds: list[float], shares: dict[str, float]) -> dict[str, float | None]:
    last = len(seconds) - 1
    return {name: seconds[round(last * share)] if seconds else None for name, share in shares.items()}


def _answer_times(seconds: list[float]) -> dict[str, Any]:
    ends = [len(seconds) if bound is None else bisect_right(seconds, bound) for bound in _BOUNDS]
    counts = [end - begin for begin, end in itertools.pairwise((0, *ends))]
    within = [{"up_to": bound, "answers": count} for bound, count in zip(_BOUNDS, counts, strict=True)]
    return _percentiles(seconds, {"p50": 0.5, "p90": 0.9, "max": 1.0}) | {"within": within}
