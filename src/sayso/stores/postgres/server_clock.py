"""Server clock: the database's time as estimated here, so that all users of a store share one clock.

Tests: tests/stores/postgres/test_store.py
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

_STALE_SECONDS = 60.0


class ServerClock:
    """Monotonic clock plus the offset of the server, measured at each poll."""

    def __init__(self) -> None:
        self._offset = time.time() - time.monotonic()
        self._uncertainty, self._synced_at = float("inf"), 0.0

    def synchronize(self, server_time: float, began: float) -> None:
        """Update the offset from a reply to a query that began then; a quicker reply is more accurate."""
        now = time.monotonic()
        uncertainty = now - began
        if uncertainty <= self._uncertainty or now - self._synced_at > _STALE_SECONDS:
            self._offset = server_time - (began + now) / 2
            self._uncertainty, self._synced_at = uncertainty, now

    def now(self) -> float:
        """Return seconds since the epoch, as the database counts them."""
        return time.monotonic() + self._offset

    def until(self, when: float) -> AbstractAsyncContextManager[object]:
        """Return a context that raises TimeoutError inside its body at that time."""
        return asyncio.timeout(max(0.0, when - self.now()))
