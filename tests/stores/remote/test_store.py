"""The store at a hub: the contract over real HTTP, lost connections at every point, and a hub that is killed."""

import asyncio
import contextlib
import itertools
import logging
import os
import re
import shutil
import socket
import sqlite3
import ssl
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import AsyncGenerator, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from anyio import fail_after
from msgspec.structs import replace
from pydantic_ai import Agent
from tests.adapters.pydantic_ai.scripted import Inbox, Scripted, Till, returns
from tests.server.remote_hub import HubProcess, Line, Served, listening
from tests.waiting import until, within

from sayso import (
    ApprovalController,
    ApprovalDecision,
    ApprovalMemory,
    ApprovalRequest,
    ApprovalTimeout,
    Policy,
    ToolCall,
    guard,
)
from sayso.adapters.pydantic_ai import Approvals
from sayso.core import audit, tokens
from sayso.core.approvers import Seen
from sayso.core.model import AuditEntry, Denied, ParkedRun, Remembered, Status
from sayso.core.ports import Store
from sayso.errors import ConfigurationError, NotEntitled, StoreError, UnknownRequest
from sayso.server.routes.agents.namespace import AgentNamespace
from sayso.stores.remote import RemoteStore, follower
from sayso.stores.remote.transport import HubUnavailable
from sayso.stores.sqlite import SqliteStore
from sayso.testing import FixedClock, ScriptedChannel, StoreContract
from sayso.testing.racing import RememberedRecorder
from sayso.testing.samples import NO, YES, sample_remembered, sample_request

ASK = Policy({"pay": "required"})
TOKEN = tokens.make("agent", "nobody", now=0.0)[1]


def a_call(amount: int) -> ToolCall:
    return ToolCall(tool="pay", args={"amount": amount}, call_id=f"c{amount}")


async def never(_: dict[str, Any]) -> None:
    raise AssertionError("the call ran")


async def amount_of(args: dict[str, Any]) -> int:
    return args["amount"]


async def until_pending(store: Store, count: int) -> list[ApprovalRequest]:
    """Wait until that many questions are open."""
    found: list[ApprovalRequest] = []
    with within(60, lambda: f"{len(found)} of {count} questions"):
        point = 0
        while len(found := await store.pending()) < count:
            await store.changed(point)
            point, _ = await store.changes()
    return found


class AtHub(RemoteStore):
    """An agent's store, and for what only people do, the hub's own."""

    people: Store
    hub_clock: FixedClock
    space = AgentNamespace("", "builder")

    async def mark_seen(self, request_id: str, seen: Seen) -> ApprovalRequest:
        self.hub_clock.advance(seen.at - self.hub_clock.now())  # a hub notes its own time
        return await super().mark_seen(request_id, seen)

    async def park(self, name: str, state: bytes, run: ParkedRun | None = None) -> None:
        if run is not None:
            self.hub_clock.advance(run.parked_at - self.hub_clock.now())
        await super().park(name, state, run)

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
        return self.space.to_agent(found)

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
        clock = FixedClock(0.0)  # the times are those of the tests
        with Served(tmp_path / "sayso.db", clock=clock) as served:
            token = served.token()
            one, two = AtHub(served.url, token=token), AtHub(served.url, token=token)
            one.people = two.people = served.store
            one.hub_clock = two.hub_clock = clock
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


# Lost connections: the hub has done what was asked, and its answer is lost; or it has never heard of it.


@pytest.fixture
def served(tmp_path: Path) -> Generator[Served]:
    with Served(tmp_path / "sayso.db") as hub:
        yield hub


@pytest.fixture
def line(served: Served) -> Generator[Line]:
    with Line(served.port) as wire:
        yield wire


@pytest.fixture
async def agent(served: Served, line: Line) -> AsyncGenerator[RemoteStore]:
    store = served.agent(url=line.url)
    yield store
    await store.aclose()


async def steps(served: Served) -> list[str]:
    await audit.verify(served.store)
    return [entry["step"] async for entry in audit.entries(served.store)]


async def approved(served: Served, agent: RemoteStore, **facts: Any) -> ApprovalRequest:
    request = await agent.open(sample_request(**facts))
    await served.hub.controller.answer(request.id, YES, who="ann", channel="test")
    return request


CUTS = pytest.mark.parametrize("where", ["before", "answer"])


