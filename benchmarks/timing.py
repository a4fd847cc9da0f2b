"""Interleaved timing: every contender takes its turn in every round, and a ratio compares two turns of one round."""

from __future__ import annotations

import asyncio
import gc
import inspect
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median, quantiles
from typing import TypeVar

PAUSE = 0.001
T = TypeVar("T")
Sample = Callable[[int], "float | Awaitable[float]"]  # run that many times; return the seconds


@dataclass(frozen=True, kw_only=True)
class Effort:
    """Effort of a measurement: the full run, or `--quick`."""

    rounds: int
    seconds: float  # of one turn
    scale: float  # of measurements by count instead of by time

    def count(self, full: int) -> int:
        """Return the count for this effort."""
        return max(1, int(full * self.scale))


FULL = Effort(rounds=15, seconds=0.04, scale=1.0)
QUICK = Effort(rounds=5, seconds=0.01, scale=0.2)


@dataclass(frozen=True, kw_only=True)
class Ratio:
    """Ratio of two contenders: median and interquartile range of the rounds."""

    median: float
    low: float
    high: float

    @classmethod
    def paired(cls, ours: Sequence[float], theirs: Sequence[float]) -> Ratio:
        """Compare round by round, so that a busy moment of the machine hits both."""
        quotients = [mine / other for mine, other in zip(ours, theirs, strict=True)]
        low, middle, high = quantiles(quotients, n=4, method="inclusive") if len(quotients) > 1 else quotients * 3
        return cls(median=middle, low=low, high=high)

    @classmethod
    def least(cls, ours: Sequence[float], theirs: Sequence[float]) -> Ratio:
        """Compare the best rounds, where noise only ever adds."""
        value = min(ours) / min(theirs)
        return cls(median=value, low=value, high=value)


async def interleave(samples: Mapping[str, Sample], effort: Effort, *, most: int = 20_000) -> dict[str, list[float]]:
    """Return the seconds per call of every contender, one figure per round."""
    counts = {name: await _calibrate(sample, effort, most) for name, sample in samples.items()}
    seconds: dict[str, list[float]] = {name: [] for name in samples}
    names = list(samples)
    for turn in range(effort.rounds):
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            gc.collect()
            seconds[name].append(await _run_sample(samples[name], counts[name]) / counts[name])
    return seconds


def minus(whole: Sequence[float], part: Sequence[float]) -> list[float]:
    """Return what one contender adds to another, round by round."""
    return [one - other for one, other in zip(whole, part, strict=True)]


def forget_heap() -> None:
    """Freeze the heap out of later garbage collections, so that no turn pays for the peers' imports."""
    gc.collect()
    gc.freeze()


async def _calibrate(sample: Sample, effort: Effort, most: int) -> int:
    count = 1
    while count < most and await _run_sample(sample, count) < effort.seconds / 2:
        count *= 2
    return min(count, most)


async def _run_sample(sample: Sample, count: int) -> float:
    seconds = sample(count)
    return await seconds if inspect.isawaitable(seconds) else seconds


def repeat(call: Callable[[], object]) -> Sample:
    """Time a function."""

    def sample(count: int) -> float:
        start = time.perf_counter()
        for _ in range(count):
            call()
        return time.perf_counter() - start

    return sample


def over(call: Callable[[T], object], make: Callable[[], Callable[[], T]]) -> Sample:
    """Time a function of one argument, each time with a fresh one, made beforehand."""

    def sample(count: int) -> float:
        fresh = make()
        arguments = [fresh() for _ in range(count)]
        start = time.perf_counter()
        for argument in arguments:
            call(argument)
        return time.perf_counter() - start

    return sample


def repeat_async(
    call: Callable[[], Awaitable[object]],
    *,
    then: Callable[[], Awaitable[object]] | None = None,
    counted: bool = False,
) -> Sample:
    """Time a coroutine function; `then` tidies up after each turn, `counted` or not."""

    async def sample(count: int) -> float:
        start = time.perf_counter()
        for _ in range(count):
            await call()
        seconds = time.perf_counter() - start
        if then is not None:
            await then()
        return time.perf_counter() - start if counted else seconds

    return sample


def middle(figures: Sequence[float]) -> float:
    """Return the median of many rounds."""
    return median(figures)


@dataclass(frozen=True)
class Lag:
    """Lag of a timer: 99th percentile and maximum."""

    p99: float
    worst: float


async def lag(seconds: float) -> Lag:
    """Measure the lag of the event loop for `seconds`."""
    lags: list[float] = []
    end = time.perf_counter() + seconds
    while (now := time.perf_counter()) < end:
        await asyncio.sleep(PAUSE)
        lags.append(time.perf_counter() - now - PAUSE)
    return Lag(p99=quantiles(lags, n=100, method="inclusive")[-1], worst=max(lags))
