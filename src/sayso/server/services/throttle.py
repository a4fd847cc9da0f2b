"""Rate limits: sliding windows of one minute, in the memory of this process.

Tests: tests/server/test_identity.py
"""

from __future__ import annotations

import math
from collections import deque
from http import HTTPStatus
from time import monotonic

from sayso.server.http.problems import HttpProblem

_FAILURES = 60
_ANSWERS = 600
_SIGN_INS = 60
_SECONDS = 60.0
_SPARE = 1000  # keys that may be kept before old ones are purged


class _Window:
    """Sliding window: the times of each key's events in the last minute."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._times: dict[str, deque[float]] = {}
        self._purge_at = _SPARE

    def count(self, key: str, sentence: str) -> None:
        """Count an event; if the limit is reached, raise the sentence as a problem with the seconds to wait."""
        now = monotonic()
        times = self._times.setdefault(key, deque())
        while times and times[0] <= now - _SECONDS:
            times.popleft()
        if len(times) >= self._most:
            seconds_left = max(1, math.ceil(times[0] + _SECONDS - now))
            raise HttpProblem(HTTPStatus.TOO_MANY_REQUESTS, f"{sentence}; wait a little", retry_after=seconds_left)
        times.append(now)
        if len(self._times) > self._purge_at:
            self._purge(now)

    def _purge(self, now: float) -> None:
        self._times = {key: times for key, times in self._times.items() if times[-1] > now - _SECONDS}
        self._purge_at = 2 * len(self._times) + _SPARE


class Throttle:
    """Rate limits of one hub, per minute: failed tokens and sign-ins of an address, answers of a person."""

    def __init__(self, *, failures: int = _FAILURES, answers: int = _ANSWERS) -> None:
        self._failures = _Window(failures)
        self._answers = _Window(answers)
        self._sign_ins = _Window(_SIGN_INS)

    def count_failure(self, address: str) -> None:
        """Count a failed token; a valid one always passes, so that no client can lock out others at its address.

        Raises:
            HttpProblem: the limit is reached.
        """
        self._failures.count(address, "too many wrong tokens came from this address")

    def count_answer(self, name: str) -> None:
        """Count an answer.

        Raises:
            HttpProblem: the limit is reached.
        """
        self._answers.count(name, f"{name} has given too many answers in a minute")

    def count_sign_in(self, address: str) -> None:
        """Count the start of a sign-in, which keeps a row in the store until it ends.

        Raises:
            HttpProblem: the limit is reached.
        """
        self._sign_ins.count(address, "too many sign-ins were begun from this address")
