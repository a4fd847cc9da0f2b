"""Searching the inbox: the same requests are found in every kind of store and through a hub, however old they are."""

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.server.served import Served

from sayso.client.hub_inbox import HubInbox
from sayso.client.inbox import Inbox, StoreInbox, search_history
from sayso.core.filters import RequestFilter
from sayso.core.model import ApprovalDecision, ApprovalRequest
from sayso.core.ports import Store
from sayso.stores.memory import MemoryStore
from sayso.stores.postgres import PostgresStore
from sayso.stores.sqlite import SqliteStore
from sayso.testing.samples import sample_request

DAY = 86_400.0
NOW = 1_800_000_000.0
KINDS = ["memory", "sqlite", "postgres", "hub", "hub on postgres"]


class Desk:
    """An inbox, and the store behind it."""

    def __init__(self, inbox: Inbox, store: Store, served: Served | None = None) -> None:
        self.inbox = inbox
        self.store = store
        self._served = served

    async def do(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Do something with the store, on the loop that it belongs to."""
        return await work if self._served is None else await asyncio.to_thread(self._served.do, work)

    async def ask(self, tool: str = "pay", *, day: float = 0, **facts: Any) -> ApprovalRequest:
        at = NOW + day * DAY
        request = replace(sample_request(asked_at=at), tool_name=tool, **facts)
        request = replace(request, id=f"{int(at * 1000):012x}{request.id[12:]}")
        return await self.do(self.store.open(request))

    async def answer(self, request: ApprovalRequest, who: str) -> None:
        decision = ApprovalDecision(approved=False, who=who, note="no", decided_at=request.asked_at + 5)
        await self.do(self.store.close(request.id, "denied", decision, now=NOW))

    async def finds(self, **criteria: Any) -> list[str]:
        return ids((await search_history(self.inbox, RequestFilter(**criteria), 100)).found)


def ids(requests: list[ApprovalRequest]) -> list[str]:
    return [each.id for each in requests]


@pytest.fixture(params=KINDS)
async def desk(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Desk]:
    kind: str = request.param
    if kind.startswith("hub"):
        served = Served(request.getfixturevalue("database") if "postgres" in kind else tmp_path)
        await asyncio.to_thread(served.start)
        inbox = HubInbox(served.url, await asyncio.to_thread(served.token))
        yield Desk(inbox, served.store, served)
        await inbox.aclose()
        await asyncio.to_thread(served.stop)
    else:
        store: Store = {
            "memory": MemoryStore,
            "sqlite": lambda: SqliteStore(tmp_path / "s.db", synchronous="NORMAL"),
            "postgres": lambda: PostgresStore(request.getfixturevalue("database")),
        }[kind]()
        yield Desk(StoreInbox(store), store)
        await store.aclose()


async def test_each_criterion_finds_the_same_requests_everywhere(desk: Desk) -> None:
    pay = await desk.ask("pay", args={"to": "ann"}, agent_path=("report", "payer"))
    push = await desk.ask("git_push", day=1, agent_path=("coder",))
    pull = await desk.ask("git_pull", day=2, agent_path=("coder",))
    await desk.answer(pay, "Bob")
    assert await desk.finds(tool="git_*") == [pull.id, push.id]
    assert await desk.finds(agent="PAYER") == await desk.finds(who="bob") == await desk.finds(text="ANN to") == [pay.id]
    assert await desk.finds(until=NOW + DAY) == [pay.id]
    assert await desk.finds(since=NOW + DAY, until=NOW + 2 * DAY) == [push.id]
    assert await desk.finds(status="open", agent="coder", text="pull") == [pull.id]
    assert await desk.finds(tool="git") == []
    assert await desk.finds(id_part=push.id[-8:]) == [push.id]
    assert ids(await desk.inbox.pending(RequestFilter(status="pending", tool="*push"))) == [push.id]
    assert ids(await desk.inbox.pending()) == [push.id, pull.id]


async def test_a_rare_match_is_found_behind_thousands_of_others(desk: Desk) -> None:
    rare = await desk.ask("rare", day=-1)
    await desk.do(_fill(desk.store, 1_300))
    steps: list[int] = []
    page = await search_history(desk.inbox, RequestFilter(tool="rare"), 1, steps.append)
    assert (ids(page.found), page.searched, steps) == ([rare.id], 1_301, [])
    assert await desk.finds(id_part=rare.id) == [rare.id], "by its id, too"
    first = await desk.inbox.search(RequestFilter(tool="pay"), 500)
    second = await desk.inbox.search(RequestFilter(tool="pay"), 500, first.following or "")
    both = ids(first.found + second.found)
    assert both == sorted(both, reverse=True)
    assert len(set(both)) == 1000
    everything = await search_history(desk.inbox, RequestFilter(tool="pay"), 1_250, steps.append)
    assert (len(everything.found), everything.following is None) == (1_250, False)
    assert steps == sorted(steps) != [], "a search of several pages tells how far it has come"


async def _fill(store: Store, count: int) -> None:
    requests = [sample_request(asked_at=NOW, call_id=f"c{number}") for number in range(count)]
    named = [replace(each, id=f"{int(NOW * 1000):012x}{each.id[12:]}") for each in requests]
    await asyncio.gather(*map(store.open, named))


async def test_a_page_reads_a_part_of_a_long_history_and_the_next_one_goes_on_there(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "s.db", synchronous="NORMAL")
    inbox = StoreInbox(store)
    await _fill(store, 10_150)
    page = await inbox.search(RequestFilter(tool="rare"), 10)
    assert (page.found, page.searched, bool(page.following)) == ([], 10_000, True)
    page = await inbox.search(RequestFilter(tool="rare"), 10, page.following or "")
    assert (page.searched, page.following) == (150, None)
    await inbox.aclose()
