"""Contract of parking, a part of the contract suite of stores: states by name, and the list of parked runs.

Tests: tests/stores/sqlite/test_store.py
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

from msgspec.structs import replace

try:
    import pytest
except ImportError as error:
    raise ImportError("sayso.testing.parking_contract needs pytest: install `sayso[testing]`") from error

from sayso.core.model import ParkedRun, new_id
from sayso.core.ports import Store

T = TypeVar("T")
Stores = tuple[Store, Store]  # handles of the same data


class ParkingContract:
    """The part of `StoreContract` about parked runs."""

    def race(self, folder: Path, *operations: Callable[[], Coroutine[Any, Any, T]]) -> list[T]:
        """Run operations at the same moment; see `StoreContract`."""
        raise NotImplementedError

    async def test_what_one_parks_the_other_finds_and_only_one_can_take(self, stores: Stores, tmp_path: Path) -> None:
        one, two = stores
        assert await two.parked("a run") is None
        for state in (b"\x00first", b"second"):
            await one.park("a run", state)
            assert await two.parked("a run") == state
        assert await two.parked("another run") is None
        taken = self.race(tmp_path, lambda: one.unpark("a run"), lambda: two.unpark("a run"))
        assert sorted(taken, key=bool) == [None, b"second"]
        assert await one.parked("a run") is None

    @pytest.mark.parametrize("name", ["nested\0call\0agent", "sha256:" + "0" * 64, "an Ωmega \\ name\n" * 40])
    async def test_a_state_may_be_parked_under_any_text(self, stores: Stores, name: str) -> None:
        one, two = stores
        await one.park(name, b"state")
        await one.park(name + "?", b"another")
        assert await two.parked(name) == b"state"
        assert await two.unpark(name, attempt="an\nattempt") == b"state"
        assert await one.unpark(name, attempt="an\nattempt") == b"state"
        assert await one.parked(name) is None

    async def test_parked_runs_are_listed_oldest_first_until_one_is_taken(self, stores: Stores) -> None:
        one, two = stores
        first, second = sorted([new_id(), new_id()])
        waiting = ParkedRun(id=first, agent="clerk", framework="x", session="s", requests=(new_id(),), parked_at=5.0)
        later = ParkedRun(id=second, calls=("external",))
        for run in (later, waiting):
            await one.park(run.id, b"state", run)
        await one.park("nested", b"state of an agent inside")
        assert await two.runs() == [waiting, later]
        await two.park(waiting.id, b"checkpoint")
        assert await one.runs() == [waiting, later]
        changed = replace(waiting, requests=(*waiting.requests, new_id()))
        await two.park(waiting.id, b"newer", changed)
        assert await one.runs() == [changed, later]
        await two.unpark(waiting.id)
        assert await one.runs() == [later]

    async def test_what_is_taken_again_from_where_it_was_parked_is_the_same(self, stores: Stores) -> None:
        one, two = stores
        await one.park("a run", b"state")
        for store in (one, two):
            assert await store.unpark("a run", attempt="first") == b"state"
        assert await two.unpark("a run", attempt="second") is None
        assert await one.unpark("a run") is None
