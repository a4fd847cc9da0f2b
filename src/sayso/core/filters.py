"""Filters of requests: one record of criteria for the command line, `sayso watch`, the inbox and REST."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Literal, cast

import msgspec

from sayso.core import json_codec
from sayso.core.approvers import same_person
from sayso.core.decide import is_overdue

if TYPE_CHECKING:
    from sayso.core.model import ApprovalDecision, ApprovalRequest, Remembered
    from sayso.core.ports import Requests

StatusFilter = Literal["pending", "all", "open", "approved", "denied", "expired", "withdrawn", "used"]

_BATCH = 100
_SKEW = 86_400.0  # seconds by which the time in an id may differ from `asked_at`; a hub refuses ids of another day
_LATEST_ID_TIME = 16**12 - 1  # milliseconds, in the first 12 digits of an id


class RequestFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Criteria that all have to hold; an empty one always does. Upper and lower case are the same."""

    status: StatusFilter = "all"
    tool: str = ""  # its name, in which * stands for any characters
    agent: str = ""  # as `tool`, of any agent in the path
    text: str = ""  # words that all occur
    who: str = ""  # a person who has answered
    since: float | None = None  # asked then or later
    until: float | None = None  # asked before then
    id_part: str = ""  # start or end of the id

    def matches(self, request: ApprovalRequest, now: float) -> bool:
        """Whether a request matches; one past its expiry does not wait any more."""
        if self.status not in {"all", "pending", request.status}:
            return False
        if self.status in {"pending", "open"} and (request.status != "open" or is_overdue(request, now)):
            return False
        if not request.id.startswith(self.id_part) and not request.id.endswith(self.id_part):
            return False
        if not _name_matches(self.tool, request.tool) or not self._is_in_period(request.asked_at):
            return False
        if self.agent and not any(_name_matches(self.agent, name) for name in asking_path(request)):
            return False
        if self.who and not any(same_person(each.who, self.who) for each in answers(request)):
            return False
        return self._has_words(_texts_of_request(request))

    def matches_remembered(self, remembered: Remembered, request: ApprovalRequest | None) -> bool:
        """Whether a remembered decision matches by its own facts, or by the request that it first answered."""
        decision = remembered.decision
        if not _name_matches(self.tool, remembered.tool) or not self._is_in_period(remembered.remembered_at):
            return False
        if self.who and not same_person(decision.who, self.who):
            return False
        if self.agent and not any(_name_matches(self.agent, name) for name in asking_path(request)):
            return False
        texts = (remembered.tool, remembered.scope.label, remembered.session or "", decision.note or "")
        return self._has_words((*texts, *(() if request is None else _texts_of_request(request))))

    def _is_in_period(self, at: float) -> bool:
        return (self.since is None or at >= self.since) and (self.until is None or at < self.until)

    def _has_words(self, texts: Iterable[str]) -> bool:
        words = self.text.casefold().split()
        if not words:
            return True
        text = "\n".join(texts).casefold()
        return all(word in text for word in words)


def parse_filter(line: str) -> RequestFilter:
    """Parse a line of words, in which `tool:` and `agent:` precede a name."""
    tool, agent, words = "", "", list[str]()
    for word in line.split():
        name, colon, value = word.partition(":")
        match f"{name.casefold()}{colon}":
            case "tool:":
                tool = value
            case "agent:":
                agent = value
            case _:
                words.append(word)
    return RequestFilter(tool=tool, agent=agent, text=" ".join(words))


def filter_line(wanted: RequestFilter) -> str:
    """Return tool, agent and words of a filter as a line that `parse_filter` reads; * stands for a space in a name."""
    names = {"tool": wanted.tool.replace(" ", "*"), "agent": wanted.agent.replace(" ", "*")}
    return " ".join([*(f"{name}:{value}" for name, value in names.items() if value), *wanted.text.split()])


def asking_path(request: ApprovalRequest | None) -> tuple[str, ...]:
    """Return the names of the asking agents: the token's name at a hub, then the agent path."""
    if request is None:
        return ()
    path = request.agent_path
    return path if not request.asked_by or request.asked_by in path[:1] else (request.asked_by, *path)


def answers(request: ApprovalRequest) -> tuple[ApprovalDecision, ...]:
    """Return every answer of a person to a request: the votes of a quorum, and the decision."""
    decision = request.decision
    return request.votes if decision is None or decision in request.votes else (*request.votes, decision)


async def candidates(store: Requests, wanted: RequestFilter, cursor: str = "") -> AsyncIterator[list[ApprovalRequest]]:
    """Yield the requests that may match, in batches: pending ones oldest first, all others newest first.

    `cursor` is the id after which they begin, in that order.
    """
    ascending = wanted.status == "pending"
    first, last = _id_bounds(wanted, ascending=ascending)
    if first and (not cursor or (cursor < first) is ascending):
        cursor = first
    while True:
        if ascending:
            batch = await store.pending(_BATCH, cursor)
        else:
            batch = await store.recent(_BATCH, wanted.id_part, cursor)
        if not batch:  # a short one is not always the last: stores leave out rows that they cannot read
            return
        yield batch
        cursor = batch[-1].id
        if last is not None and (cursor > last) is ascending:
            return


def _id_bounds(wanted: RequestFilter, *, ascending: bool) -> tuple[str, str | None]:
    """Return the ids between which the period lies, in the order of the list: ids begin with the time."""
    oldest = None if wanted.since is None else _id_at(wanted.since - _SKEW)
    newest = None if wanted.until is None else _id_at(wanted.until + _SKEW)
    return (oldest or "", newest) if ascending else (newest or "", oldest)


def _id_at(seconds: float) -> str:
    return f"{int(min(max(seconds * 1000, 0), _LATEST_ID_TIME)):012x}".ljust(32, "0")


def _name_matches(pattern: str, name: str) -> bool:
    """Whether a name matches a pattern, in linear time: each * takes as few characters as it can."""
    if not pattern:
        return True
    name, (first, *rest) = name.casefold(), pattern.casefold().split("*")
    if not rest or not name.startswith(first):
        return name == first
    *middle, end = rest
    at = len(first)
    for part in middle:
        at = name.find(part, at) + len(part)
        if at < len(part):
            return False
    return name.endswith(end) and at <= len(name) - len(end)


def _texts_of_request(request: ApprovalRequest) -> Iterator[str]:
    yield from (request.tool, *asking_path(request), request.description, request.reason)
    yield from _texts(request.args)
    for answer in answers(request):
        yield answer.note or ""
        yield from _texts(answer.override_args or {})


def _texts(value: object) -> Iterator[str]:
    """Yield all keys and values in nested data, as text."""
    if isinstance(value, Mapping):
        for name, each in cast("Mapping[object, object]", value).items():
            yield str(name)
            yield from _texts(each)
    elif isinstance(value, list | tuple | set | frozenset):
        for each in cast("Iterable[object]", value):
            yield from _texts(each)
    else:
        yield value if isinstance(value, str) else json_codec.to_json(value)
