"""Duration formatting: a countdown clock, a rough age for lists, and exact limits, short or in words."""

from __future__ import annotations

_UNITS = ((86_400, "day"), (3600, "hour"), (60, "minute"), (1, "second"))


def format_clock(seconds: float) -> str:
    """Format a running time like a clock: 4:05, or 1:04:05 from an hour on."""
    minutes, rest = divmod(max(int(seconds), 0), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}" if minutes >= 60 else f"{minutes}:{rest:02}"  # noqa: PLR2004 - minutes of an hour


def format_rough_duration(seconds: float) -> str:
    """Round down to the largest unit that fits, for a list that should not flicker: 90 minutes are 1h."""
    size, unit = next((each for each in _UNITS if seconds >= each[0]), _UNITS[-1])
    return f"{max(int(seconds), 0) // size}{unit[0]}"


def format_exact_duration(seconds: float) -> str:
    """Format a limit in the largest unit without rounding: 90 minutes are 90m."""
    count, unit = _exact_count(seconds)
    return f"{count}{unit[0]}"


def format_duration_in_words(seconds: float) -> str:
    """Format a limit in the largest unit without rounding, with the name of the unit: 90 minutes."""
    count, unit = _exact_count(seconds)
    return f"{count} {unit}{'' if count == '1' else 's'}"


def _exact_count(seconds: float) -> tuple[str, str]:
    size, unit = next((each for each in _UNITS if seconds >= each[0] and seconds % each[0] == 0), _UNITS[-1])
    return f"{seconds / size:g}", unit