@CUTS
@pytest.mark.proves("H3", "R69")
async def test_a_question_whose_line_is_cut_is_asked_once(
    served: Served, line: Line, agent: RemoteStore, where: str
) -> None:
    line.cut("open", where, times=2)
    request = sample_request()
    assert (await agent.open(request)).id == request.id
    assert len(line.cut_off) == 2
    assert [each.id for each in await served.store.pending()] == [request.id]
    assert await steps(served) == ["asked"]


@CUTS
@pytest.mark.proves("H3")
async def test_a_claim_whose_line_is_cut_is_still_won_by_who_made_it_and_by_nobody_else(
    served: Served, line: Line, agent: RemoteStore, where: str
) -> None:
    request = await approved(served, agent)
    line.cut("claim", where, times=2)
    assert await agent.claim(request.id, now=2.0)
    assert len(line.cut_off) == 2
    assert not await agent.claim(request.id, now=3.0)
    assert await steps(served) == ["asked", "approved", "claimed"]


async def test_while_the_answer_to_a_claim_is_lost_another_process_does_not_win_it(served: Served, line: Line) -> None:
    token = served.token()
    slow, quick = RemoteStore(line.url, token=token), RemoteStore(served.url, token=token)
    request = await approved(served, slow)
    line.cut("claim", "answer")
    claiming = asyncio.ensure_future(slow.claim(request.id, now=2.0))
    await asyncio.to_thread(line.is_cut.wait, 10)
    assert not await quick.claim(request.id, now=2.0)
    assert await claiming
    await slow.aclose()
    await quick.aclose()


@CUTS
async def test_a_withdrawal_whose_line_is_cut_is_written_once(
    served: Served, line: Line, agent: RemoteStore, where: str
) -> None:
    request = await agent.open(sample_request())
    line.cut("close", where)
    note = ApprovalDecision(approved=False, note="not wanted", decided_at=2.0)
    closed = await agent.close(request.id, "withdrawn", note, now=2.0)
    assert closed.decision is not None
    assert (closed.status, closed.decision.note, len(line.cut_off)) == ("withdrawn", "not wanted", 1)
    assert await steps(served) == ["asked", "withdrawn"]


@CUTS
async def test_what_is_told_over_a_cut_line_is_written_once_and_in_order(
    served: Served, line: Line, agent: RemoteStore, where: str
) -> None:
    request = await approved(served, agent)
    await agent.claim(request.id, now=2.0)
    line.cut("append", where, times=3)
    agent.finish(request.id, "returned")
    for number in range(1200):
        agent.record(AuditEntry(at=float(number), step="returned", about=request.call()))
    seen = await agent.get(request.id)
    assert seen is not None
    assert seen.state == "used, returned", "in this process it holds at once"
    await agent.flush()
    assert (agent.backlog, len(line.cut_off)) == (0, 3)
    told = [entry async for entry in audit.entries(served.store) if entry["step"] == "returned"]
    assert [entry["agent_at"] for entry in told] == [float(number) for number in range(1200)]
    assert {(entry["asked_by"], entry["session"]) for entry in told} == {("builder", "/builder/s1")}
    assert await audit.verify(served.store) == 1203


async def test_what_is_too_long_to_be_told_is_told_without_its_values(served: Served, agent: RemoteStore) -> None:
    call = ToolCall(tool="pay", args={"pages": ["\U0001f600" * 2000] * 400})
    agent.record(AuditEntry(at=1.0, step="allowed", about=call))
    await agent.flush()
    (entry,) = [entry async for entry in audit.entries(served.store)]
    assert (entry["digest"], entry["tool"], "args" in entry) == (call.digest(), "pay", False)
    assert "too long to be told" in entry["error"]
    await agent.park("a long run", b"x" * 8_000_000)
    assert len(await agent.unpark("a long run") or b"") == 8_000_000


@CUTS
async def test_a_use_and_a_parked_run_are_taken_once_over_a_cut_line(
    served: Served, line: Line, agent: RemoteStore, where: str
) -> None:
    memory = sample_remembered(uses_left=1)
    served.store.remember([memory], [])
    await agent.park("a run", b"state")
    line.cut("spend", where)
    line.cut("unpark", where)
    assert await agent.spend(memory.id)
    assert await agent.unpark("a run") == b"state"
    assert len(line.cut_off) == 2
    assert not await agent.spend(memory.id)
    assert await agent.unpark("a run") is None


