"""A span of time has four looks, and each place that shows one shows it alike."""

from __future__ import annotations

import pytest

from sayso.channels.display import durations

MINUTE, HOUR, DAY = 60, 3600, 86_400


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(-3, "0:00"), (0.9, "0:00"), (65, "1:05"), (HOUR - 1, "59:59"), (HOUR, "1:00:00"), (2 * DAY + 61, "48:01:01")],
)
def test_a_clock_counts_hours_only_once_there_is_one(seconds: float, shown: str) -> None:
    assert durations.format_clock(seconds) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(-3, "0s"), (0.9, "0s"), (59.9, "59s"), (90 * MINUTE, "1h"), (DAY - 1, "23h"), (40 * DAY, "40d")],
)
def test_a_rough_duration_is_rounded_down_to_its_largest_unit(seconds: float, shown: str) -> None:
    assert durations.format_rough_duration(seconds) == shown


@pytest.mark.parametrize(
    ("seconds", "short", "words"),
    [
        (0.5, "0.5s", "0.5 seconds"),
        (1, "1s", "1 second"),
        (90, "90s", "90 seconds"),
        (90 * MINUTE, "90m", "90 minutes"),
        (HOUR, "1h", "1 hour"),
        (36 * HOUR, "36h", "36 hours"),
        (7 * DAY, "7d", "7 days"),
    ],
)
def test_a_limit_is_shown_exactly(seconds: float, short: str, words: str) -> None:
    assert durations.format_exact_duration(seconds) == short
    assert durations.format_duration_in_words(seconds) == words
