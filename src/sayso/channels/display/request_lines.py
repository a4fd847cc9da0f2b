"""Rendering of a request as styled terminal lines, wrapped and sanitised: no text in them can act on the screen."""

from __future__ import annotations

import json
import re
import textwrap
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from sayso.channels.display.sanitize import visible
from sayso.core.canonical import thaw
from sayso.core.filters import asking_path
from sayso.core.json_codec import to_json

if TYPE_CHECKING:
    from sayso.core.model import ApprovalPresentation, ApprovalRequest

Fragment = tuple[str, str]  # a style, and a text in it
Line = list[Fragment]

_MOST_LINES = 24  # of a value or a diff, unless shown whole
_HEAD = 15
_TAIL = 6
_FACT = 14  # columns of a label
_SHORT = 60  # characters; longer values have several lines
GUTTER: Fragment = ("class:gutter", "  │ ")  # before every row of untrusted text
RULE = "╌"  # between parts of a screen; unlike "─" it has one column in every terminal
_CUT = "…"  # at the end of a text that was cut
NARROWEST = 20  # columns; a narrower screen is treated as this wide
_LONGEST_NUMBER = 10_000  # bits; Python refuses to format much longer ones
_BLOCK = "a text of "
_WORDS = frozenset(("", "true", "false", "null", "none"))
_NAME = re.compile(r"[\w.*-]+")
_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")
_COLOURS = {"+": "class:added", "-": "class:removed"}
_VERDICT_STYLES = {"ask": "class:asks", "no ": "class:blocked"}  # verdict marks on the parts of a shell line


class RequestLines(NamedTuple):
    """The lines, and whether they show the whole request or folded values."""

    lines: list[Line]
    whole: bool


def request_lines(
    request: ApprovalRequest,
    width: int,
    *,
    whole: bool = False,
    original: Mapping[str, Any] | None = None,
    needs: str | None = None,
) -> RequestLines:
    """Render a request for this width; long values are folded unless `whole`.

    `original` are the arguments that the agent wrote, where a person has edited them: what differs is marked. `needs`
    says whose yes the request needs, where more is known about it than the request tells.
    """
    fold = _Fold(max(width, NARROWEST), whole=whole)
    lines = [piece for line in _parts(request, fold, original, needs) for piece in wrap_line(line, fold.width)]
    return RequestLines(lines, whole=not fold.happened)


class _Fold:
    """Folds the middle of long values, and remembers that it did."""

    def __init__(self, width: int, *, whole: bool) -> None:
        self.width = width
        self._whole = whole
        self.happened = False

    def __call__(self, given: Iterable[Line]) -> Iterator[Line]:
        lines = [piece for line in given for piece in wrap_line(line, self.width)]
        if self._whole or len(lines) <= _MOST_LINES:
            yield from lines
            return
        self.happened = True
        hidden = len(lines) - _HEAD - _TAIL
        yield from lines[:_HEAD]
        yield [("class:folded", f"  ⋯ {hidden:,} more lines; press v to see them ⋯")]
        yield from lines[-_TAIL:]


def asker(request: ApprovalRequest) -> str:
    """Name of the requester: the token's agent name at a hub, then the agent path; empty if unknown."""
    return " > ".join(asking_path(request))


def _parts(
    request: ApprovalRequest, fold: _Fold, original: Mapping[str, Any] | None, needs: str | None
) -> Iterator[Line]:
    yield [
        ("class:who", visible(asker(request) or "An agent")),
        ("", " wants to run "),
        ("class:tool", visible(request.tool_name)),
    ]
    if request.described_by != "default":
        yield from labelled_lines(f"{request.described_by} says", request.description, fold.width)
    yield from labelled_lines("because", request.reason, fold.width)
    if request.approvers is not None and request.approvers.needs_identity:
        yield from labelled_lines("needs", needs or f"{request.approvers}; only a hub knows who they are", fold.width)
    if request.rule is not None:
        yield from labelled_lines("rule", str(request.rule), fold.width)
    if request.conversation:
        yield from labelled_lines("before", f"{conversation_label(request)}; folded", fold.width)
    yield []
    yield from _argument_lines(thaw(request.args), fold, None if original is None else thaw(original))
    if request.presentation is not None:
        yield from _presentation_lines(request.presentation, fold)


def conversation_label(request: ApprovalRequest) -> str:
    """Return the number of messages before a call, and whose words they are."""
    count = len(request.conversation)
    return f"{count} message{'' if count == 1 else 's'}, in the agent's words"


