"""Who in this process has to hear of what happens in a PostgreSQL store, whoever did it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from sayso.core.msgpack_codec import readable, unpack_remembered
from sayso.stores.postgres.schema import statement
from sayso.stores.remembered_feed import Learners
from sayso.stores.waiters import Feed, Settled, Waiters, deliver

if TYPE_CHECKING:
    from sayso.core.model import Remembered
    from sayso.stores.postgres.cache import Copies
    from sayso.stores.postgres.connection import Readers, Row
    from sayso.stores.postgres.transaction import Group


class Audience:
    """Those who wait for requests or for changes, and the memories that know what is remembered."""

    def __init__(self, readers: Readers, copies: Copies) -> None:
        """Begin with nobody."""
        self.waiters, self.feed, self.learners = Waiters(), Feed(), Learners()
        self.open_here: set[str] = set()  # opened by this store, and nothing was heard of it since
        self._readers, self._copies = readers, copies
        self._version = -1
        self._remembered: Sequence[Remembered] = ()

    def told(self, group: Group, known: Row | None) -> Settled:
        """Take what this store did itself; return who waited for it."""
        self.open_here.difference_update(request.id for request in group.closed)
        if known is not None:
            self._teach(known)
        return self.waiters.take(group.closed) + self.feed.reach(group.change)

    async def hear(self, closed: Sequence[str], reached: int) -> None:
        """Wake those who wait for requests that are closed, or for any change."""
        self.open_here.difference_update(closed)  # first: who begins to wait from now on looks for itself
        waited = self.waiters.among(closed)
        if waited:
            rows = await self._readers.fetch(statement("requests_get"), waited)
            found = readable(rows, self._copies.take)
            deliver(self.waiters.take([each for each in found if each.status != "open"]))
        deliver(self.feed.reach(reached))

    async def look(self) -> None:
        """Look at everything that is waited for: the past may have changed."""
        self.open_here.clear()
        self._copies.clear()
        self._version = -1
        await self.hear(self.waiters.ids(), 0)

    async def learn(self, version: int) -> None:
        """Read what is remembered, if it is newer than what is known."""
        if version > self._version:
            self._teach((await self._readers.fetch(statement("remembered_read")))[0])

    def _teach(self, known: Row) -> None:
        version, packed = known
        if version <= self._version:
            return  # read before what is known by now
        self._version = version
        self._remembered = [unpack_remembered(each) for each in packed]
        self._tell(lambda _: True)

    def doubt(self) -> None:
        """Go on without what may have been revoked: a yes holds only as long as it could be taken back."""
        if self._version >= 0:
            self._version = -1
            self._tell(lambda each: not each.decision.approved)

    def _tell(self, only: Callable[[Remembered], bool]) -> None:
        self.learners.teach(self.learners.version + 1, [each for each in self._remembered if only(each)])
