"""Parsing and formatting of timestamps and durations in options.

Tests: tests/cli/operators/test_audit.py
"""

from __future__ import annotations

import time
from datetime import UTC, datetime

import click

from sayso.cli.screen import visible
from sayso.errors import ConfigurationError
from sayso.policy.vocabulary import parse_seconds


def moment(at: float) -> str:
    """Format a timestamp in local time; one outside the calendar as its number."""
    try:
        return datetime.fromtimestamp(at, UTC).astimezone().isoformat(sep=" ", timespec="seconds")
    except (ValueError, OverflowError, OSError):
        return f"{at} seconds since 1970"


def read_span(_: click.Context, __: click.Parameter, value: str | None) -> float | None:
    """Parse a duration such as 30m, as a policy file writes it, into seconds."""
    try:
        return None if value is None else parse_seconds(value, "the span")
    except ConfigurationError as error:
        raise click.BadParameter(visible(str(error))) from None


def read_moment(_: click.Context, __: click.Parameter, value: str | None) -> float | None:
    """Parse a date or time, local unless it has a zone, or a duration such as 2h for that long ago."""
    if value is None:
        return None
    try:
        return time.time() - parse_seconds(value, "the time")
    except ConfigurationError:
        pass
    try:
        return datetime.fromisoformat(value).astimezone().timestamp()
    except (ValueError, OverflowError, OSError):
        problem = f"{value!r} is not a time; use a date such as 2026-01-31, or a span such as 2h or 30d"
        raise click.BadParameter(visible(problem)) from None
