"""Exponential back-off with jitter: the pauses between attempts, as a generator without I/O."""

from __future__ import annotations

import random
from collections.abc import Iterator


def backoff(*, first: float = 0.1, longest: float = 10.0, factor: float = 2.0) -> Iterator[float]:
    """Yield the seconds to wait before each next attempt, without end.

    The upper bound grows by the factor from `first` to `longest`; jitter subtracts up to half of it, so that
    clients that failed together do not retry together.
    """
    bound = first
    while True:
        yield bound * random.uniform(0.5, 1.0)  # noqa: S311 - no secret
        bound = min(bound * factor, longest)
