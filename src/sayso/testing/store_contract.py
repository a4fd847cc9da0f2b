"""Contract suite of stores: subclass `StoreContract`, override `open_two`, and run pytest.

Tests: tests/stores/sqlite/test_store.py
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from pathlib import Path
from typing import Any, TypeVar

import anyio
from msgspec.structs import replace

try:
    import pytest
except ImportError as error:
    raise ImportError("sayso.testing.store_contract needs pytest: install `sayso[testing]`") from error

from sayso.core import audit, tokens
from sayso.core.approvers import Approvers, Seen
from sayso.core.model import ApprovalDecision, ApprovalRequest, AuditEntry, Status
from sayso.core.ports import Keyring, Store
from sayso.errors import StoreError, UnknownRequest
from sayso.testing.parking_contract import ParkingContract, Stores
from sayso.testing.racing import RememberedRecorder, race
from sayso.testing.samples import NO, YES, sample_remembered, sample_request

T = TypeVar("T")

ROUNDS = 10


async def existing(store: Store, request_id: str) -> ApprovalRequest:
    """Return a request that the store must hold."""
    found = await store.get(request_id)
    assert found is not None
    return found


class StoreContract(ParkingContract):
    """The contract. `stores` are two handles of the same data or, if a store cannot be shared, one handle twice."""

    pytestmark = pytest.mark.anyio

    @pytest.fixture
    def anyio_backend(self) -> str:
        """Run on asyncio."""
        return "asyncio"

    def open_two(self, folder: Path) -> Stores:
        """Open two handles of the store under test in this empty folder."""
        raise NotImplementedError

    @contextlib.contextmanager
    def held(self, folder: Path) -> Generator[None]:  # noqa: ARG002 - for those who have something to hold
        """Block the store while operations queue up, so that they collide on release."""
        yield

    @pytest.fixture
    async def stores(self, tmp_path: Path) -> AsyncGenerator[Stores]:
        """Open both handles, and close them after the test."""
        one, two = self.open_two(tmp_path)
        assert isinstance(one, Store), "it lacks something that `sayso.core.ports.Store` names"
        yield one, two
        for store in {id(one): one, id(two): two}.values():
            await store.aclose()

    def race(self, folder: Path, *operations: Callable[[], Coroutine[Any, Any, T]]) -> list[T]:
        """Run operations at once in threads with loops of their own, and return their results."""
        return race(self.held(folder), *operations)

    async def test_a_request_is_opened_once_per_session_and_call_id(self, stores: Stores) -> None:
        one, two = stores
        first, again = sample_request(call_id="c1"), sample_request(call_id="c1")
        assert (await one.open(first)).id == first.id
        assert (await two.open(again)).id == first.id
        assert (await two.open(sample_request(call_id="c1", session="other"))).id != first.id
        assert (await two.open(sample_request(call_id="c1", run="other"))).id != first.id
        found = await one.find("s1", sample_request(call_id="c1", run="other").key)
        assert found is not None
        assert (found.run, found.tool_call_id, found.call().key) == ("other", "c1", found.key)
        assert await one.get(again.id) is None

    async def test_the_requests_of_a_call_id_are_found_without_its_run_newest_first(self, stores: Stores) -> None:
        one, two = stores
        runs = [await one.open(sample_request(call_id="c\0 1", run=run)) for run in ("r1", "r2", "")]
        await one.open(sample_request(call_id="c\0 1", run="r1", session="other"))
        await one.open(sample_request(call_id="c2", run="r1"))
        await two.close(runs[0].id, "approved", YES, now=1.0)
        assert await two.claim(runs[0].id, now=2.0)
        await two.close(runs[1].id, "denied", NO, now=1.0)
        states = dict(zip([each.id for each in runs], ("used", "denied", "open"), strict=True))
        found = await two.with_call_id("s1", "c\0 1")
        newest = sorted(runs, key=lambda each: each.id, reverse=True)
        assert [(each.id, each.status) for each in found] == [(each.id, states[each.id]) for each in newest]
        assert await two.with_call_id("s1", "c\0 1", limit=2) == found[:2]
        assert await one.with_call_id("s1", "no such") == []

    async def test_a_request_that_is_opened_again_stays_as_it_is(self, stores: Stores) -> None:
        one, two = stores
        request = await one.open(sample_request())
        await one.close(request.id, "denied", NO, now=1.0)
        assert (await two.open(request)).status == "denied"
        assert [each.status for each in await one.recent()] == ["denied"]

    async def test_an_id_never_names_two_requests(self, stores: Stores) -> None:
        one, two = stores
        request = await one.open(sample_request())
        with pytest.raises(StoreError, match="names another request"):
            await two.open(replace(sample_request(session="another"), id=request.id))
        assert await two.pending() == [request]

    async def test_two_reviews_that_open_one_request_at_once_get_the_same_row(
        self, stores: Stores, tmp_path: Path
    ) -> None:
        one, two = stores
        for number in range(ROUNDS):
            left, right = sample_request(call_id=f"c{number}"), sample_request(call_id=f"c{number}")
            rows = self.race(tmp_path, lambda row=left: one.open(row), lambda row=right: two.open(row))
            assert rows[0] == rows[1]
            assert rows[0].id in {left.id, right.id}
        assert len(await one.pending()) == ROUNDS

    async def test_other_arguments_under_the_same_call_id_find_the_first_request(self, stores: Stores) -> None:
        one, two = stores
        first = await one.open(sample_request(call_id="c1", args={"amount": 5}))
        found = await two.open(sample_request(call_id="c1", args={"amount": 9000}))
        assert (found.id, found.digest, found.args) == (first.id, first.digest, {"amount": 5})

    async def test_arguments_come_back_with_the_types_that_they_had(self, stores: Stores) -> None:
        args = {"path": Path("a/b"), "pair": (1, [2.0, None]), "raw": b"\x00", "big": 2**70, "names": {"x", "y"}}
        opened = await stores[0].open(sample_request(args=args))
        found = await existing(stores[1], opened.id)
        assert found.args == args
        assert found.call().digest() == opened.digest
        assert [type(value) for value in found.args.values()] == [type(value) for value in opened.args.values()]

    async def test_the_first_answer_wins_and_the_second_is_told_what_stands(self, stores: Stores) -> None:
        one, two = stores
        request = await one.open(sample_request())
        assert (await two.close(request.id, "denied", NO, now=1.0)).decision == NO
        late = await one.close(request.id, "approved", YES, now=2.0)
        assert (late.status, late.decision) == ("denied", NO)

    async def test_requests_are_found_newest_first_and_by_either_end_of_their_id(self, stores: Stores) -> None:
        one, two = stores
        opened = [await one.open(sample_request()) for _ in range(3)]
        await two.close(opened[1].id, "denied", NO, now=1.0)
        newest = sorted((each.id for each in opened), reverse=True)
        assert [each.id for each in await two.recent()] == newest
        assert [each.id for each in await two.recent(limit=2)] == newest[:2]
        found = await one.recent(part=opened[1].id[-12:])
        assert [(each.id, each.status) for each in found] == [(opened[1].id, "denied")]
        assert [each.id for each in await one.recent(part=opened[0].id)] == [opened[0].id]
        assert {each.id for each in await one.recent(part=opened[0].id[:4])} == set(newest)
        assert await one.recent(part="%") == []
        assert [each.id for each in await one.recent(limit=1, before=newest[0])] == [newest[1]]
        assert await two.recent(before=newest[-1]) == []

    async def test_what_is_open_can_be_read_in_pieces(self, stores: Stores) -> None:
        opened = [(await stores[0].open(sample_request())).id for _ in range(5)]
        await stores[0].close(opened[2], "denied", NO, now=1.0)
        read: list[str] = []
        while piece := await stores[1].pending(limit=2, after=read[-1] if read else ""):
            read += [each.id for each in piece]
        assert read == sorted(opened[:2] + opened[3:])

    async def test_an_answer_against_a_withdrawal_leaves_one_of_them_and_both_see_it(
        self, stores: Stores, tmp_path: Path
    ) -> None:
        one, two = stores
        for number in range(ROUNDS):
            request = await one.open(sample_request(call_id=f"c{number}"))
            rows = self.race(
                tmp_path,
                lambda row=request: one.close(row.id, "approved", YES, now=1.0),
                lambda row=request: two.close(row.id, "withdrawn", None, now=1.0),
            )
            assert rows[0] == rows[1] == await one.get(request.id)
            assert rows[0].status in {"approved", "withdrawn"}

    async def test_an_answer_at_the_instant_of_expiry_finds_the_request_expired(
        self, stores: Stores, tmp_path: Path
    ) -> None:
        one, two = stores
        for number in range(ROUNDS):
            request = await one.open(sample_request(call_id=f"c{number}", expires_at=10.0))
            rows = self.race(
                tmp_path,
                lambda row=request: one.close(row.id, "approved", YES, now=10.0),
                lambda row=request: two.close(row.id, "expired", None, now=10.0),
            )
            assert [(row.status, row.decision) for row in rows] == [("expired", None)] * 2

    async def test_an_answer_before_expiry_stands(self, stores: Stores) -> None:
        request = await stores[0].open(sample_request(expires_at=10.0))
        assert (await stores[0].close(request.id, "approved", YES, now=9.999)).status == "approved"
        assert (await stores[1].close(request.id, "expired", None, now=11.0)).status == "approved"

    async def test_of_two_claims_at_once_exactly_one_wins(self, stores: Stores, tmp_path: Path) -> None:
        one, two = stores
        for number in range(ROUNDS):
            request = await one.open(sample_request(call_id=f"c{number}"))
            await one.close(request.id, "approved", YES, now=1.0)
            won = self.race(
                tmp_path,
                lambda row=request: one.claim(row.id, now=2.0),
                lambda row=request: two.claim(row.id, now=2.0),
            )
            assert sorted(won) == [False, True]
            assert not await one.claim(request.id, now=3.0)

    @pytest.mark.parametrize("status", ["open", "denied", "expired", "withdrawn"])
    async def test_only_an_approval_can_be_claimed(self, stores: Stores, status: Status) -> None:
        request = await stores[0].open(sample_request())
        if status != "open":
            await stores[0].close(request.id, status, NO if status == "denied" else None, now=1.0)
        assert not await stores[1].claim(request.id, now=2.0)
        found = await existing(stores[0], request.id)
        assert found.status == status

    async def test_who_waits_is_woken_by_an_answer_from_elsewhere(self, stores: Stores) -> None:
        one, two = stores
        request = await one.open(sample_request())
        waiting = asyncio.ensure_future(one.closed(request.id))
        await asyncio.sleep(0)
        await two.close(request.id, "approved", YES, now=1.0)
        with anyio.fail_after(10):
            assert (await waiting).decision == YES

    async def test_waiting_for_a_closed_request_returns_at_once(self, stores: Stores) -> None:
        request = await stores[0].open(sample_request())
        await stores[0].close(request.id, "withdrawn", None, now=1.0)
        with anyio.fail_after(10):
            assert (await stores[1].closed(request.id)).status == "withdrawn"

    async def test_all_open_requests_are_pending_at_once_oldest_first(self, stores: Stores) -> None:
        requests = [sample_request(call_id=f"c{number}", asked_at=float(number)) for number in range(50)]
        async with anyio.create_task_group() as group:
            for request in requests:
                group.start_soon(stores[0].open, request)
        assert [request.tool_call_id for request in await stores[1].pending()] == [f"c{number}" for number in range(50)]
        await stores[1].close(requests[0].id, "denied", NO, now=1.0)
        assert len(await stores[0].pending()) == 49  # noqa: PLR2004 - one of fifty was closed

    async def test_a_decision_is_remembered_only_with_the_answer_that_won(self, stores: Stores) -> None:
        one, two = stores
        request = await one.open(sample_request())
        mine, late = sample_remembered(), sample_remembered()
        await one.close(request.id, "approved", YES, now=1.0, remember=[mine])
        await two.close(request.id, "denied", NO, now=2.0, remember=[late])
        learner = RememberedRecorder()
        two.attach(learner.on_change)
        await learner.wait_until({mine.id: mine})

    async def test_what_one_remembers_or_forgets_the_other_learns(self, stores: Stores) -> None:
        one, two = stores
        learner, memory = RememberedRecorder(), sample_remembered(args={"path": Path("x")})
        two.attach(learner.on_change)
        one.remember([memory], [])
        await learner.wait_until({memory.id: memory})
        one.remember([], [memory.id])
        await learner.wait_until({})

    async def test_a_counted_decision_is_spent_exactly_as_often_as_it_says(
        self, stores: Stores, tmp_path: Path
    ) -> None:
        one, two = stores
        memory = sample_remembered(uses_left=3)
        one.remember([memory], [])
        await one.flush()
        spent = self.race(tmp_path, *[lambda store=each: store.spend(memory.id) for each in (one, two) * 3])
        assert sorted(spent) == [False] * 3 + [True] * 3
        assert not await one.spend(memory.id)

    async def test_the_first_report_of_a_result_stands(self, stores: Stores) -> None:
        one, two = stores
        request = await one.open(sample_request())
        await one.close(request.id, "approved", YES, now=1.0)
        await one.claim(request.id, now=2.0)
        used = await existing(two, request.id)
        assert used.state == "used, result unknown"
        one.finish(request.id, "raised")
        await one.flush()
        two.finish(request.id, "returned")
        await two.flush()
        finished = await existing(one, request.id)
        assert finished.state == "used, raised"

    async def test_every_change_of_a_request_is_audited_in_one_unbroken_chain(self, stores: Stores) -> None:
        one, two = stores
        request = await one.open(sample_request())
        await two.close(request.id, "approved", YES, now=1.0)
        await two.close(request.id, "denied", NO, now=1.0)
        await one.claim(request.id, now=2.0)
        await two.claim(request.id, now=2.0)
        one.record(AuditEntry(at=3.0, step="returned", about=request.call(), seconds=0.5))
        await one.flush()
        entries = [entry async for entry in audit.entries(two)]
        assert [entry["step"] for entry in entries] == ["asked", "approved", "claimed", "returned"]
        assert [entry["number"] for entry in entries] == [1, 2, 3, 4]
        assert await audit.verify(two) == len(entries)

    async def test_an_unknown_id_is_said_to_be_unknown(self, stores: Stores) -> None:
        store = stores[0]
        assert [await store.get(each) for each in ("nobody", "no\x00body")] == [None, None]
        assert await store.find("no", "body") is None
        for attempt in (store.close("nobody", "denied", NO, now=1.0), store.claim("nobody", now=1.0)):
            with pytest.raises(UnknownRequest):
                await attempt
        with pytest.raises(UnknownRequest):
            await store.closed("nobody")
        assert not await store.spend("nobody")

    # --- Retries: idempotency keys (`attempt`) after a lost reply -----------------------------------------------------

    async def test_a_claim_made_again_is_true_again_and_another_is_not(self, stores: Stores) -> None:
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

    async def test_a_use_that_is_taken_again_is_taken_once(self, stores: Stores) -> None:
        one, two = stores
        memory = sample_remembered(uses_left=2)
        one.remember([memory], [])
        for store in (one, two):
            assert await store.spend(memory.id, attempt="first")
        assert await two.spend(memory.id, attempt="second")
        assert not await one.spend(memory.id, attempt="third")
        assert await two.spend(memory.id, attempt="first")

    async def test_news_that_are_told_again_are_written_once_and_in_order(self, stores: Stores) -> None:
        one, two = stores
        request = await one.open(sample_request())
        await one.close(request.id, "approved", YES, now=1.0)
        await one.claim(request.id, now=2.0)
        lines = [audit.encode(AuditEntry(at=at, step="returned", about=request.call())) for at in (3.0, 4.0)]
        for store in (one, two):
            await store.append([lines[0], (request.id, "returned"), ("nobody", "raised"), lines[1]], attempt="first")
        await two.append([lines[0]], attempt="second")
        found = await existing(one, request.id)
        assert found.state == "used, returned"
        times = [entry["at"] async for entry in audit.entries(two) if entry["step"] == "returned"]
        assert times == [3.0, 4.0, 3.0]
        assert await audit.verify(one) == len(times) + 3

    # --- The change feed, votes and presence --------------------------------------------------------------------------

    async def test_the_feed_tells_of_every_change_after_a_point_each_request_once_and_as_it_stands(
        self, stores: Stores
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

    async def test_the_feed_can_be_read_in_pieces(self, stores: Stores) -> None:
        point, _ = await stores[0].changes()
        opened = [(await stores[0].open(sample_request())).id for _ in range(5)]
        read: list[str] = []
        while piece := (await stores[1].changes(point, limit=2))[1]:
            point, _ = await stores[1].changes(point, limit=2)
            read += [each.id for each in piece]
        assert read == opened

    async def test_who_waits_for_changes_hears_of_them_from_elsewhere(self, stores: Stores) -> None:
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

    async def test_where_several_must_say_yes_each_counts_once_and_the_last_one_closes(self, stores: Stores) -> None:
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

    async def test_where_several_must_say_yes_one_no_is_a_no(self, stores: Stores) -> None:
        one, two = stores
        request = await one.open(replace(sample_request(), approvers=Approvers(count=2)))
        await one.close(request.id, "approved", YES, now=1.0)
        assert (await two.close(request.id, "denied", NO, now=2.0)).status == "denied"
        late = ApprovalDecision(approved=True, who="cleo")
        assert (await one.close(request.id, "approved", late, now=3.0)).status == "denied"

    async def test_who_has_a_request_before_them_is_noted_once_and_only_while_it_is_open(self, stores: Stores) -> None:
        one, two = stores
        request = await one.open(sample_request())
        for who, at in (("ann", 1.0), ("bob", 2.0), ("ann", 60.0)):
            await two.mark_seen(request.id, Seen(who=who, channel="page", at=at))
        found = await existing(one, request.id)
        assert [(each.who, each.at) for each in found.seen] == [("bob", 2.0), ("ann", 60.0)]
        point, _ = await one.changes()
        await two.mark_seen(request.id, Seen(who="ann", channel="page", at=61.0))
        assert (await one.changes(point))[1] == [], "who only goes on looking is no news"
        await one.close(request.id, "denied", NO, now=4.0)
        late = await two.mark_seen(request.id, Seen(who="eve", channel="page", at=5.0))
        assert (late.status, len(late.seen)) == ("denied", 2)

    # --- Bearer tokens, by which a hub authenticates agents and approvers ---------------------------------------------

    async def test_a_token_of_one_is_known_to_the_other(self, stores: tuple[Keyring, Keyring]) -> None:
        one, two = stores
        token, text = tokens.make("agent", "builder", now=1.0, seconds=10.0, project="shop", roles=("ci",))
        await one.add_token(token)
        assert await two.token(token.id) == token
        assert await two.tokens() == [token]
        assert await two.token("nobody") is None
        assert tokens.is_valid(token, text, now=10.9)
        assert not tokens.is_valid(token, text, now=11.0)

    async def test_a_token_is_taken_by_exactly_one(self, stores: tuple[Keyring, Keyring], tmp_path: Path) -> None:
        one, two = stores
        token, _ = tokens.make("link", "ann", now=1.0)
        await one.add_token(token)
        ways: list[Callable[[], Coroutine[Any, Any, Any]]] = [lambda: one.take_token(token.id)]
        taken = self.race(tmp_path, *ways, lambda: two.take_token(token.id))
        assert [each for each in taken if each is not None] == [token]
        assert await one.token(token.id) is None
        assert await two.tokens() == []