def _argument_lines(args: Mapping[str, object], fold: _Fold, original: Mapping[str, object] | None) -> Iterator[Line]:
    whose = "the agent wrote" if original is None else "you edited"
    yield [("class:heading", f"arguments, as {whose} them" if args else "no arguments")]
    before = original or {}
    edited = [] if original is None else edited_names(original, args)
    for name, value in args.items():
        yield from fold(_argument(name, value))
        if name in edited:
            was = _on_one_line(before[name]) if name in before else "not given"
            yield _edit_mark(f"edited · was {was}", fold.width)
    for name in edited:
        if name not in args:
            left_out = f"left out · {visible(format_name(name))} was {_on_one_line(before[name])}"
            yield _edit_mark(left_out, fold.width)


def edited_names(original: Mapping[str, object], args: Mapping[str, object]) -> list[str]:
    """Return the names of the arguments that differ; compared as JSON, because in Python 1 equals True."""
    return [
        name
        for name in dict.fromkeys((*original, *args))
        if name not in original or name not in args or to_json(original[name]) != to_json(args[name])
    ]


def _edit_mark(text: str, width: int) -> Line:
    """Return a row of sayso's own: without the gutter, which every row of an argument has."""
    return [("class:marked", truncate(f"    {text}", width))]


def _on_one_line(value: object) -> str:
    return visible(json.dumps(_json_safe(value), ensure_ascii=False, default=repr))


def labelled_lines(name: str, text: str, width: int) -> Iterator[Line]:
    """Yield a label, and the sanitised text behind it."""
    return hanging_indent(("class:name", f"  {name}".ljust(_FACT)), text, width)


