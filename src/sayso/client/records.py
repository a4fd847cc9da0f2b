"""What stays: decisions that stand for later calls, and the audit, in a store or at a hub."""

from __future__ import annotations

from typing import Protocol

from sayso.core import audit
from sayso.core.model import ApprovalRequest, Remembered
from sayso.core.ports import AuditLog, Store
from sayso.engine.remembered import ApprovalMemory


class Records(AuditLog, Protocol):
    """What people look up, and what they take back. Whatever fails is a `StoreError`, in one sentence."""

    async def remembered(self) -> list[Remembered]:
        """Return the decisions that stand for later calls, oldest first."""
        ...

    async def revoke(self, remembered_id: str, who: str) -> bool:
        """Take a decision back; false if somebody else was faster."""
        ...

    async def request(self, request_id: str) -> ApprovalRequest | None:
        """Return the request that something is about, if it is there."""
        ...

    async def verify(self, known: tuple[int, str] | None = None) -> int:
        """Check the whole chain and return the number of its last entry; see `audit.verify`."""
        ...


class StoreRecords:
    """What stays in a store that is at hand."""

    def __init__(self, store: Store) -> None:
        """Take the store, which stays its owner's."""
        self._store = store
        self._memory = ApprovalMemory(store=store)

    async def remembered(self) -> list[Remembered]:
        """Return what is remembered."""
        return self._memory.list()

    async def revoke(self, remembered_id: str, who: str) -> bool:
        """Take a decision back."""
        return self._memory.revoke(remembered_id, who=who)

    async def request(self, request_id: str) -> ApprovalRequest | None:
        """Return a request."""
        return await self._store.get(request_id)

    async def audit(self, after: int = 0, limit: int = 1000) -> list[tuple[int, bytes, str]]:
        """Return entries of the audit."""
        return await self._store.audit(after, limit)

    async def audit_ends(self) -> tuple[tuple[int, str], tuple[int, str]]:
        """Return where the audit starts and ends."""
        return await self._store.audit_ends()

    async def verify(self, known: tuple[int, str] | None = None) -> int:
        """Check the chain."""
        return await audit.verify(self, known=known)
