"""How often somebody may do something: counted in this process, for a minute."""

from __future__ import annotations

import math
import time
from http import HTTPStatus

from limits import RateLimitItemPerMinute
from limits.storage import MemoryStorage
from limits.strategies import MovingWindowRateLimiter

from sayso.server.problems import Problem

_FAILURES = 60
_ANSWERS = 600
_SIGN_INS = 60


class Throttle:
    """The limits of one hub."""

    def __init__(self, *, failures: int = _FAILURES, answers: int = _ANSWERS) -> None:
        """Take how many there may be in a minute: wrong tokens from one address, answers by one person."""
        self._window = MovingWindowRateLimiter(MemoryStorage())
        self._failures = RateLimitItemPerMinute(failures)
        self._answers = RateLimitItemPerMinute(answers)
        self._sign_ins = RateLimitItemPerMinute(_SIGN_INS)

    def fail(self, address: str) -> None:
        """Count a wrong token; a right one always passes, so that nobody can lock out others at their address.

        Raises:
            Problem: there were too many.
        """
        self._count(self._failures, "fail", address, "too many wrong tokens came from this address")

    def answer(self, name: str) -> None:
        """Count an answer.

        Raises:
            Problem: there were too many.
        """
        self._count(self._answers, "answer", name, f"{name} has given too many answers in a minute")

    def begin(self, address: str) -> None:
        """Count a sign-in that is begun: each takes a place in the store until it ends.

        Raises:
            Problem: there were too many.
        """
        self._count(self._sign_ins, "begin", address, "too many sign-ins were begun from this address")

    def _count(self, limit: RateLimitItemPerMinute, *what: str) -> None:
        deed, whose, sentence = what
        if self._window.hit(limit, deed, whose):
            return
        left = self._window.get_window_stats(limit, deed, whose).reset_time - time.time()
        raise Problem(HTTPStatus.TOO_MANY_REQUESTS, f"{sentence}; wait a little", retry_after=max(1, math.ceil(left)))
