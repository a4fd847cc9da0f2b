"""The store at a hub: the contract over real HTTP, lost connections at every point, and a hub that is killed."""

import asyncio
import contextlib
import sqlite3
from collections.abc import AsyncGenerator, Generator, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.server.served import Served

from sayso.model import ApprovalDecision, ApprovalRequest, Remembered, Status
from sayso.ports import Store
from sayso.server.agent_space import Space
from sayso.stores.remote import RemoteStore
from sayso.stores.sqlite import SqliteStore
from sayso.testing import StoreContract


class AtHub(RemoteStore):
    """An agent's store, and for what only people do, the hub's own."""

    people: SqliteStore
    space = Space("", "builder")

    async def close(
        self,
        request_id: str,
        status: Status,
        decision: ApprovalDecision | None,
        *,
        now: float,
        remember: Sequence[Remembered] = (),
    ) -> ApprovalRequest:
        if status in {"withdrawn", "expired"}:
            return await super().close(request_id, status, decision, now=now, remember=remember)
        found = await self.people.close(request_id, status, decision, now=now, remember=remember)
        return self.space.outward(found)

    def remember(self, added: Sequence[Remembered], dropped: Sequence[str]) -> Any:
        return self.people.remember(added, dropped)

    async def append(self, news: Any, *, attempt: str = "") -> Any:
        await self.people.append(news, attempt=attempt)

    async def audit(self, after: int = 0, limit: int = 1000) -> Any:
        return await self.people.audit(after, limit)

    async def audit_ends(self) -> Any:
        return await self.people.audit_ends()


class TestRemoteStore(StoreContract):
    """All that an agent may do runs over HTTP: open, find, get, wait, claim, spend, park, finish, record and the feed.

    Answers, changes of what is remembered, and the audit are the hub's own; it has the tokens, so these are not asked.
    """

    test_a_token_of_one_is_known_to_the_other = None  # pyright: ignore - no agent has tokens
    test_a_token_is_taken_by_exactly_one = None  # pyright: ignore - no agent has tokens

    @pytest.fixture
    async def stores(self, tmp_path: Path) -> AsyncGenerator[tuple[Store, Store]]:
        with Served(tmp_path / "sayso.db") as served:
            token = served.token()
            one, two = AtHub(served.url, token=token), AtHub(served.url, token=token)
            one.people = two.people = served.store
            yield one, two
            await one.aclose()
            await two.aclose()

    @contextlib.contextmanager
    def held(self, folder: Path) -> Generator[None]:
        """Take the hub's write lock, so that both agents wait for it with their operation at the hub."""
        holder = sqlite3.connect(folder / "sayso.db", isolation_level=None)
        with contextlib.closing(holder):
            holder.execute("BEGIN IMMEDIATE")
            yield
            holder.execute("ROLLBACK")
