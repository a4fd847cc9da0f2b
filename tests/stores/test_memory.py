"""The memory store keeps the contract, and not more than it has room for."""

from pathlib import Path

import pytest

from sayso.core.approvers import Seen
from sayso.core.model import ApprovalDecision, ApprovalRequest, new_id
from sayso.core.ports import Store
from sayso.stores.memory import MemoryStore
from sayso.testing import StoreContract


class TestMemoryStore(StoreContract):
    def open_two(self, folder: Path) -> tuple[Store, Store]:
        store = MemoryStore()
        return store, store


def asked(count: int) -> list[ApprovalRequest]:
    return [ApprovalRequest(id=new_id(), tool_name="pay", tool_call_id=str(each), args={}) for each in range(count)]


async def test_the_oldest_that_is_over_is_forgotten_first_and_what_may_still_run_never(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sayso.stores.memory._KEPT_CLOSED", 3)
    store = MemoryStore()
    requests = asked(6)
    for request in requests:
        await store.open(request)
        yes = request is requests[0]
        decision = ApprovalDecision(approved=yes, decided_at=1.0)
        await store.close(request.id, "approved" if yes else "denied", decision, now=1.0)
    kept = [await store.get(each.id) is not None for each in requests]
    assert kept == [True, False, False, False, True, True]
    assert await store.claim(requests[0].id, now=2.0), "it was approved, and can be used"
    _, changed = await store.changes(0)
    assert [each.id for each in changed] == [requests[4].id, requests[5].id, requests[0].id]


async def test_changes_come_in_pages_and_each_request_as_it_stands_last() -> None:
    """H6: however often requests change, who follows is told each one once, in the order of its last change."""
    store = MemoryStore()
    requests = asked(800)
    for request in requests:
        await store.open(request)
    for who in ("ann", "bob", "eve", "joe", "sue", "tom"):
        for request in requests[:400]:
            await store.mark_seen(request.id, Seen(who=who, channel="page", at=1.0))
    point, told = 0, list[ApprovalRequest]()
    while page := (await store.changes(point, 70))[1]:
        told += page
        point, _ = await store.changes(point, 70)
    assert [each.id for each in told] == [each.id for each in requests[400:] + requests[:400]]
    assert (await store.changes())[0] == point
