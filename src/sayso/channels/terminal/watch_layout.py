"""Layout of the full-screen inbox: title, list, selected request, key legend.

Tests: tests/cli/test_watch.py
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import NamedTuple

from sayso.channels.display.answer_keys import ANSWER_KEYS, FILTER_KEY
from sayso.channels.display.blocks import time_left
from sayso.channels.display.durations import format_rough_duration
from sayso.channels.display.request_lines import RULE, Line, asker, display_width, truncate, wrap_items
from sayso.channels.display.sanitize import visible
from sayso.channels.terminal.colours import highlight_keys
from sayso.channels.terminal.dialog import KEY_LABELS
from sayso.channels.terminal.watch_pane import Pane
from sayso.core.model import ApprovalRequest

_SHARE = 4  # the list has a fourth of the rows
_WIDE = 70  # columns; a narrower list shows no expiry
_MOVES = {"j k, ↓ ↑": "move", "space, b": "scroll; also page down and up"}
_FILTER = {FILTER_KEY.key: f"{FILTER_KEY.label}: {FILTER_KEY.meaning}", "Esc": "list all again"}
_LEAVE = {"q, Ctrl-C": "leave; nothing is answered"}
_HELP = (
    "A key counts once the request has been on the screen for a moment; a yes only once all of it was on the screen, "
    "or was opened with v. Pasted keys never count.\n\nPress any key to go back."
)


class Listed(NamedTuple):
    """The list: the requests that match the filter with their names, how many do not match, and the filter as text."""

    requests: Mapping[str, ApprovalRequest]
    names: Mapping[str, str]
    others: int
    filter_text: str
    is_filter_typed: bool


class WatchLayout:
    """Layout for one screen size."""

    def __init__(self, width: int, height: int) -> None:
        self._width = width
        self._height = height

    def help(self) -> list[Line]:
        """Return the lines of the help screen."""
        rows = {
            **_MOVES,
            **_FILTER,
            **{each.key: f"{each.label}: {each.meaning}" for each in ANSWER_KEYS},
            "r": KEY_LABELS["r"],
            **_LEAVE,
        }
        keys = (f"{key:<11}{words}" for key, words in rows.items())
        return [
            [("class:heading", "Keys")],
            [],
            *([("", truncate(line, self._width))] for line in keys),
            [],
            *self._lines("", _HELP),
        ]

    def draw(self, listed: Listed, pane: Pane | None, news: str) -> list[Line]:
        """Return all lines of the screen."""
        top = [*self._title(listed), *self._list(listed.requests, listed.names, pane)]
        bottom = [*self._foot(listed, pane), *self._lines("class:said", news)]
        # In a low window the keys may be cut off, but never a row that counts as seen.
        room = max(min(max(self._height - len(top) - len(bottom) - 2, 1), self._height - len(top) - 1), 0)
        rows, below = ([], 0) if pane is None else pane.visible_rows(self._width, room)
        rows = [*rows, *([[]] * (room - len(rows)))]
        more = f" {below} more row{'' if below == 1 else 's'}: space " if below else ""
        return [*top, self._separator(""), *rows, self._separator(more), *bottom]

    def _title(self, listed: Listed) -> list[Line]:
        count, others = len(listed.requests), listed.others
        if not listed.filter_text:
            waiting = "nothing waits" if not count else f"{count} wait{'s' if count == 1 else ''} for an answer"
            return [self._status(f"sayso watch · {waiting}")]
        waiting = "1 other waits" if others == 1 else f"{others or 'no'} others wait"
        words = f"sayso watch · {count or 'none'} match{'es' if count == 1 else ''}, {waiting}"
        whole = f"{words} · {listed.filter_text}"
        rows = [whole] if display_width(whole) <= self._width else [words, f"· {listed.filter_text}"]
        return [self._status(row) for row in rows]

    def _status(self, text: str) -> Line:
        return [("class:status", truncate(text, self._width))]

    def _list(
        self,
        requests: Mapping[str, ApprovalRequest],
        names: Mapping[str, str],
        pane: Pane | None,
    ) -> list[Line]:
        ids = list(requests)
        room = max(min(len(ids), self._height // _SHARE), 1)
        selected = None if pane is None else pane.question.request.id
        at = next((at for at, each in enumerate(ids) if each == selected), 0)
        first = min(max(at - room // 2, 0), max(len(ids) - room, 0))
        return [self._entry(requests[each], names[each], chosen=each == selected) for each in ids[first : first + room]]

    def _entry(self, request: ApprovalRequest, name: str, *, chosen: bool) -> Line:
        now = time.time()
        age = format_rough_duration(now - request.asked_at)
        seconds = time_left(request, now)
        left = "" if seconds is None else f"{format_rough_duration(seconds)} left"
        facts = f"{age:>4}  {left:>9}" if self._width >= _WIDE else f"{age:>4}"
        who = asker(request)
        call = visible(f"{who}: {request}" if who else str(request))
        text = truncate(f"{'▸' if chosen else ' '} {name}{facts}  {call}", self._width)
        return [("class:selected", text + " " * (self._width - display_width(text)))] if chosen else [("", text)]

    def _foot(self, listed: Listed, pane: Pane | None) -> list[Line]:
        requests = listed.requests
        escape = "  [Esc] all" if listed.filter_text else ""
        others = f"[{FILTER_KEY.key}] {FILTER_KEY.label}{escape}  [?] help  [q] leave"
        keys = f"[j/k] move  {others}"
        if listed.is_filter_typed:
            return []  # no key counts but those of the line
        if pane is None:
            return self._keys(others)
        if pane.question.closed.is_set():
            return self._keys(keys if requests else others)
        place = [*requests, pane.question.request.id].index(pane.question.request.id) + 1
        own = f"  {keys}" if pane.choice is not None and pane.choice.is_idle and pane.key_guard.armed else ""
        return [
            *self._lines("class:status", pane.question.status(f"{place} of {len(requests)}")),
            *self._keys(pane.legend() + own),
        ]

    def _keys(self, words: str) -> list[Line]:
        return [highlight_keys(row) for row in wrap_items(words, self._width)] if words else []

    def _lines(self, style: str, text: str) -> list[Line]:
        return [[(style, line)] for line in wrap_items(text, self._width)] if text else []

    def _separator(self, words: str) -> Line:
        return [("class:gutter", words.rjust(self._width, RULE))]
