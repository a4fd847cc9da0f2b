"""Contract suite of idempotency keys (`attempt`) for retries after a lost reply; a part of `StoreContract`.

Tests: tests/stores/sqlite/test_store.py
"""

from __future__ import annotations

from sayso.core import audit
from sayso.core.model import AuditEntry
from sayso.core.ports import Store
from sayso.testing.samples import YES, sample_remembered, sample_request


class RetriesContract:
    """Contract of idempotent retries: no operation is applied twice or lost."""

    async def test_a_claim_made_again_is_true_again_and_another_is_not(self, stores: tuple[Store, Store]) -> None:
        one, two = stores
        request = await one.open(sample_request())
        assert not await one.claim(request.id, now=1.0, attempt="early")
        await one.close(request.id, "approved", YES, now=1.0)
        assert not await two.claim(request.id, now=2.0, attempt="early")
        for store in (one, two, one):
            assert await store.claim(request.id, now=2.0, attempt="first")
        for attempt in ("second", "", "early"):
            assert not await two.claim(request.id, now=2.0, attempt=attempt)
        await one.flush()
        assert [entry["step"] async for entry in audit.entries(two)] == ["asked", "approved", "claimed"]

    async def test_a_use_that_is_taken_again_is_taken_once(self, stores: tuple[Store, Store]) -> None:
        one, two = stores
        memory = sample_remembered(uses_left=2)
        one.remember([memory], [])
        for store in (one, two):
            assert await store.spend(memory.id, attempt="first")
        assert await two.spend(memory.id, attempt="second")
        assert not await one.spend(memory.id, attempt="third")
        assert await two.spend(memory.id, attempt="first")

    async def test_what_is_taken_again_from_where_it_was_parked_is_the_same(self, stores: tuple[Store, Store]) -> None:
        one, two = stores
        await one.park("a run", b"state")
        for store in (one, two):
            assert await store.unpark("a run", attempt="first") == b"state"
        assert await two.unpark("a run", attempt="second") is None
        assert await one.unpark("a run") is None

    async def test_news_that_are_told_again_are_written_once_and_in_order(self, stores: tuple[Store, Store]) -> None:
        one, two = stores
        request = await one.open(sample_request())
        await one.close(request.id, "approved", YES, now=1.0)
        await one.claim(request.id, now=2.0)
        lines = [audit.encode(AuditEntry(at=at, step="returned", about=request.call())) for at in (3.0, 4.0)]
        for store in (one, two):
            await store.append([lines[0], (request.id, "returned"), ("nobody", "raised"), lines[1]], attempt="first")
        await two.append([lines[0]], attempt="second")
        found = await one.get(request.id)
        assert found is not None
        assert found.state == "used, returned"
        times = [entry["at"] async for entry in audit.entries(two) if entry["step"] == "returned"]
        assert times == [3.0, 4.0, 3.0]
        assert await audit.verify(one) == len(times) + 3
