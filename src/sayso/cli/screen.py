"""Terminal of the command line: sanitised output, wrapped to the width, coloured; and standard input.

Tests: tests/cli/test_policy_files.py
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path
from types import FrameType
from typing import IO, TYPE_CHECKING, TextIO, cast

import click

from sayso.channels.display.durations import format_exact_duration
from sayso.channels.display.request_lines import display_width, hard_wrap, word_wrap
from sayso.channels.display.request_lines import truncate as cut_cells
from sayso.channels.display.sanitize import visible

if TYPE_CHECKING:
    from sayso.core.model import Rule, Verdict
    from sayso.errors import Mistake
    from sayso.policy.policy import RuleTrace

_COLOURS = {"none": "green", "required": "yellow", "once_per_session": "yellow", "blocked": "red"}
_WIDEST = 100
_NARROWEST = 20
_ROOM = 30  # columns that a reason needs next to its rule; with fewer it goes below


def say(text: str = "", *, err: bool = False) -> None:
    """Print a line; coloured only on a terminal without NO_COLOR."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    click.echo(text, err=err, color=False if plain else None)


def say_lines(lines: Iterable[str]) -> None:
    """Print lines."""
    for line in lines:
        say(line)


def page_lines(lines: Iterable[str]) -> None:
    """Print lines; on a terminal that is too low for them, in the user's pager."""
    found = list(lines)
    is_capable = sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
    if not is_capable or len(found) < shutil.get_terminal_size().lines:
        say_lines(found)
        return
    problem = _run_pager("".join(f"{line}\n" for line in found))
    if problem is not None:
        say_lines(found)
        for line in wrap_text(f"(No pager was used, because {problem}.)"):
            say(line, err=True)


def _run_pager(text: str) -> str | None:
    from sayso.channels.terminal.editor_pager import page_text  # noqa: PLC0415 - the terminal loads slowly

    def leave_to_pager(_number: int, _frame: FrameType | None) -> None:
        pass

    before = signal.signal(signal.SIGINT, leave_to_pager)
    try:
        return page_text(click.unstyle(text), text, sys.stdout.fileno())
    finally:
        signal.signal(signal.SIGINT, before)


def standard_input(what: str) -> IO[bytes]:
    """Return the binary standard input; the error for a closed one names `what` it should hold."""
    stream = cast("TextIO | None", sys.stdin)  # None if the parent process has closed it
    if stream is None:
        raise click.UsageError(f"there is no input to read {what} from")
    return stream.buffer


def bold(text: str) -> str:
    """Return a heading."""
    return click.style(text, bold=True)


def width() -> int:
    """Return the width of a line in columns."""
    return max(_NARROWEST, min(shutil.get_terminal_size().columns, _WIDEST))


def wrap_text(text: str, *, head: str = "", indent: int = 0) -> Iterator[str]:
    """Sanitise and wrap untrusted text; the first line starts with `head`, the others are indented."""
    room = max(width() - indent, _NARROWEST // 2)
    lines = word_wrap(visible(text), room)
    yield (head + " " * (indent - len(click.unstyle(head))) + lines[0]).rstrip()
    yield from (" " * indent + line for line in lines[1:])


def truncate_visible(text: str, room: int) -> str:
    """Sanitise untrusted text, and cut it to one line of this width."""
    return cut_cells(visible(text), room)


def exact_lines(text: str, *, indent: int) -> Iterator[str]:
    """Yield every character of a text, spaces too: lines behind a bar, continuation rows behind a dotted one."""
    room = max(width() - indent - display_width("│ "), _NARROWEST // 2)
    for line in text.split("\n"):
        first, *others = hard_wrap(visible(line), room)
        yield f"{' ' * indent}│ {first}"
        yield from (f"{' ' * indent}┆ {part}" for part in others)


def short_path(path: str) -> str:
    """Return the shortest form of a path: relative, from ~, or absolute."""
    if not Path(path).is_absolute():
        return path
    ways = [path, os.path.relpath(path)]
    home = os.environ.get("HOME")
    if home and Path(path).is_relative_to(home):
        ways.append(f"~/{Path(path).relative_to(home)}")
    return min(ways, key=len)


def rule_location(rule: Rule) -> str:
    """Return file, line and key of a rule."""
    line = "" if rule.line is None else f":{rule.line}"
    return visible(f"{short_path(rule.source)}{line} {rule.key}")


def mistake_line(mistake: Mistake, kind: str = "") -> str:
    """Format a mistake so that an editor can jump to it."""
    return visible(str(mistake._replace(source=short_path(mistake.source), message=kind + mistake.message)))


def explanation(verdict: Verdict, considered: Iterable[RuleTrace]) -> Iterator[str]:
    """Yield the explanation of a verdict: the deciding rule, and what all others say."""
    word = verdict.approval
    yield from wrap_text(
        verdict.reason, head=click.style(f"{word}:", fg=_COLOURS[word], bold=True), indent=len(word) + 2
    )
    if verdict.rule is not None:
        yield from wrap_text(rule_location(verdict.rule), head="  by", indent=5)
    if verdict.asks:
        yield from (f"  {each}" for each in _ask_option_lines(verdict))
    yield ""
    yield bold("Considered")
    yield from _table(list(considered))


def _ask_option_lines(verdict: Verdict) -> Iterator[str]:
    if verdict.approvers is not None:
        yield f"needs the yes of {visible(str(verdict.approvers))}"
    if verdict.expires is not None:
        yield f"expires unanswered after {format_exact_duration(verdict.expires)}"


def _table(considered: list[RuleTrace]) -> Iterator[str]:
    """Yield a table of approval, rule and reason; rules about a part of a shell line under that part."""
    first = max(len(each.approval or "-") for each in considered) + 2
    second = max(len(rule_location(each.rule)) for each in considered) + 2
    parts = any(each.part is not None for each in considered)
    indent = 4 if parts else 2
    for part, group in groupby(considered, key=lambda each: each.part):
        if parts:
            yield from wrap_text("(the whole call)" if part is None else part, head=" ", indent=2)
        for each in group:
            yield from _row(each, indent, first, second)


def _row(each: RuleTrace, indent: int, first: int, second: int) -> Iterator[str]:
    word = each.approval or "-"
    head = " " * indent + click.style(word, fg=_COLOURS.get(word)) + " " * (first - len(word))
    if indent + first + second + _ROOM <= width():
        rule = rule_location(each.rule)
        yield from wrap_text(each.reason, head=head + rule, indent=indent + first + second)
    else:
        yield from wrap_text(rule_location(each.rule), head=head, indent=indent + first)
        yield from wrap_text(each.reason, indent=indent + first)
