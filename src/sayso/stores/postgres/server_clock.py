"""The database's clock, as this process knows it: all who use a store go by one time, whatever their own clocks say."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

_STALE_SECONDS = 60.0


class ServerClock:
    """Goes on from what the server last said, by a clock that nobody sets."""

    def __init__(self) -> None:
        """Begin with the time of this machine; the server is heard before anybody asks."""
        self._offset = time.time() - time.monotonic()
        self._uncertainty, self._synced_at = float("inf"), 0.0

    def synchronize(self, server_time: float, began: float) -> None:
        """Take what the server said to a question that began then; a quick answer is worth more than a slow one."""
        now = time.monotonic()
        doubt = now - began
        if doubt <= self._uncertainty or now - self._synced_at > _STALE_SECONDS:
            self._offset = server_time - (began + now) / 2
            self._uncertainty, self._synced_at = doubt, now

    def now(self) -> float:
        """Return seconds since the epoch, as the database counts them."""
        return time.monotonic() + self._offset

    def until(self, when: float) -> AbstractAsyncContextManager[object]:
        """Return a context that raises TimeoutError inside its body at that time."""
        return asyncio.timeout(max(0.0, when - self.now()))
