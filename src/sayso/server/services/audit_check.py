"""Verification of the audit's hash chain, incremental: each check resumes where the last one ended.

Tests: tests/server/routes/test_approvals.py
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from sayso.core import audit
from sayso.errors import AuditError

if TYPE_CHECKING:
    from sayso.core.ports import Clock, Store

_PAGE = 500
_WAIT_SECONDS = 2.0
_FULL_EVERY_SECONDS = 600.0


class AuditCheck:
    """Verifier of the audit chain. A long check continues in the background after its caller has its response."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._checked: tuple[int, str] | None = None
        self._full_check_at = 0.0
        self._problem: str | None = None
        self._check: asyncio.Task[None] | None = None

    async def state(self) -> dict[str, Any]:
        """Return the last entry, and whether the chain is valid."""
        if self._problem is None:
            if self._check is None or self._check.done():
                self._check = asyncio.get_running_loop().create_task(self._check_new_entries())
            await asyncio.wait({self._check}, timeout=_WAIT_SECONDS)
            if self._check.done():
                self._check.result()  # raises the store's error
        _, (number, sealed) = await self._store.audit_ends()
        checked = 0 if self._checked is None else self._checked[0]
        problem = self._problem
        if problem is None and self._check is not None and not self._check.done():
            problem = f"not checked to its end yet: {checked} of {number} entries"
        return {"entries": number, "hash": sealed, "verified": problem is None, "problem": problem}

    async def _check_new_entries(self) -> None:
        """Verify new entries; and all of them every ten minutes, as verified ones can be changed later."""
        now = self._clock.now()
        start, end = await self._store.audit_ends()
        if self._checked is None or self._checked[0] < start[0] or now - self._full_check_at > _FULL_EVERY_SECONDS:
            self._checked, self._full_check_at = start, now
        try:
            while self._checked[0] < end[0]:
                page = await self._store.audit(self._checked[0], _PAGE)
                self._checked = await asyncio.to_thread(_verify_page, self._checked, page)
        except AuditError as error:
            if (await self._store.audit_ends())[0] == start:
                self._problem = str(error)
                return
            self._checked = None  # the entries were pruned during the check
            await self._check_new_entries()


def _verify_page(checked: audit.EntryRef, page: list[audit.SealedEntry]) -> audit.EntryRef:
    if not page:
        raise AuditError(f"audit entry {checked[0] + 1} is missing: the chain should not end before it")
    return audit.verify_page(checked, page)
