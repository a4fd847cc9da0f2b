"""A request as lines for a terminal: who wants what, why, with which arguments; nothing of it can act on the screen."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from sayso.canonical import thaw
from sayso.channels.visible import visible

if TYPE_CHECKING:
    from sayso.model import ApprovalPresentation, ApprovalRequest

Fragment = tuple[str, str]  # a style, and a text in it
Line = list[Fragment]

_MOST_LINES = 24  # of a value or a diff, unless everything is wanted
_HEAD = 15
_TAIL = 6
_INDENT = 2
_GUTTER: Fragment = ("class:gutter", "  │ ")  # before every row of what somebody else wrote
_NARROWEST = 20
_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")
_COLOURS = {"+": "class:added", "-": "class:removed"}
_SAID = {"ask": "class:asks", "no ": "class:blocked"}  # how a shell line's parts begin


class Shown(NamedTuple):
    """The lines, and whether they are all that there is."""

    lines: list[Line]
    whole: bool


def shown(request: ApprovalRequest, width: int, *, whole: bool = False) -> Shown:
    """Return a request for a screen of this width; long values are folded, unless everything is wanted."""
    fold = _Fold(max(width, _NARROWEST), whole=whole)
    lines = [piece for line in _parts(request, fold) for piece in _wrapped(line, fold.width)]
    return Shown(lines, whole=not fold.happened)


class _Fold:
    """Leaves out the middle of what is long, and remembers that it did."""

    def __init__(self, width: int, *, whole: bool) -> None:
        self.width = width
        self._whole = whole
        self.happened = False

    def __call__(self, given: Iterable[Line]) -> Iterator[Line]:
        lines = [piece for line in given for piece in _wrapped(line, self.width)]
        if self._whole or len(lines) <= _MOST_LINES:
            yield from lines
            return
        self.happened = True
        hidden = len(lines) - _HEAD - _TAIL
        yield from lines[:_HEAD]
        yield [("class:folded", f"  ⋯ {hidden:,} more lines; press v to see them ⋯")]
        yield from lines[-_TAIL:]


def _parts(request: ApprovalRequest, fold: _Fold) -> Iterator[Line]:
    who = " > ".join(request.agent_path) or "An agent"
    yield [("class:who", visible(who)), ("", " wants to run "), ("class:tool", visible(request.tool_name))]
    yield _fact("tool says", visible(request.description))
    yield _fact("because", visible(request.reason))
    if request.rule is not None:
        yield _fact("rule", visible(str(request.rule)))
    yield []
    yield [("class:heading", "arguments, as the agent wrote them" if request.args else "no arguments")]
    for name, value in thaw(request.args).items():
        yield from fold(_argument(name, value))
    if request.presentation is not None:
        yield from _presented(request.presentation, fold)


def _fact(name: str, text: str) -> Line:
    return [("class:name", f"{' ' * _INDENT}{name:<10}"), ("", text)]


def _argument(name: str, value: object) -> list[Line]:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=repr, indent=2)
    first, *rest = text.split("\n")
    head = ("class:name", f"{visible(name)}: ")
    if not rest:
        return [[_GUTTER, head, ("class:value", visible(first))]]
    return [[_GUTTER, head], *([_GUTTER, ("class:value", f"  {visible(line)}")] for line in (first, *rest))]


def _presented(presentation: ApprovalPresentation, fold: _Fold) -> Iterator[Line]:
    given = presentation.diff or presentation.content
    if given is None:
        return
    yield []
    yield [("class:heading", f"what the tool shows: {visible(presentation.title or '')}".rstrip(": "))]
    lines = given.removesuffix("\n").split("\n")
    yield from fold(_numbered(lines) if presentation.diff else map(_said, lines))


def _said(line: str) -> Line:
    return [_GUTTER, (_SAID.get(line[:3], ""), visible(line))]


def _numbered(diff: Iterable[str]) -> Iterator[Line]:
    """Yield the lines of a unified diff with their numbers in the old and in the new file."""
    old = new = 0
    for line in diff:
        hunk = _HUNK.match(line)
        if hunk:
            old, new = int(hunk[1]), int(hunk[2])
            yield [_GUTTER, ("class:hunk", visible(line))]
        elif not old and not new:
            yield [_GUTTER, ("class:hunk", visible(line))]  # the names of the files
        else:
            mark = line[:1]
            left, right = (f"{old}" if mark != "+" else "", f"{new}" if mark != "-" else "")
            old, new = old + (mark in {" ", "-", ""}), new + (mark in {" ", "+", ""})
            yield [_GUTTER, ("class:number", f"{left:>4}{right:>5} "), (_COLOURS.get(mark, ""), visible(line))]


def _wrapped(line: Line, width: int) -> Iterator[Line]:
    """Yield a line in as many pieces as the width takes, those after the first with a mark."""
    start = [*line[:1], ("class:folded", "↪ ")] if line[:1] == [_GUTTER] else [("class:folded", "↪ ")]
    room, piece = width, Line()
    for style, text in line:
        rest = text
        while _cells(rest) > room:
            head = _head(rest, room)
            yield [*piece, (style, rest[:head])]
            rest, room, piece = rest[head:], width - sum(_cells(each) for _, each in start), start
        piece, room = [*piece, (style, rest)], room - _cells(rest)
    yield piece


def _head(text: str, room: int) -> int:
    """Return how many characters fit; at least one, or nothing would ever be shown."""
    used = 0
    for at, each in enumerate(text):
        used += _cells(each)
        if used > room:
            return max(at, 1)
    return len(text)


def _cells(text: str) -> int:
    return len(text) if text.isascii() else sum(2 if unicodedata.east_asian_width(each) in "WF" else 1 for each in text)