@pytest.mark.proves("R69", "H2")
async def test_calls_over_a_line_that_is_cut_at_every_step_each_run_once(
    served: Served, line: Line, agent: RemoteStore
) -> None:
    for operation in ("open", "find", "claim", "append", "changes"):
        for where in ("before", "answer"):
            line.cut(operation, where, times=3)
    ran: list[int] = []

    async def pay(args: dict[str, Any]) -> None:
        ran.append(args["amount"])

    controller = ApprovalController(store=agent, policy=ASK, session="s1")
    running = [asyncio.ensure_future(controller.run(a_call(each), pay)) for each in range(12)]
    for request in await until_pending(served.store, 12):
        await served.hub.controller.answer(request.id, YES, who="ann")
    with fail_after(30):
        await asyncio.gather(*running)
    await agent.flush()
    assert sorted(ran) == list(range(12))
    assert sorted(await steps(served)) == sorted(["asked", "approved", "claimed", "returned"] * 12)


# Waiting.


async def test_an_answer_that_comes_while_the_line_is_down_is_heard_when_it_is_up_again(
    served: Served, line: Line, agent: RemoteStore
) -> None:
    request = await agent.open(sample_request())
    waiting = [asyncio.ensure_future(agent.closed(request.id)) for _ in range(3)]
    line.break_down()
    await served.hub.controller.answer(request.id, YES, who="ann")
    line.repair()
    with fail_after(30):
        assert [each.status for each in await asyncio.gather(*waiting)] == ["approved"] * 3


@pytest.mark.proves("H5", "R15")
async def test_a_question_whose_time_is_up_while_the_hub_is_away_has_expired_and_stays_so(
    served: Served, line: Line
) -> None:
    agent, clock, inbox = served.agent(url=line.url, patience=0.2), FixedClock(time.time()), Inbox()
    controller = ApprovalController(store=agent, policy=ASK, timeout=60, clock=clock, session="s1", channels=[inbox])
    running = asyncio.ensure_future(controller.run(a_call(5), never))
    (request,) = await inbox.until(1)
    line.break_down()
    late = await served.store.close(request.id, "approved", YES, now=clock.now() + 59)
    assert late.status == "approved"
    clock.advance(60)
    with fail_after(30), pytest.raises(ApprovalTimeout):
        await running
    line.repair()
    assert isinstance(again := await controller.settle(a_call(5), asked=True), Denied)
    assert again.cause == "expired"
    await agent.aclose()


async def test_a_hub_that_is_away_lets_nothing_run_that_has_to_be_asked(served: Served, line: Line) -> None:
    agent = served.agent(url=line.url, patience=0.2)
    controller = ApprovalController(store=agent, policy=ASK)
    line.break_down()
    with pytest.raises(StoreError, match="cannot be reached"):
        await controller.run(a_call(5), never)
    line.repair()
    await agent.aclose()


@CUTS
@pytest.mark.proves("H6")
async def test_a_run_that_is_cancelled_while_it_asks_leaves_no_open_question(
    served: Served, line: Line, agent: RemoteStore, where: str
) -> None:
    line.cut("open", where)
    controller = ApprovalController(store=agent, policy=ASK)
    running = asyncio.ensure_future(controller.run(a_call(5), never))
    await asyncio.to_thread(line.is_cut.wait, 10)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert [each.status for each in await served.store.recent()] == ["withdrawn"]


async def test_who_waits_with_a_token_that_is_revoked_is_told_and_nothing_runs(served: Served) -> None:
    token, text = tokens.make("agent", "builder", now=0.0)
    await served.store.add_token(token)
    agent = RemoteStore(served.url, token=text)
    controller = ApprovalController(store=agent, policy=ASK)
    running = asyncio.ensure_future(controller.run(a_call(5), never))
    await until_pending(served.store, 1)
    await served.store.take_token(token.id)
    await served.store.open(sample_request())  # something happens, and the agent hears of it or not
    served.store.remember([sample_remembered()], [])
    with fail_after(30), pytest.raises(StoreError, match="does not take the token"):
        await running
    with pytest.raises(StoreError, match="sayso token create"):
        await controller.run(a_call(6), never)
    await agent.aclose()