def hanging_indent(head: Fragment, text: str, width: int) -> Iterator[Line]:
    """Yield a text with a hanging indent, so that no row begins with it."""
    indent = len(head[1])
    rows = word_wrap(visible(text), max(width - indent, NARROWEST // 2))
    yield [head, ("", rows[0])]
    yield from ([("", " " * indent + row)] for row in rows[1:])


def _argument(name: str, value: object) -> list[Line]:
    first, *rest = format_value(value)
    head = [GUTTER, ("class:name", f"{visible(format_name(name))}: "), ("class:value", visible(first))]
    return [head, *([GUTTER, ("class:value", visible(line))] for line in rest)]


def format_name(name: str) -> str:
    """Format the name of an argument: quoted if it is not a plain identifier."""
    return name if _NAME.fullmatch(name) else json.dumps(name, ensure_ascii=False)


def format_value(value: object) -> list[str]:
    """Format a value as lines: a text as it is, and quoted where it would read as another type."""
    if not isinstance(value, str):
        plain = _json_safe(value)
        short = json.dumps(plain, ensure_ascii=False, default=repr)
        if len(short) <= _SHORT:
            return [short]
        return json.dumps(plain, ensure_ascii=False, default=repr, indent=2).split("\n")
    if "\n" in value:
        lines = value.removesuffix("\n").split("\n")
        end = ", with a final newline" if value.endswith("\n") else ""  # texts that differ must not look alike
        return [f"{_BLOCK}{count_lines(value)}{end}:", *(f"  {line}" for line in lines)]
    return [json.dumps(value, ensure_ascii=False) if _needs_quotes(value) else value]


def count_lines(text: str) -> str:
    """Return the number of lines in words; a final newline begins no other line."""
    count = text.removesuffix("\n").count("\n") + 1
    return f"{count:,} line{'' if count == 1 else 's'}"


def _needs_quotes(text: str) -> bool:
    return (
        text.lower() in _WORDS
        or text != text.strip()
        or text.startswith(("{", "[", '"', "'", _BLOCK))
        or _is_number(text)
    )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _json_safe(value: object) -> object:
    """Copy a value with every integer that Python refuses to write in decimal as hexadecimal text."""
    if isinstance(value, int) and value.bit_length() > _LONGEST_NUMBER:
        return f"the number {value:#x}"
    if isinstance(value, Mapping):
        return {name: _json_safe(each) for name, each in cast("Mapping[str, object]", value).items()}
    if isinstance(value, list | tuple):
        return [_json_safe(each) for each in cast("Iterable[object]", value)]
    return value


def _presentation_lines(presentation: ApprovalPresentation, fold: _Fold) -> Iterator[Line]:
    given = presentation.diff or presentation.content
    if given is None:
        return
    yield []
    yield [("class:heading", f"what the tool shows: {visible(presentation.title or '')}".rstrip(": "))]
    lines = given.removesuffix("\n").split("\n")
    yield from fold(_numbered(lines) if presentation.diff else map(_content_line, lines))


def _content_line(line: str) -> Line:
    return [GUTTER, (_VERDICT_STYLES.get(line[:3], ""), visible(line))]


def _numbered(diff: Iterable[str]) -> Iterator[Line]:
    """Yield the lines of a unified diff with their line numbers in the old and in the new file."""
    old = new = 0
    for line in diff:
        hunk = _HUNK.match(line)
        if hunk:
            old, new = int(hunk[1]), int(hunk[2])
            yield [GUTTER, ("class:hunk", visible(line))]
        elif not old and not new:
            yield [GUTTER, ("class:hunk", visible(line))]  # the names of the files
        else:
            mark = line[:1]
            left, right = (f"{old}" if mark != "+" else "", f"{new}" if mark != "-" else "")
            old, new = old + (mark in {" ", "-", ""}), new + (mark in {" ", "+", ""})
            yield [GUTTER, ("class:number", f"{left:>4}{right:>5} "), (_COLOURS.get(mark, ""), visible(line))]


def wrap_line(line: Line, width: int) -> Iterator[Line]:
    """Wrap a line to the width; rows after the first begin with a continuation mark."""
    if sum(display_width(text) for _, text in line) <= width:
        yield line
        return
    start = [*line[:1], ("class:folded", "↪ ")] if line[:1] == [GUTTER] else [("class:folded", "↪ ")]
    later = width - sum(display_width(each) for _, each in start)
    room, piece = width, Line()
    for style, text in line:
        at = 0
        while (end := _row_end(text, at, room)) < len(text):
            if room >= later:
                end = max(end, at + 1)  # or the loop would never end
            yield [*piece, (style, text[at:end])]
            at, room, piece = end, later, start
        piece, room = [*piece, (style, text[at:])], room - display_width(text[at:])
    yield piece


def _row_end(text: str, at: int, room: int) -> int:
    """Return the index at which the row that begins at `at` ends."""
    if text.isascii():
        return min(len(text), at + max(room, 0))
    left = room
    for end in range(at, min(len(text), at + max(room, 0) + 1)):
        left -= display_width(text[end])
        if left < 0:
            return end
    return len(text)


def display_width(text: str) -> int:
    """Return the greatest width of a text in any terminal: an underestimate would overflow its row."""
    return len(text) if text.isascii() else sum(map(_char_width, text))


@lru_cache(10_000)
def _char_width(char: str) -> int:
    # Terminals have newer Unicode tables than Python, with more wide symbols.
    category, width = unicodedata.category(char), unicodedata.east_asian_width(char)
    symbol = char >= "\u2600" and category in {"So", "No"}
    # An ambiguous character, "A", has two columns in some terminals; a combining one has never more than one.
    return 2 if symbol or width in "WF" or (width == "A" and not category.startswith("M")) else 1


def hard_wrap(text: str, width: int) -> list[str]:
    """Split a text into rows of this width, at any character."""
    rows, at = list[str](), 0
    while (end := max(_row_end(text, at, width), at + 1)) < len(text):
        rows.append(text[at:end])
        at = end
    return [*rows, text[at:]]


def word_wrap(text: str, width: int, indent: str = "") -> list[str]:
    """Split a text into rows of this width, between words where that is possible."""
    room = width
    if not text.isascii():  # textwrap takes every character for one column
        rows = textwrap.wrap(text, width, subsequent_indent=indent, break_on_hyphens=False)
        room -= min(max((display_width(row) - len(row) for row in rows), default=0), width // 2)
    words = textwrap.wrap(text, room, subsequent_indent=indent, break_on_hyphens=False) or [""]
    return [row for line in words for row in hard_wrap(line, width)]


def truncate(text: str, room: int) -> str:
    """Cut a text to one line of this width."""
    return text if display_width(text) <= room else text[: max(_row_end(text, 0, room - display_width(_CUT)), 1)] + _CUT


def wrap_items(text: str, width: int) -> list[str]:
    """Wrap trusted text between items, which two blanks separate, or else between words."""
    room = max(width, NARROWEST)
    return [piece for line in text.split("\n") for piece in _packed(line, room)] or [""]


def _packed(line: str, room: int) -> list[str]:
    indent = " " * (len(line) - len(line.lstrip()))
    rows = [""]
    for item in line.strip().split("  "):
        longer = f"{rows[-1]}  {item}" if rows[-1] else indent + item
        if display_width(longer) > room and rows[-1]:
            rows.append(indent + item)
        else:
            rows[-1] = longer
    return [piece for row in rows for piece in word_wrap(row, room, indent)]
