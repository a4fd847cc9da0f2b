"""Cache of the statistics: one count serves all queries of a project within five seconds.

Tests: tests/server/routes/test_approvals.py
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from sayso.client.statistics import count_requests

if TYPE_CHECKING:
    from sayso.core.ports import Clock, Store
    from sayso.core.tokens import Token

_FRESH_SECONDS = 5.0


class Stats:
    """Statistics of one hub, with a cache."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._cache: dict[tuple[str, int], tuple[float, dict[str, Any]]] = {}
        self._lock = asyncio.Lock()

    async def last_hours(self, token: Token, hours: int) -> dict[str, Any]:
        """Return the statistics of the last hours, with the current one, for a token's project."""
        key = (token.project, hours)
        async with self._lock:
            now = self._clock.now()
            self._cache = {each: entry for each, entry in self._cache.items() if now - entry[0] < _FRESH_SECONDS}
            if key not in self._cache:
                self._cache[key] = now, await count_requests(self._store, hours, now, token.is_for)
            return self._cache[key][1]
