"""Subscribers of a PostgreSQL store in this process: waiters, change feed and remembered decisions.

Tests: tests/stores/postgres/test_promises.py
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sayso.core.msgpack_codec import unpack_remembered, unpack_requests_leniently
from sayso.stores.postgres.schema import statement
from sayso.stores.remembered_feed import RememberedSubscribers
from sayso.stores.waiters import Feed, Settled, Waiters, deliver

if TYPE_CHECKING:
    from sayso.stores.postgres.cache import RequestCache
    from sayso.stores.postgres.connection import ReadPool, Row
    from sayso.stores.postgres.transaction import GroupTransaction


class Subscribers:
    """Delivers the commits of all processes to waiting futures and to approval memories."""

    def __init__(self, readers: ReadPool, cache: RequestCache) -> None:
        self.waiters, self.feed, self.remembered = Waiters(), Feed(), RememberedSubscribers()
        self._readers, self._cache = readers, cache
        self._version = -1

    def on_commit(self, group: GroupTransaction, known: Row | None) -> Settled:
        """Apply a commit of this store; return the futures to settle."""
        if known is not None:
            self._update_remembered(known)
        return self.waiters.settle(group.closed) + self.feed.advance(group.change)

    async def on_remote_change(self, closed: Sequence[str], reached: int) -> None:
        """Settle the futures that wait for these closed requests, or for any change."""
        waited = self.waiters.note_changed(closed)
        if waited:
            rows = await self._readers.fetch(statement("requests_get"), waited)
            found = unpack_requests_leniently(rows, self._cache.unpack_row)
            deliver(self.waiters.settle([each for each in found if each.status != "open"]))
        deliver(self.feed.advance(reached))

    async def resync(self) -> None:
        """Clear the cache and read every awaited request: the database may be an older copy."""
        self._cache.clear()
        self._version = -1
        await self.on_remote_change(self.waiters.note_missed_changes(), 0)

    async def refresh(self, version: int) -> None:
        """Read the remembered decisions, if this version is newer than the known one."""
        if version > self._version:
            self._update_remembered((await self._readers.fetch(statement("remembered_read")))[0])

    def _update_remembered(self, known: Row) -> None:
        version, packed = known
        if version <= self._version:
            return  # not newer than the known one
        self._version = version
        self.remembered.publish([unpack_remembered(each) for each in packed])

    def distrust(self) -> None:
        """Withdraw remembered approvals until the next read."""
        if self._version >= 0:
            self._version = -1
            self.remembered.withdraw_approvals()