# A hub that is killed.


@pytest.mark.timeout(300)
@pytest.mark.proves("R69", "H16")
@pytest.mark.parametrize("count", [90, pytest.param(1000, marks=pytest.mark.slow)])
async def test_a_hub_that_is_killed_with_many_waiting_has_them_all_again_and_each_runs_once(
    tmp_path: Path, count: int
) -> None:
    people = SqliteStore(tmp_path / "sayso.db")
    token, text = tokens.make("agent", "builder", now=0.0)
    await people.add_token(token)
    ran, first = Counter[int](), asyncio.Event()

    async def pay(args: dict[str, Any]) -> None:
        ran[args["amount"]] += 1
        first.set()

    with HubProcess(tmp_path / "sayso.db") as hub, fail_after(240):
        agent = await asyncio.to_thread(RemoteStore, hub.url, token=text, patience=120.0)
        controller = ApprovalController(store=agent, policy=ASK, session="s1")
        running = [asyncio.ensure_future(controller.run(a_call(each), pay)) for each in range(count)]
        waiting = await until_pending(people, count)
        inbox = ApprovalController(mode="defer", store=people)
        third = count // 3
        for request in waiting[:third]:
            await inbox.answer(request.id, YES, who="ann")
        await first.wait()  # some run, some are about to, most wait
        hub.kill()
        for request in waiting[third : 2 * third]:
            await inbox.answer(request.id, YES, who="ann")
        hub.start()
        assert len(await inbox.pending()) == count - 2 * third
        for request in waiting[2 * third :]:
            await inbox.answer(request.id, YES, who="ann")
        await asyncio.gather(*running)
        await agent.flush()
        assert ran == dict.fromkeys(range(count), 1)
        found = Counter([entry["step"] async for entry in audit.entries(people)])
        assert found == dict.fromkeys(["asked", "approved", "claimed", "returned"], count)
        await audit.verify(people)
        await agent.aclose()
    await people.aclose()


@pytest.mark.parametrize("since", [0, 5])
async def test_who_waits_at_a_hub_that_comes_back_with_an_older_store_is_told(tmp_path: Path, since: int) -> None:
    file, copy = tmp_path / "sayso.db", tmp_path / "copy.db"
    token, text = tokens.make("agent", "builder", now=0.0)
    people = SqliteStore(file)
    await people.add_token(token)
    await people.aclose()
    shutil.copy(file, copy)
    with HubProcess(file) as hub, fail_after(60):
        agent = await asyncio.to_thread(RemoteStore, hub.url, token=text)
        waiting = asyncio.ensure_future(agent.closed((await agent.open(sample_request())).id))
        await agent.flush()
        hub.kill()
        for each in tmp_path.glob("sayso.db*"):
            shutil.rmtree(each) if each.is_dir() else each.unlink()
        shutil.copy(copy, file)
        people = SqliteStore(file)
        for _ in range(since):  # so much has happened to it that nothing seems to be missing
            await people.open(sample_request())
        hub.start()
        with pytest.raises(UnknownRequest):
            await waiting
        request = await agent.open(sample_request())
        again = asyncio.ensure_future(agent.closed(request.id))
        await people.close(request.id, "approved", YES, now=1.0)
        assert (await again).status == "approved"
        await agent.aclose()
    await people.aclose()


# What is remembered.


async def test_a_remembered_yes_is_not_gone_by_while_the_hub_cannot_take_it_back(
    served: Served, line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follower, "_STALE_SECONDS", 0.0)
    yes, no = sample_remembered(), replace(sample_remembered(), decision=NO)
    served.store.remember([yes, no], [])
    agent, learner = served.agent(url=line.url), RememberedRecorder()
    agent.attach(learner.on_change)
    await learner.wait_until({yes.id: yes, no.id: no})
    line.break_down()
    await learner.wait_until({no.id: no})
    line.repair()
    await learner.wait_until({yes.id: yes, no.id: no})
    await agent.aclose()


