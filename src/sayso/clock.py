"""The real clock."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager


class SystemClock:
    """The time of this machine."""

    now = staticmethod(time.time)

    def until(self, when: float) -> AbstractAsyncContextManager[object]:
        """Return a context that raises TimeoutError inside its body at that time."""
        return asyncio.timeout(max(0.0, when - time.time()))
