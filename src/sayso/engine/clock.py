"""System clock: the time, and a time-out at a point in time.

Tests: tests/engine/test_controller.py
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from sayso.core.ports import Clock


class SystemClock:
    """The time of this machine."""

    now = staticmethod(time.time)

    def until(self, when: float) -> AbstractAsyncContextManager[object]:
        """Return a context that raises TimeoutError inside its body at that time."""
        return asyncio.timeout(max(0.0, when - time.time()))


def clock_of(store: object, clock: Clock | None = None) -> Clock:
    """Return the given clock, else the store's own, else this machine's.

    A store that many machines share has a clock, so that deadlines do not depend on the machine.
    """
    return clock or getattr(store, "clock", None) or SystemClock()
