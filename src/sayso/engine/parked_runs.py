"""Parked runs: suspended runs of any framework, sealed in the store, listed, and leased to one process at a time.

Tests: tests/adapters/pydantic_ai/test_parking.py
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING

from sayso.engine.lease import Lease
from sayso.errors import AlreadyResuming, StoreError, UnknownRequest

if TYPE_CHECKING:
    from sayso.core.model import ParkedRun
    from sayso.core.ports import Clock, Store
    from sayso.engine.lifecycle import RequestLifecycle

_VERSION = b"\x01"
_SEAL = hashlib.sha256().digest_size
_LEASE_SECONDS = 60.0
_PAUSE_SECONDS = 1.0  # after the store has failed


def seal(name: str, body: bytes) -> bytes:
    """Return the state of a run as it is parked: a changed state, or that of another run, is recognised."""
    return _VERSION + _digest(name, body) + body


def unseal(name: str, packed: bytes) -> bytes:
    """Return the state of a run; raises `StoreError` if it is not as it was parked."""
    if packed[:1] != _VERSION:
        raise StoreError(f"the run {name!r} was parked by another version of sayso ({packed[:1]!r}); resume it there")
    found, body = packed[1 : 1 + _SEAL], packed[1 + _SEAL :]
    if found != _digest(name, body):
        raise StoreError(f"the run {name!r} is not as it was parked; it is not resumed")
    return body


def _digest(name: str, body: bytes) -> bytes:
    return hashlib.sha256(b"sayso/parked/1\0" + name.encode() + b"\0" + body).digest()


class HeldRun:
    """A parked run while this process holds its lease: the state to resume from, and the way to replace it."""

    def __init__(self, store: Store, lease: Lease, run_id: str, packed: bytes) -> None:
        self._store = store
        self._lease = lease
        self._id = run_id
        self._packed = packed
        self.is_over = False

    @property
    def state(self) -> bytes:
        """The last state, unsealed."""
        return unseal(self._id, self._packed)

    async def save(self, state: bytes, run: ParkedRun) -> None:
        """Replace the state: from here on, the run resumes from this one."""
        await self._require_lease()
        packed = seal(self._id, state)
        await self._store.park(self._id, packed, run)
        self._packed = packed

    async def end(self) -> None:
        """Delete the run, which has come to its end."""
        await self._require_lease()
        await self._store.unpark(self._id)
        self.is_over = True

    async def _require_lease(self) -> None:
        # The lease may have lapsed while the event loop stood still. That is no harm if the state is unchanged.
        if not await self._lease.acquire_or_renew() or await self._store.parked(self._id) != self._packed:
            raise AlreadyResuming(
                f"the run {self._id!r} was dropped, or another process has resumed it, so it does not go on here"
            )


class ParkedRuns:
    """The parked runs of a store."""

    def __init__(self, store: Store, clock: Clock, lifecycle: RequestLifecycle) -> None:
        self._store = store
        self._clock = clock
        self._lifecycle = lifecycle

    async def all(self) -> list[ParkedRun]:
        """Return the parked runs, oldest first."""
        return await self._store.runs()

    async def add(self, state: bytes, run: ParkedRun) -> None:
        """Park a run."""
        await self._store.park(run.id, seal(run.id, state), run)

    async def read(self, run_id: str) -> bytes:
        """Return the state of a run, or raise `UnknownRequest`."""
        return unseal(run_id, await self._require(run_id))

    async def _require(self, run_id: str) -> bytes:
        packed = await self._store.parked(run_id)
        if packed is None:
            raise UnknownRequest(f"no run is parked as {run_id!r}; perhaps it has gone on already")
        return packed

    async def drop(self, run: ParkedRun, reason: str) -> bool:
        """Delete a run that nobody will resume, and withdraw the requests that it waits for; false if it was gone."""
        for each in run.requests:
            request = await self._store.get(each)
            # The agent listed these ids itself: at a hub, they might name requests of others.
            if request is not None and (request.project, request.asked_by) == (run.project, run.parked_by):
                await self._lifecycle.withdraw_quietly(each, reason)
        return await self._store.unpark(run.name) is not None

    @contextlib.asynccontextmanager
    async def hold(self, run_id: str) -> AsyncGenerator[HeldRun]:
        """Hold a run for the block: no other process resumes it meanwhile.

        Raises:
            UnknownRequest: no run is parked under this id, or no longer.
            AlreadyResuming: another process holds it.
        """
        await self._require(run_id)
        lease = Lease(self._store, self._clock, run_id, seconds=_LEASE_SECONDS)
        if not await lease.acquire_or_renew():
            raise AlreadyResuming(
                f"another process is resuming the run {run_id!r}; if that process has died, the run can be resumed "
                f"within {2 * _LEASE_SECONDS:.0f} seconds"
            )
        renewing = asyncio.create_task(self._keep_renewing(lease))
        held = None
        try:
            held = HeldRun(self._store, lease, run_id, await self._require(run_id))
            yield held
        finally:
            renewing.cancel()
            with contextlib.suppress(StoreError):  # then the lease runs out by itself
                await (lease.forget() if held is None or held.is_over else lease.release())

    async def _keep_renewing(self, lease: Lease) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with self._clock.until(lease.check_again_at):
                    await asyncio.get_running_loop().create_future()
            try:
                await lease.acquire_or_renew()
            except StoreError:
                await asyncio.sleep(_PAUSE_SECONDS)
