"""System clock, and deadlines that hold by monotonic time too."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from typing import TYPE_CHECKING, NamedTuple

from sayso.core.ports import MonotonicClock

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager

    from sayso.core.model import ApprovalRequest
    from sayso.core.ports import Clock

_MOST_DEADLINES = 100_000
_JITTER_SECONDS = 1.0  # by which a clock may be slewed, and not set back


class SystemClock:
    """The time of this machine."""

    now = staticmethod(time.time)

    def until(self, when: float) -> AbstractAsyncContextManager[object]:
        """Return a context that raises TimeoutError inside its body at that time."""
        return asyncio.timeout(max(0.0, when - time.time()))


def monotonic_of(clock: Clock) -> Callable[[], float]:
    """Return the monotonic time that belongs to a clock: its own, else this machine's."""
    return clock.monotonic if isinstance(clock, MonotonicClock) else time.monotonic


def clock_of(store: object, clock: Clock | None = None) -> Clock:
    """Return the given clock, else the store's own, else this machine's.

    A store that many machines share has a clock, so that deadlines do not depend on the machine.
    """
    return clock or getattr(store, "clock", None) or SystemClock()


class ForwardTime:
    """The time of a clock as if it had never been set back: a yes for ten minutes ends after ten minutes."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._monotonic = monotonic_of(clock)
        self._offset = clock.now() - self._monotonic()

    def now(self) -> float:
        """Return the time of the clock, or a later one if the clock was set back."""
        now, monotonic = self._clock.now(), self._monotonic()
        self._offset = max(self._offset, now - monotonic)
        return max(now, monotonic + self._offset)


class _Deadline(NamedTuple):
    ends: float  # monotonic
    offset: float  # of the clock from monotonic time, when this began


class RequestDeadlines:
    """Deadlines of the requests that this process knows: a clock that is set back lengthens no question."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._monotonic = monotonic_of(clock)
        self._of: OrderedDict[str, _Deadline] = OrderedDict()

    def begin(self, request: ApprovalRequest) -> float:
        """Begin with the deadline of an open request, unless it has one; return its end in monotonic time."""
        found = self._of.get(request.id)
        if found is not None or request.expires_at is None:
            return float("inf") if found is None else found.ends
        now, monotonic = self._clock.now(), self._monotonic()
        left = request.expires_at - now
        if request.asked_at < request.expires_at:
            # The clock may have been set back before this process saw it: no longer than it was asked for.
            left = min(left, request.expires_at - request.asked_at)
        found = self._of[request.id] = _Deadline(monotonic + left, now - monotonic)
        if len(self._of) > _MOST_DEADLINES:
            self._of.popitem(last=False)
        return found.ends

    def as_time(self, ends: float) -> float:
        """Return a monotonic time as a time of the clock, as it goes now."""
        return self._clock.now() + ends - self._monotonic()

    def has_come(self, ends: float) -> bool:
        """Whether a monotonic time has come."""
        return self._monotonic() >= ends

    def is_past(self, request_id: str) -> bool:
        """Whether the deadline of a request has passed."""
        found = self._of.get(request_id)
        return found is not None and self.has_come(found.ends)

    def is_past_unnoticed(self, request_id: str) -> bool:
        """Whether it has passed, and the clock, by which stores go, was set back meanwhile."""
        found = self._of.get(request_id)
        if found is None or not self.has_come(found.ends):
            return False
        return self._clock.now() - self._monotonic() < found.offset - _JITTER_SECONDS

    def end(self, request_id: str) -> None:
        """Forget the deadline of a closed request."""
        self._of.pop(request_id, None)
