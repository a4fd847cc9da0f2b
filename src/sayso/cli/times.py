"""Moments and spans of time, as people read and write them."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import click

from sayso.cli.screen import visible
from sayso.errors import ConfigurationError
from sayso.policy.vocabulary import parse_seconds


def moment(at: float) -> str:
    """Write a moment in the time of this machine; one that no calendar has, as its number."""
    try:
        return datetime.fromtimestamp(at, UTC).astimezone().isoformat(sep=" ", timespec="seconds")
    except (ValueError, OverflowError, OSError):
        return f"{at} seconds since 1970"


def read_span(_: click.Context, __: click.Parameter, value: str | None) -> float | None:
    """Read a span such as 30m, as a policy file writes it, in seconds."""
    try:
        return None if value is None else parse_seconds(value, "the span")
    except ConfigurationError as error:
        raise click.BadParameter(visible(str(error))) from None


def read_moment(_: click.Context, __: click.Parameter, value: str | None) -> float | None:
    """Read a date or a time, of this machine if it says no other, or a span such as 2h for that long ago."""
    if value is None:
        return None
    try:
        return time.time() - parse_seconds(value, "the time")
    except ConfigurationError:
        pass
    try:
        return datetime.fromisoformat(value).astimezone().timestamp()
    except (ValueError, OverflowError, OSError):
        problem = f"{value!r} is no time; use a date such as 2026-01-31, or a span such as 2h or 30d"
        raise click.BadParameter(visible(problem)) from None
