"""Who in this process has to hear of what happens in a PostgreSQL store, whoever did it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from sayso.core.msgpack_codec import unpack_remembered, unpack_requests_leniently
from sayso.stores.postgres.schema import statement
from sayso.stores.remembered_feed import RememberedSubscribers
from sayso.stores.waiters import Feed, Settled, Waiters, deliver

if TYPE_CHECKING:
    from sayso.core.model import Remembered
    from sayso.stores.postgres.cache import RequestCache
    from sayso.stores.postgres.connection import ReadPool, Row
    from sayso.stores.postgres.transaction import GroupTransaction


class Subscribers:
    """Those who wait for requests or for changes, and the memories that know what is remembered."""

    def __init__(self, readers: ReadPool, cache: RequestCache) -> None:
        """Begin with nobody."""
        self.waiters, self.feed, self.remembered = Waiters(), Feed(), RememberedSubscribers()
        self.open_here: set[str] = set()  # opened by this store, and nothing was heard of it since
        self._readers, self._cache = readers, cache
        self._version = -1
        self._remembered: Sequence[Remembered] = ()

    def on_commit(self, group: GroupTransaction, known: Row | None) -> Settled:
        """Take what this store did itself; return who waited for it."""
        self.open_here.difference_update(request.id for request in group.closed)
        if known is not None:
            self._update_remembered(known)
        return self.waiters.settle(group.closed) + self.feed.advance(group.change)

    async def on_remote_change(self, closed: Sequence[str], reached: int) -> None:
        """Wake those who wait for requests that are closed, or for any change."""
        self.open_here.difference_update(closed)  # first: who begins to wait from now on looks for itself
        waited = self.waiters.filter_awaited(closed)
        if waited:
            rows = await self._readers.fetch(statement("requests_get"), waited)
            found = unpack_requests_leniently(rows, self._cache.unpack_row)
            deliver(self.waiters.settle([each for each in found if each.status != "open"]))
        deliver(self.feed.advance(reached))

    async def resync(self) -> None:
        """Look at everything that is waited for: the past may have changed."""
        self.open_here.clear()
        self._cache.clear()
        self._version = -1
        await self.on_remote_change(self.waiters.ids(), 0)

    async def refresh(self, version: int) -> None:
        """Read what is remembered, if it is newer than what is known."""
        if version > self._version:
            self._update_remembered((await self._readers.fetch(statement("remembered_read")))[0])

    def _update_remembered(self, known: Row) -> None:
        version, packed = known
        if version <= self._version:
            return  # read before what is known by now
        self._version = version
        self._remembered = [unpack_remembered(each) for each in packed]
        self._publish(lambda _: True)

    def distrust(self) -> None:
        """Go on without what may have been revoked: a yes holds only as long as it could be taken back."""
        if self._version >= 0:
            self._version = -1
            self._publish(lambda each: not each.decision.approved)

    def _publish(self, only: Callable[[Remembered], bool]) -> None:
        self.remembered.publish(self.remembered.version + 1, [each for each in self._remembered if only(each)])