async def test_a_refusal_does_not_bring_back_a_yes_that_is_not_gone_by(
    served: Served, line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follower, "_STALE_SECONDS", 0.0)
    yes, no = sample_remembered(), replace(sample_remembered(), decision=NO)
    served.store.remember([yes, no], [])
    agent, learner = served.agent(url=line.url, patience=0.1), RememberedRecorder()
    agent.attach(learner.on_change)
    await learner.wait_until({yes.id: yes, no.id: no})
    line.break_down()
    await learner.wait_until({no.id: no})
    with pytest.raises(NotEntitled):
        agent.remember([sample_remembered()], [])
    with pytest.raises(StoreError, match="cannot be reached"):
        await agent.get("x")  # so that all that the refusal set off has happened
    assert ApprovalMemory(store=agent).list() == [no]
    line.repair()
    await agent.aclose()


async def test_an_agent_neither_adds_to_what_is_remembered_nor_takes_from_it(served: Served) -> None:
    no = replace(sample_remembered(), decision=NO)
    served.store.remember([no], [])
    agent = served.agent()
    memory = ApprovalMemory(store=agent)
    with pytest.raises(NotEntitled, match="only people at the hub"):
        memory.clear()
    assert memory.list() == [no]
    with pytest.raises(NotEntitled, match="only people at the hub"):
        memory.store("pay", {"amount": 5}, ApprovalDecision(approved=True, remember="always"))
    assert (memory.lookup("pay", {"amount": 5}), memory.list()) == (None, [no])
    learner = RememberedRecorder()
    agent.attach(learner.on_change)
    await learner.wait_until({no.id: no})
    served.store.remember([sample_remembered()], [])
    with fail_after(10):
        while len(memory.list()) != 2:
            await learner.wait_for_change()
    assert memory.lookup("pay", {"amount": 5}) is None
    await agent.aclose()


