"""`sayso stats`: statistics by tool, agent and person."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from sayso.channels.display.durations import format_rough_duration
from sayso.channels.display.request_lines import display_width
from sayso.cli.open_store import CODES_OF_READING, epilog, json_option, store_option, with_records
from sayso.cli.screen import bold, say_lines, truncate_visible, width, wrap_text
from sayso.cli.times import moment, read_moment
from sayso.client.statistics import MOST_HOURS, OUTCOMES
from sayso.core.json_codec import to_json

_HOUR = 3600
_TOLERANCE = 0.01  # of an hour: `--since 7d` was read a moment ago, and means 168 hours
_MOST_ROWS = 12
_NARROWEST_NAME = 14
_HEADS = {"approved": "yes", "denied": "no", "p50": "median", "p90": "p90"}
_CASES = ("asked", *OUTCOMES, "p50", "p90")
_ANSWERS = ("answered", "approved", "denied", "p50", "p90")


def _read_hours(context: click.Context, option: click.Parameter, value: str) -> int:
    since = read_moment(context, option, value)
    hours = max(1, math.ceil((time.time() - (since or 0)) / _HOUR - _TOLERANCE))
    if hours > MOST_HOURS:
        raise click.BadParameter(f"{value!r} is too long ago; the numbers go back {MOST_HOURS // 24} days")
    return hours


@click.command(epilog=epilog("sayso stats --since 7d", CODES_OF_READING))
@store_option
@json_option
@click.option(
    *("--since", "hours"),
    metavar="TIME",
    default="24h",
    callback=_read_hours,
    help="Only what was asked from then on: 2026-01-31, or 7d ago; 24h if not given, 31d at most.",
)
def stats(where: str | None, *, as_json: bool, hours: int) -> None:
    """Count what was asked: by tool, agent and person, how it ended, and how long answers took.

    The numbers are those of the overview on a hub's page, in whole hours. Where several people have to say yes, each
    of them has answered.
    """
    found = with_records(where, lambda records: records.stats(hours))
    say_lines([to_json(found, indent=2)] if as_json else _lines(found))


def _lines(found: Mapping[str, Any]) -> Iterator[str]:
    total = {name: sum(each[name] for each in found["by_hour"]) for name in ("asked", *OUTCOMES)}
    since = moment(found["by_hour"][0]["at"])
    if not total["asked"]:
        yield from wrap_text(f"Nothing was asked since {since}.")
        return
    yield from map(bold, wrap_text(f"{total['asked']} asked since {since}"))
    ends = {"allowed": "approved", "denied": "denied", "expired": "expired", "withdrawn": "withdrawn"}
    waiting = total["asked"] - sum(total[name] for name in OUTCOMES)
    yield from wrap_text(", ".join([*(f"{total[name]} {word}" for word, name in ends.items()), f"{waiting} open"]))
    yield from _answer_time_lines(found["waiting"])
    yield from wrap_text(f"busiest hour: {moment(found['busiest']['at'])}, with {found['busiest']['asked']} asked")
    if not found["complete"]:
        yield from wrap_text("Only the newest requests were counted: there are too many. Choose a shorter time.")
    yield from _table("tool", found["by_tool"], _CASES)
    yield from _table("agent", found["by_agent"], _CASES)
    yield from _table("who", found["by_person"], _ANSWERS)


def _answer_time_lines(spans: Mapping[str, Any]) -> Iterator[str]:
    if spans["max"] is not None:
        half, most, longest = (format_rough_duration(spans[name]) for name in ("p50", "p90", "max"))
        yield from wrap_text(f"an answer took {half} in the median, {most} at the 90th percentile, {longest} at most")


def _table(key: str, rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> Iterator[str]:
    if not rows:
        return
    heads = [_HEADS.get(each, each) for each in columns]
    title = f"by {'person' if key == 'who' else key}"
    yield ""
    yield from map(bold, _row(title, heads, heads))
    for row in rows[:_MOST_ROWS]:
        yield from _row(row[key] or "(no name)", [_cell(name, row[name]) for name in columns], heads)
    if len(rows) > _MOST_ROWS:
        yield f"… and {len(rows) - _MOST_ROWS} more: --json has all"


def _row(name: str, cells: Sequence[str], heads: Sequence[str]) -> Iterator[str]:
    """Yield a row: its numbers to the right of the name, or in words below it on a narrow terminal."""
    numbers = "".join(f"{cell:>{max(len(head), 6) + 2}}" for cell, head in zip(cells, heads, strict=True))
    room = width() - len(numbers)
    shown = truncate_visible(name, max(room, _NARROWEST_NAME))
    if room >= _NARROWEST_NAME:
        yield shown + " " * (room - display_width(shown)) + numbers
        return
    yield truncate_visible(name, width())
    if cells is not heads:
        words = ", ".join(f"{head} {cell}" for cell, head in zip(cells, heads, strict=True))
        yield from wrap_text(words, indent=2)


def _cell(name: str, value: float | None) -> str:
    if value is None:
        return "-"
    return format_rough_duration(value) if name in {"p50", "p90"} else str(value)
