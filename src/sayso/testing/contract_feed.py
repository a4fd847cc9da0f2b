"""Contract suite of the change feed, votes and presence; a part of `StoreContract`.

Tests: tests/stores/sqlite/test_store.py
"""

from __future__ import annotations

import asyncio

import anyio
from msgspec.structs import replace

from sayso.core import audit
from sayso.core.approvers import Approvers, Seen
from sayso.core.model import ApprovalDecision
from sayso.core.ports import Store
from sayso.testing.samples import NO, YES, sample_request


class FeedContract:
    """Contract of the feed by which front ends and hubs subscribe to changes of requests."""

    async def test_the_feed_tells_of_every_change_after_a_point_each_request_once_and_as_it_stands(
        self, stores: tuple[Store, Store]
    ) -> None:
        one, two = stores
        old = await one.open(sample_request())
        start, nothing = await two.changes()
        assert nothing == []
        assert await two.changes(start) == (start, [])
        opened = [await one.open(sample_request()) for _ in range(3)]
        await one.close(old.id, "denied", NO, now=1.0)
        await two.close(opened[0].id, "approved", YES, now=1.0)
        point, found = await two.changes(start)
        assert [(each.id, each.status) for each in found] == [
            (opened[1].id, "open"), (opened[2].id, "open"), (old.id, "denied"), (opened[0].id, "approved"),
        ]  # fmt: skip
        assert (await one.changes(point))[1] == []
        assert await one.claim(opened[0].id, now=2.0)
        one.finish(opened[0].id, "returned")
        await one.flush()
        assert [each.state for each in (await two.changes(point))[1]] == ["used, returned"]

    async def test_the_feed_can_be_read_in_pieces(self, stores: tuple[Store, Store]) -> None:
        point, _ = await stores[0].changes()
        opened = [(await stores[0].open(sample_request())).id for _ in range(5)]
        read: list[str] = []
        while piece := (await stores[1].changes(point, limit=2))[1]:
            point, _ = await stores[1].changes(point, limit=2)
            read += [each.id for each in piece]
        assert read == opened

    async def test_who_waits_for_changes_hears_of_them_from_elsewhere(self, stores: tuple[Store, Store]) -> None:
        one, two = stores
        point, _ = await one.changes()
        waiting = asyncio.ensure_future(one.changed(point))
        await asyncio.sleep(0)
        assert not waiting.done()
        request = await two.open(sample_request())
        with anyio.fail_after(10):
            await waiting
            await one.changed(point)  # it has changed already
        assert [each.id for each in (await one.changes(point))[1]] == [request.id]

    async def test_where_several_must_say_yes_each_counts_once_and_the_last_one_closes(
        self, stores: tuple[Store, Store]
    ) -> None:
        one, two = stores
        request = await one.open(replace(sample_request(), approvers=Approvers(count=2)))
        point, _ = await one.changes()
        for _ in range(2):
            assert (await two.close(request.id, "approved", YES, now=1.0)).status == "open"
        assert [len(each.votes) for each in (await one.changes(point))[1]] == [1]
        assert not await one.claim(request.id, now=1.0)
        second = ApprovalDecision(approved=True, who="cleo")
        closed = await one.close(request.id, "approved", second, now=2.0)
        assert (closed.status, [each.who for each in closed.votes]) == ("approved", ["ann", "cleo"])
        assert await two.claim(request.id, now=3.0)
        steps = [entry["step"] async for entry in audit.entries(two)]
        assert steps == ["asked", "voted", "approved", "claimed"]

    async def test_where_several_must_say_yes_one_no_is_a_no(self, stores: tuple[Store, Store]) -> None:
        one, two = stores
        request = await one.open(replace(sample_request(), approvers=Approvers(count=2)))
        await one.close(request.id, "approved", YES, now=1.0)
        assert (await two.close(request.id, "denied", NO, now=2.0)).status == "denied"
        late = ApprovalDecision(approved=True, who="cleo")
        assert (await one.close(request.id, "approved", late, now=3.0)).status == "denied"

    async def test_who_has_a_request_before_them_is_noted_once_and_only_while_it_is_open(
        self, stores: tuple[Store, Store]
    ) -> None:
        one, two = stores
        request = await one.open(sample_request())
        for who, at in (("ann", 1.0), ("bob", 2.0), ("ann", 60.0)):
            await two.mark_seen(request.id, Seen(who=who, channel="page", at=at))
        found = await one.get(request.id)
        assert found is not None
        assert [(each.who, each.at) for each in found.seen] == [("bob", 2.0), ("ann", 60.0)]
        point, _ = await one.changes()
        await two.mark_seen(request.id, Seen(who="ann", channel="page", at=61.0))
        assert (await one.changes(point))[1] == [], "who only goes on looking is no news"
        await one.close(request.id, "denied", NO, now=4.0)
        late = await two.mark_seen(request.id, Seen(who="eve", channel="page", at=5.0))
        assert (late.status, len(late.seen)) == ("denied", 2)