async def test_a_hub_is_said_to_be_back_when_it_answers_and_not_before(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries, is_tried, is_back = itertools.count(), threading.Event(), threading.Event()

    def pauses() -> Generator[float]:
        for number in tries:
            if number == 3:
                is_tried.set()
            yield 0.1

    def listen(record: logging.LogRecord) -> bool:
        if "is back" in record.getMessage():
            is_back.set()
        return True

    monkeypatch.setattr(follower, "backoff", pauses)
    monkeypatch.setattr(logging.getLogger("sayso"), "filters", [listen])
    token, text = tokens.make("agent", "builder", now=0.0)
    people = SqliteStore(tmp_path / "sayso.db")
    await people.add_token(token)
    await people.aclose()
    with HubProcess(tmp_path / "sayso.db") as hub, fail_after(60):
        agent = await asyncio.to_thread(RemoteStore, hub.url, token=text)
        hub.kill()
        assert await asyncio.to_thread(is_tried.wait, 60)
        assert caplog.text.count("nothing is heard from the hub") == 1
        assert "is back" not in caplog.text
        hub.start()
        assert await asyncio.to_thread(is_back.wait, 60), caplog.text
        await agent.aclose()


# Who may answer.


@pytest.mark.proves("R70", "H8")
async def test_a_channel_beside_the_agent_can_show_a_question_and_not_answer_it(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    agent, channel = served.agent(), ScriptedChannel()
    channel.approve()
    controller = ApprovalController(store=agent, channels=[channel], policy=ASK)
    running = asyncio.ensure_future(controller.run(a_call(5), amount_of))
    (request,) = await until_pending(served.store, 1)
    with pytest.raises(NotEntitled, match="only people at the hub"):
        await controller.answer(request.id, YES)
    with pytest.raises(NotEntitled, match="only people at the hub"):
        await controller.answer(request.id, NO)
    assert [each.status for each in await agent.recent()] == ["open"]
    await served.hub.controller.answer(request.id, YES, who="ann")
    assert await running == 5
    assert "an answer by ScriptedChannel was not taken" in caplog.text
    with pytest.raises(StoreError, match="read it there"):
        await agent.audit_ends()
    await agent.aclose()


# From where it is used.


def test_synchronous_callers_ask_through_the_hub_too(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAYSO_STORE", served.url)
    monkeypatch.setenv("SAYSO_TOKEN", served.token("till", "shop") + "\n")
    controller = ApprovalController(policy=ASK)
    assert isinstance(controller.store, RemoteStore)
    assert served.url in repr(controller.store)

    def pay(amount: int) -> str:
        return f"paid {amount}"

    guarded = guard(pay, controller)
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(guarded, amount=5)

        async def answer() -> None:
            (request,) = await until_pending(served.store, 1)
            assert (request.project, request.asked_by) == ("shop", "till")
            edited = ApprovalDecision(approved=True, override_args={"amount": 4})
            await served.hub.controller.answer(request.id, edited, who="ann")

        asyncio.run(answer())
        assert running.result(10) == "paid 4"
    controller.close()


def test_what_is_queued_is_told_before_the_process_ends(served: Served) -> None:
    script = """
import asyncio
from sayso import ApprovalController, Policy, ToolCall
controller = ApprovalController(policy=Policy({"pay": "none"}))
async def main():
    for number in range(700):
        await controller.run(ToolCall(tool="pay", args={"amount": number}), lambda args: None)
asyncio.run(main())
"""
    environment = {**os.environ, "SAYSO_STORE": served.url, "SAYSO_TOKEN": served.token()}
    subprocess.run([sys.executable, "-c", script], env=environment, check=True, timeout=60)
    assert Counter(asyncio.run(steps(served))) == {"allowed": 700, "returned": 700}


async def test_a_hub_that_refuses_the_audit_makes_the_next_call_fail(served: Served, line: Line) -> None:
    agent = served.agent(url=line.url, patience=0.0)
    controller = ApprovalController(store=agent, policy=Policy({"pay": "none"}))
    assert await controller.run(a_call(1), amount_of) == 1
    await controller.flush()
    line.break_down()
    assert await controller.run(a_call(2), amount_of) == 2, "the first one is queued"
    with pytest.raises(StoreError, match="cannot be reached"):
        await controller.flush()
    with pytest.raises(StoreError, match="cannot be reached"):
        await controller.run(a_call(3), never)
    line.repair()
    await until(lambda: agent.backlog, 0, seconds=30)
    assert await controller.run(a_call(4), amount_of) == 4
    await agent.aclose()
    assert Counter(await steps(served)) == {"allowed": 3, "returned": 3}


async def test_a_store_that_is_closed_or_comes_from_before_a_fork_says_so(served: Served) -> None:
    agent = served.agent()
    request = await agent.open(sample_request())
    waiting = asyncio.ensure_future(agent.closed(request.id))
    child = os.fork()
    if not child:
        with contextlib.suppress(StoreError):
            agent.record(AuditEntry(at=1.0, step="returned", about=request.call()))
            os._exit(1)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    await agent.aclose()
    await agent.aclose()
    with pytest.raises(StoreError, match="is closed"):
        await waiting
    with pytest.raises(StoreError, match="is closed"):
        await agent.get(request.id)
    with pytest.raises(StoreError, match="is closed"):
        agent.finish(request.id, "returned")


# What can be wrong.


@pytest.mark.proves("H10")
@pytest.mark.parametrize(
    ("url", "token", "sentence"),
    [
        ("http://hub.example.com", TOKEN, "anybody on the way can read it"),
        ("http://10.0.0.1:8000", TOKEN, "SAYSO_INSECURE=1"),
        ("https://ann:secret@hub.example.com", TOKEN, "has no name, password"),
        ("https://hub.example.com/?token=x", TOKEN, "has no name, password"),
        ("https://", TOKEN, "is no address of a hub"),
        ("https://hub.example.com", "", "sayso token create"),
        ("https://hub.example.com", TOKEN[:-4], "copy it whole"),
        ("https://hub.example.com", TOKEN.replace("agent", "approver"), "must not carry one that can answer"),
    ],
    ids=lambda value: "a token" if value.startswith("sayso_") else None,  # which differs from run to run
)
def test_an_address_or_a_token_that_must_not_be_used_is_refused_before_anything_is_sent(
    url: str, token: str, sentence: str
) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(sentence)) as refused:
        RemoteStore(url, token=token)
    assert TOKEN[-20:-4] not in str(refused.value)


def test_a_token_that_the_hub_does_not_know_is_refused_in_a_sentence(served: Served) -> None:
    with pytest.raises(StoreError, match="does not take the token"):
        RemoteStore(served.url, token=TOKEN)


def test_an_address_where_nobody_is_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with listening() as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
    with pytest.raises(StoreError, match=rf"the hub {url} cannot be reached .* check that it runs") as away:
        RemoteStore(url, token=TOKEN, patience=0.1)
    assert away.value.__suppress_context__, "the errors of httpx add nothing that a reader needs"
    monkeypatch.setenv("SAYSO_TOKEN", TOKEN)
    monkeypatch.setenv("SAYSO_INSECURE", "yes")
    with pytest.raises(ConfigurationError, match="SAYSO_INSECURE is 'yes'"):
        ApprovalController(store=url)


def test_https_at_a_port_that_speaks_http_is_said_at_once(served: Served) -> None:
    url = served.url.replace("http://", "https://")
    with pytest.raises(StoreError, match=rf"what answers at {url} speaks http, not https; write http://") as caught:
        RemoteStore(url, token=served.token(), patience=3600)
    assert not isinstance(caught.value, HubUnavailable), "trying again will not help"


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        ("302 Found\r\nlocation: {elsewhere}", "sends to"),
        ("200 OK\r\ncontent-type: text/html", "there is no sayso hub at"),
        ("404 Not Found", "there is no sayso hub at"),
        ("426 Upgrade Required", "refuses (426"),
        ("403 Forbidden", "refuses (403"),
        ("500 Oops", "look at its log"),
        ("503 Busy", "look at its log"),
        ("200 OK\r\ncontent-type: application/vnd.sayso.v1+msgpack", "cannot be read"),
    ],
)
def test_whatever_answers_in_the_place_of_a_hub_is_no_hub(answer: str, sentence: str) -> None:
    with listening() as elsewhere, listening() as place:
        elsewhere.settimeout(0.0)
        address = f"http://127.0.0.1:{elsewhere.getsockname()[1]}/"
        said = answer.format(elsewhere=address)
        threading.Thread(target=answer_all, args=(place, said), daemon=True).start()
        with pytest.raises(StoreError, match=re.escape(sentence)):
            RemoteStore(f"http://127.0.0.1:{place.getsockname()[1]}", token=TOKEN, patience=0.1)
        with pytest.raises(BlockingIOError):
            elsewhere.accept()  # nobody has followed, and no token went there
        place.shutdown(socket.SHUT_RDWR)


