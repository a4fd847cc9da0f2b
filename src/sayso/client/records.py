"""Records of operators: remembered decisions, parked runs, statistics and the audit log, in a store or at a hub.

Tests: tests/cli/operators/test_remembered.py
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from sayso.client.statistics import count_requests
from sayso.core import audit
from sayso.core.model import ApprovalRequest, ParkedRun, Remembered
from sayso.core.ports import AuditLog, Store
from sayso.engine.clock import clock_of
from sayso.engine.controller import ApprovalController
from sayso.engine.remembered import ApprovalMemory

DROPPED = "{} dropped the run that asked"


class Records(AuditLog, Protocol):
    """Protocol for lookup and revocation. Every failure is a `StoreError`, in one sentence."""

    async def remembered(self) -> list[Remembered]:
        """Return the remembered decisions, oldest first."""
        ...

    async def revoke(self, remembered_id: str, who: str) -> bool:
        """Revoke a remembered decision; false if it was already gone."""
        ...

    async def runs(self) -> list[ParkedRun]:
        """Return the parked runs, oldest first."""
        ...

    async def drop_run(self, run: ParkedRun, who: str) -> bool:
        """Delete a parked run, and withdraw its open requests; false if it was already gone."""
        ...

    async def request(self, request_id: str) -> ApprovalRequest | None:
        """Return a request, or None."""
        ...

    async def stats(self, hours: int) -> Mapping[str, Any]:
        """Return the statistics of the last hours; see `count_requests`."""
        ...

    async def verify(self, known: tuple[int, str] | None = None) -> int:
        """Verify the whole audit chain and return the number of its last entry; see `audit.verify`."""
        ...


class StoreRecords:
    """Records of a local store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._memory = ApprovalMemory(store=store)
        self._controller = ApprovalController(mode="defer", store=store, memory=self._memory)

    async def remembered(self) -> list[Remembered]:
        """Return the remembered decisions."""
        return self._memory.list()

    async def revoke(self, remembered_id: str, who: str) -> bool:
        """Revoke a remembered decision."""
        return self._memory.revoke(remembered_id, who=who)

    async def runs(self) -> list[ParkedRun]:
        """Return the parked runs."""
        return await self._controller.parked_runs()

    async def drop_run(self, run: ParkedRun, who: str) -> bool:
        """Delete a parked run."""
        return await self._controller.drop_run(run, DROPPED.format(who))

    async def request(self, request_id: str) -> ApprovalRequest | None:
        """Return a request, or None."""
        return await self._store.get(request_id)

    async def stats(self, hours: int) -> Mapping[str, Any]:
        """Return the statistics of the last hours."""
        return await count_requests(self._store, hours, clock_of(self._store, None).now())

    async def audit(self, after: int = 0, limit: int = 1000) -> list[tuple[int, bytes, str]]:
        """Return audit entries."""
        return await self._store.audit(after, limit)

    async def audit_ends(self) -> tuple[tuple[int, str], tuple[int, str]]:
        """Return the first and the last link of the audit chain."""
        return await self._store.audit_ends()

    async def verify(self, known: tuple[int, str] | None = None) -> int:
        """Verify the audit chain."""
        return await audit.verify(self, known=known)
