"""Long-poll feed for agents: changes of an agent's own requests, and of the decisions remembered for it.

Tests: tests/server/routes/agents/test_rpc.py
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING

from sayso.core.agent_protocol import ChangesReply, GetChanges
from sayso.core.msgpack_codec import pack_remembered, pack_request
from sayso.stores.waiters import Feed, deliver

if TYPE_CHECKING:
    from sayso.core.model import ApprovalRequest, Remembered
    from sayso.core.ports import Store
    from sayso.server.routes.agents.namespace import AgentNamespace

_KEPT_PAGES = 64

ChangePage = tuple[int, list["ApprovalRequest"]]


class AgentFeed:
    """Feed for the long polls of all agents: each page of changes is read once for all of them."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._pages: OrderedDict[tuple[object, int, int], asyncio.Future[ChangePage]] = OrderedDict()
        self._known: Sequence[Remembered] = ()
        self._version = 0
        self._remembered_feed = Feed()
        self._packed_remembered: dict[AgentNamespace, tuple[int, str, list[bytes]]] = {}
        self._store.attach(self._on_remembered)

    async def wait_for_changes(
        self, namespace: AgentNamespace, asked: GetChanges, disconnected: Awaitable[None] | None = None
    ) -> ChangesReply:
        """Long poll: return on a change, at the time-out, or when the client has disconnected."""
        ends_at = asyncio.get_running_loop().time() + asked.wait
        reached, _ = await self._store.changes()
        point = reached if asked.after is None else min(asked.after, reached)
        gone = asyncio.ensure_future(_never() if disconnected is None else disconnected)
        try:
            while True:
                version, known, remembered = self.remembered_for(namespace)
                point, mine = await self._own_changes(namespace, point, asked)
                left = ends_at - asyncio.get_running_loop().time()
                news = mine or known != asked.known or (asked.after or 0) > reached
                if news or left <= 0 or gone.done():
                    packed = [pack_request(namespace.to_agent(each)) for each in mine]
                    sent = None if known == asked.known else remembered
                    return ChangesReply(point=point, rows=packed, known=known, remembered=sent)
                await self._wait_for_news(point, version, gone, left)
        finally:
            gone.cancel()

    def remembered_for(self, namespace: AgentNamespace) -> tuple[int, str, list[bytes]]:
        """Return the decisions remembered for an agent, packed, with their version in this process and their hash."""
        found = self._packed_remembered.get(namespace)
        if found is None or found[0] != self._version:
            version = self._version  # first: a list newer than its version is sent twice, an older one never
            packed = [
                pack_remembered(namespace.remembered_to_agent(each)) for each in self._known if namespace.sees(each)
            ]
            found = (version, hashlib.sha256(b"".join(packed)).hexdigest(), packed)
            self._packed_remembered[namespace] = found
        return found

    def may_spend(self, namespace: AgentNamespace, remembered_id: str) -> bool:
        """Whether a remembered decision applies to the agent."""
        return any(each.id == remembered_id and namespace.sees(each) for each in self._known)

    def _on_remembered(self, known: Sequence[Remembered]) -> None:
        self._known = known
        self._version += 1
        self._packed_remembered = {}
        deliver(self._remembered_feed.advance(self._version))

    async def _own_changes(self, namespace: AgentNamespace, point: int, asked: GetChanges) -> ChangePage:
        """Return the next changes of the agent's own requests, and the point after them."""
        while True:
            point, found = await self._page(point, asked.limit, shared=asked.wait > 0)
            mine = [each for each in found if namespace.owns(each)]
            if mine or not found:
                return point, mine

    async def _page(self, after: int, limit: int, *, shared: bool) -> ChangePage:
        """Read a page of changes; long polls share a page that another one has just read.

        A shared page may be a moment old; later changes have a later point, and follow.
        """
        if not shared:
            return await self._store.changes(after, limit)
        key = (asyncio.get_running_loop(), after, limit)
        reading = self._pages.get(key)
        if reading is None or _is_unusable(reading):
            reading = self._pages[key] = asyncio.ensure_future(self._store.changes(after, limit))
            if len(self._pages) > _KEPT_PAGES:
                self._pages.popitem(last=False)
        return await asyncio.shield(reading)

    async def _wait_for_news(self, point: int, version: int, gone: asyncio.Future[None], seconds: float) -> None:
        waits = [
            asyncio.ensure_future(self._store.changed(point)),
            asyncio.ensure_future(self._remembered_feed.wait_past(version)),
        ]
        try:
            await asyncio.wait([*waits, gone], timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waits:
                each.cancel()


async def _never() -> None:
    await asyncio.get_running_loop().create_future()


def _is_unusable(reading: asyncio.Future[ChangePage]) -> bool:
    """Whether a page cannot be shared: it failed, or it was empty."""
    return reading.done() and (reading.cancelled() or reading.exception() is not None or not reading.result()[1])