def answer_all(place: socket.socket, said: str) -> None:
    with contextlib.suppress(OSError):
        while True:
            line, _ = place.accept()
            with line:
                line.recv(65536)
                line.sendall(f"HTTP/1.1 {said}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".encode())


def test_a_certificate_that_nobody_vouches_for_is_refused(tmp_path: Path) -> None:
    certificate, key = tmp_path / "hub.pem", tmp_path / "hub.key"
    made = [
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-days",
        "2",
        "-subj",
        "/CN=localhost",
    ]
    named = ["-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run([shutil.which("openssl") or "openssl", *made, *named], check=True, capture_output=True)
    with Served(tmp_path / "sayso.db", certificate=certificate, key=key) as served:
        url = f"https://localhost:{served.port}"
        with pytest.raises(StoreError, match=r"cannot be trusted: .*certificate.* SSL_CERT_FILE"):
            RemoteStore(url, token=served.token())
        trusting = RemoteStore(url, token=served.token(), tls=ssl.create_default_context(cafile=str(certificate)))
        asyncio.run(trusting.aclose())


# A whole agent.


@pytest.mark.proves("R69", "R16")
async def test_an_agent_of_pydantic_ai_asks_through_the_hub_waits_and_runs_what_was_approved(served: Served) -> None:
    till, script = Till(), Scripted([("pay", {"amount": 5}), ("pay", {"amount": 6})])
    agent = served.agent("clerk", "shop")
    asking = Agent(script.model, tools=till.tools, capabilities=[Approvals(ASK, store=agent)])
    running = asyncio.ensure_future(asking.run("go"))
    for request in await until_pending(served.store, 2):
        yes = ApprovalDecision(approved=request.args["amount"] == 5, note="not six")
        await served.hub.controller.answer(request.id, yes, who="ann", channel="rest", roles=())
    with fail_after(30):
        result = await running
    assert till.ran == [("pay", 5)]
    told = [str(part.content) for part in returns(result.all_messages()).values()]
    assert any("refused by ann" in each and "not six" in each for each in told)
    await agent.flush()
    rows = await served.store.recent()
    assert sorted(each.state for each in rows) == ["denied", "used, returned"]
    assert {(each.project, each.asked_by) for each in rows} == {("shop", "clerk")}
    await agent.aclose()
