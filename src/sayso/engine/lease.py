"""Lease: of several processes on one store, exactly one holds a job, until it releases it or dies."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from sayso.core.model import new_id

if TYPE_CHECKING:
    from sayso.core.ports import Clock, Parking


class Lease:
    """A lease in time slots. The holder renews for the next slot at half-time; if it dies, another one takes over."""

    def __init__(self, store: Parking, clock: Clock, name: str, *, seconds: float) -> None:
        """Name the job.

        Args:
            store: shared by all that compete for the lease.
            clock: the one of that store.
            name: of the job.
            seconds: the length of a slot; after the holder dies, the gap is at most two slots.
        """
        self._store = store
        self._clock = clock
        self._seconds = seconds
        self._release_key = f"{name}\0lease"  # parked under this key: the holder that released its slot early
        self._holder = new_id().encode()
        self._won = self._lost = -1  # the last slots won and lost, as numbers since the epoch
        self.check_again_at = 0.0  # when to call `acquire_or_renew` again

    async def acquire_or_renew(self) -> bool:
        """Whether this process holds the lease now."""
        now = self._clock.now()
        current = int(now // self._seconds)
        if self._won < current and (self._lost == current or not await self._try_acquire(current)):
            self.check_again_at = (current + 1) * self._seconds
            return False
        half, following = (current + 0.5) * self._seconds, current + 1
        if self._won == current and now >= half and self._lost != following:
            await self._try_acquire(following)
        if self._won == following:
            half += self._seconds
        self.check_again_at = half if now < half else following * self._seconds
        return True

    async def release(self) -> None:
        """Release the lease at once; this object must not acquire it again."""
        if self._won * self._seconds > self._clock.now() - self._seconds:
            await self._store.park(self._release_key, self._holder)

    async def forget(self) -> None:
        """Delete what the lease has left in the store, once its job is over for everybody."""
        await self._store.unpark(self._release_key)

    async def _try_acquire(self, number: int) -> bool:
        """Try to win a slot: all use one idempotency key, so `unpark` returns the same winner to each of them."""
        released_by = await self._store.parked(self._release_key) or b""
        row = f"{self._release_key}\0{number}\0{released_by.decode()}"
        await self._store.park(row, self._holder)
        winner = await self._store.unpark(row, attempt=hashlib.sha256(row.encode()).hexdigest())
        if winner == self._holder:
            self._won = number
            return True
        self._lost = number
        await self._store.unpark(row)  # delete the row that this process parked after the winner's unpark
        return False
