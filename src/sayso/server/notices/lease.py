"""Lease: of several hubs on one store, exactly one holds a job.

Tests: tests/server/notices/test_scheduler.py
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sayso.core.model import new_id

if TYPE_CHECKING:
    from sayso.core.ports import Clock, Store

_SECONDS = 20.0  # length of a slot, and the longest gap after the holder dies


class Lease:
    """A lease in 20 s slots. The holder renews for the next slot at half-time; if it dies, another hub takes over."""

    def __init__(self, store: Store, clock: Clock, name: str) -> None:
        self._store = store
        self._clock = clock
        self._release_key = f"hub\0turn of {name}"  # parked under this key: the holder that released its slot early
        self._holder = new_id().encode()
        self._won = self._lost = -1  # the last slots won and lost, as numbers since the epoch
        self.check_again_at = 0.0  # when to call `acquire_or_renew` again

    async def acquire_or_renew(self) -> bool:
        """Whether this hub holds the lease now."""
        now = self._clock.now()
        current = int(now // _SECONDS)
        if self._won < current and (self._lost == current or not await self._try_acquire(current)):
            self.check_again_at = (current + 1) * _SECONDS
            return False
        half, following = (current + 0.5) * _SECONDS, current + 1
        if self._won == current and now >= half and self._lost != following:
            await self._try_acquire(following)
        if self._won == following:
            half += _SECONDS
        self.check_again_at = half if now < half else following * _SECONDS
        return True

    async def release(self) -> None:
        """Release the lease at once; this hub must not acquire it again."""
        if self._won * _SECONDS > self._clock.now() - _SECONDS:
            await self._store.park(self._release_key, self._holder)

    async def _try_acquire(self, number: int) -> bool:
        """Try to win a slot: all hubs use one idempotency key, so `unpark` returns the same winner to each of them."""
        released_by = await self._store.parked(self._release_key) or b""
        row = f"{self._release_key}\0{number}\0{released_by.decode()}"
        await self._store.park(row, self._holder)
        winner = await self._store.unpark(row, attempt=row)
        if winner == self._holder:
            self._won = number
            return True
        self._lost = number
        await self._store.unpark(row)  # delete the row that this hub parked after the winner's unpark
        return False
