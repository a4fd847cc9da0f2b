"""Runs that stop in one process and go on in another."""

import asyncio
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any

import anyio
import pytest
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models.function import AgentInfo
from pydantic_ai.tools import DeferredToolRequests
from tests.adapters.counting import Counting
from tests.adapters.pydantic_ai.scripted import Call, Scripted, Till, Wrapped, returns
from tests.people import YES

from sayso import ApprovalController, ApprovalDecision, Policy
from sayso.adapters.pydantic_ai import Approvals, park, resume
from sayso.errors import AlreadyResuming, ApprovalPending, ConfigurationError, StoreError, UnknownRequest
from sayso.stores.memory import MemoryStore
from sayso.testing import FixedClock

PAY: Call = ("pay", {"amount": 5})


def controller_on(file: Path) -> ApprovalController:
    return ApprovalController(policy=Policy({"pay": "required"}, default="none"), mode="defer", store=file)


def agent_of(till: Till, controller: ApprovalController, script: Scripted | None = None) -> Agent[None, Any]:
    return Agent(
        (script or Scripted([PAY], [PAY])).model,
        tools=till.tools,
        output_type=[str, DeferredToolRequests],
        capabilities=[Approvals(controller)],
    )


async def answer_all(controller: ApprovalController, decision: ApprovalDecision = YES) -> None:
    for request in await controller.pending():
        await controller.answer(request.id, decision)


@pytest.mark.proves("R17", "H6")
async def test_a_parked_run_goes_on_under_another_controller_as_often_as_it_stops(till: Till, tmp_path: Path) -> None:
    file = tmp_path / "state.db"
    async with controller_on(file) as first:
        parked = await park(await agent_of(till, first).run("go"), first)
    async with controller_on(file) as second:
        await answer_all(second)
        result = await resume(agent_of(till, second), parked, controller=second)
        assert till.ran == [("pay", 5)]
        assert await park(result, second) == parked, "it is parked already, and once is enough"
    async with controller_on(file) as third:
        waiting = [request.id for request in await third.pending()]
        assert [(run.id, list(run.requests)) for run in await third.parked_runs()] == [(parked, waiting)]
        await answer_all(third, ApprovalDecision(approved=False, note="once is enough"))
        result = await resume(agent_of(till, third), parked, controller=third)
        assert await third.parked_runs() == []
    assert result.output == "done"
    assert till.ran == [("pay", 5)]
    assert "once is enough" in str(list(returns(result.all_messages()).values())[-1].content)


async def test_a_call_is_judged_once_when_it_is_asked_about_and_once_when_it_is_answered(till: Till) -> None:
    policy = Counting({"pay": "required"})
    controller = ApprovalController(policy=policy, mode="defer", store=MemoryStore())
    agent = agent_of(till, controller, Scripted([PAY]))
    parked = await park(await agent.run("go"), controller)
    assert policy.asked == 1
    await answer_all(controller)
    await resume(agent, parked, controller=controller)
    assert till.ran == [("pay", 5)]
    assert policy.asked == 2


async def resumed(till: Till, controller: ApprovalController, *own: Approvals, **settings: Any) -> int:
    """Park a run under `Approvals`, approve it, resume it with an agent that brings these, and count its guards."""

    def agent(capabilities: Sequence[Approvals]) -> tuple[Wrapped, Agent[None, Any]]:
        toolset, outputs = Wrapped(till.tools), [str, DeferredToolRequests]
        model = Scripted([PAY]).model
        return toolset, Agent(model, toolsets=[toolset], output_type=outputs, capabilities=capabilities)

    parked = await park(await agent([Approvals(controller)])[1].run("go"), controller)
    await answer_all(controller)
    toolset, resuming = agent(own)
    with resuming.override(spec={}) if settings.pop("overridden", False) else nullcontext():
        await resume(resuming, parked, controller=controller, **settings)
    return toolset.guards


async def test_an_agent_that_brings_approvals_is_not_wrapped_again(till: Till) -> None:
    controller = ApprovalController(policy=Policy({"pay": "required"}), mode="defer", store=MemoryStore())
    assert await resumed(till, controller, Approvals(controller)) == 1
    assert till.ran == [("pay", 5)]


@pytest.mark.parametrize("settings", [{}, {"overridden": True}, {"capabilities": [Approvals(mode="approve_all")]}])
async def test_an_agent_of_which_it_cannot_be_told_is_wrapped(till: Till, settings: dict[str, Any]) -> None:
    controller = ApprovalController(policy=Policy({"pay": "required"}), mode="defer", store=MemoryStore())
    own = [Approvals(controller)] if settings.get("overridden") else []
    assert await resumed(till, controller, *own, **settings) >= 1
    assert till.ran == [("pay", 5)]


async def test_an_agent_with_approvals_of_another_controller_asks_the_resuming_one(till: Till) -> None:
    controller = ApprovalController(policy=Policy({"pay": "required"}), mode="defer", store=MemoryStore())
    lax = ApprovalController(mode="approve_all", policy=Policy({"pay": "none"}))
    assert await resumed(till, controller, Approvals(lax)) == 1
    assert till.ran == [("pay", 5)]
    assert [each.status for each in await controller.store.recent()] == ["used"]


async def test_an_agent_with_a_stricter_policy_of_its_own_keeps_it_when_it_resumes(till: Till) -> None:
    controller = ApprovalController(policy=Policy({"pay": "required"}), mode="defer", store=MemoryStore())
    await resumed(till, controller, Approvals(Policy({"pay": "blocked"})))
    assert till.ran == []


_CHILD = """
import asyncio, sys
from pathlib import Path
from sayso.adapters.pydantic_ai import park, resume
from tests.adapters.pydantic_ai.scripted import Till
from tests.adapters.pydantic_ai.test_parking import agent_of, controller_on

async def main():
    till = Till()
    async with controller_on(Path(sys.argv[1])) as controller:
        agent = agent_of(till, controller)
        if sys.argv[2:]:
            await resume(agent, sys.argv[2], controller=controller)
            print(till.ran)
        else:
            print(await park(await agent.run("go"), controller))

asyncio.run(main())
"""


@pytest.mark.proves("R17", "H6")
async def test_a_parked_run_goes_on_in_another_process(tmp_path: Path) -> None:
    def child(*arguments: str) -> str:
        root = Path(__file__).parents[3]
        command = [sys.executable, "-c", _CHILD, str(tmp_path / "state.db"), *arguments]
        done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    parked = child()
    async with controller_on(tmp_path / "state.db") as controller:
        await answer_all(controller)
    assert child(parked) == "[('pay', 5)]"


async def test_a_run_that_waits_for_an_answer_is_not_resumed(till: Till, tmp_path: Path) -> None:
    async with controller_on(tmp_path / "state.db") as controller:
        agent = agent_of(till, controller)
        parked = await park(await agent.run("go"), controller)
        with pytest.raises(ApprovalPending):
            await resume(agent, parked, controller=controller)
        await answer_all(controller)
        await resume(agent, parked, controller=controller)
        assert till.ran == [("pay", 5)]
        await answer_all(controller)
        await resume(agent, parked, controller=controller)
        with pytest.raises(UnknownRequest, match="perhaps it has gone on already"):
            await resume(agent, parked, controller=controller)


async def test_a_run_that_is_over_is_not_parked(till: Till, tmp_path: Path) -> None:
    async with controller_on(tmp_path / "state.db") as controller:
        result = await agent_of(till, controller, Scripted()).run("go")
        with pytest.raises(ConfigurationError, match="this run is over"):
            await park(result, controller)


@pytest.mark.proves("H2", "H5")
@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ("replace(state, x'22616d6f756e7422', x'22616d6f756e7821')", "is not as it was parked"),
        ("substr(state, 1, length(state) - 1)", "is not as it was parked"),
        ("x'02' || substr(state, 2)", "another version of sayso"),
    ],
)
async def test_a_state_that_was_tampered_with_is_refused(till: Till, tmp_path: Path, change: str, problem: str) -> None:
    file = tmp_path / "state.db"
    async with controller_on(file) as controller:
        parked = await park(await agent_of(till, controller).run("go"), controller)
        await answer_all(controller)
    with closing(sqlite3.connect(file)) as hand:
        hand.execute(f"UPDATE parked SET state = CAST({change} AS BLOB)")  # noqa: S608 - the test's own words
        hand.commit()
    async with controller_on(file) as controller:
        with pytest.raises(StoreError, match=problem):
            await resume(agent_of(till, controller), parked, controller=controller)
    assert till.ran == []


@pytest.mark.proves("H2", "H5")
async def test_the_state_of_one_run_is_not_taken_for_another_s(till: Till, tmp_path: Path) -> None:
    async with controller_on(tmp_path / "state.db") as controller:
        agent = agent_of(till, controller)
        ids = [await park(await agent.run("go"), controller) for _ in range(2)]
        state = await controller.store.parked(ids[0])
        assert state is not None
        await controller.store.park(ids[1], state)
        with pytest.raises(StoreError, match="is not as it was parked"):
            await resume(agent, ids[1], controller=controller)


class Flaky(Scripted):
    """A model that cannot be reached when its turn has this number."""

    failing: int | None = None

    def respond(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if len(self.offered) == self.failing:
            self.failing = None
            raise ConnectionError("no network")
        return super().respond(messages, info)


async def test_a_run_that_fails_goes_on_from_the_last_request_to_the_model(till: Till, tmp_path: Path) -> None:
    async with controller_on(tmp_path / "state.db") as controller:
        script = Flaky([PAY], [("look", {"name": "ann"})])
        agent = agent_of(till, controller, script)
        parked = await park(await agent.run("go"), controller)
        await answer_all(controller)
        script.failing = 2
        with pytest.raises(ConnectionError):
            await resume(agent, parked, controller=controller)
        assert till.ran == [("pay", 5), ("look", "ann")]
        result = await resume(agent, parked, controller=controller)
    assert result.output == "done"
    assert till.ran == [("pay", 5), ("look", "ann")], "neither ran twice"
    assert [part.content for part in returns(result.all_messages()).values()] == ["paid 5", "saw ann"]


async def test_a_run_is_resumed_by_one_process_at_a_time(till: Till, tmp_path: Path) -> None:
    async with controller_on(tmp_path / "state.db") as one, controller_on(tmp_path / "state.db") as two:
        inside, leave = asyncio.Event(), asyncio.Event()

        async def pay(amount: int) -> str:
            inside.set()
            await leave.wait()
            return till.pay(amount)

        model, outputs = Scripted([PAY]).model, [str, DeferredToolRequests]
        slow = Agent(model, tools=[pay], output_type=outputs, capabilities=[Approvals(one)])
        parked = await park(await slow.run("go"), one)
        await answer_all(one)
        first = asyncio.create_task(resume(slow, parked, controller=one))
        with anyio.fail_after(5):
            await inside.wait()
        with pytest.raises(AlreadyResuming, match=r"another process is resuming the run .* within 120 seconds"):
            await resume(agent_of(till, two, Scripted([PAY])), parked, controller=two)
        leave.set()
        assert (await first).output == "done"
    assert till.ran == [("pay", 5)]


async def test_a_run_whose_process_died_is_free_again_when_its_lease_is_over(till: Till) -> None:
    store, clocks = MemoryStore(), [FixedClock(), FixedClock()]
    one, two = (
        ApprovalController(policy=Policy({"pay": "required"}), mode="defer", store=store, clock=clock)
        for clock in clocks
    )
    parked = await park(await agent_of(till, one, Scripted([PAY])).run("go"), one)
    await answer_all(one)
    agent = agent_of(till, two, Scripted([PAY]))
    async with one.adapter.runs.hold(parked) as held:
        with pytest.raises(AlreadyResuming):
            await resume(agent, parked, controller=two)
        clocks[1].advance(121.0)
        assert (await resume(agent, parked, controller=two)).output == "done"
        clocks[0].advance(121.0)
        with pytest.raises(AlreadyResuming, match="does not go on here"):
            await held.end()


async def test_a_holder_that_stood_still_goes_on_if_nobody_else_did(till: Till) -> None:
    clock = FixedClock()
    controller = ApprovalController(policy=Policy({"pay": "required"}), mode="defer", store=MemoryStore(), clock=clock)
    parked = await park(await agent_of(till, controller, Scripted([PAY])).run("go"), controller)
    async with controller.adapter.runs.hold(parked) as held:
        clock.advance(1000.0)  # as if the event loop had been blocked
        await held.end()
    assert await controller.parked_runs() == []
    assert await controller.store.parked(f"{parked}\0lease") is None, "nothing is left of it"


async def test_a_run_that_is_dropped_withdraws_what_it_asked(till: Till, tmp_path: Path) -> None:
    async with controller_on(tmp_path / "state.db") as controller:
        parked = await park(await agent_of(till, controller).run("go"), controller)
        (run,) = await controller.parked_runs()
        assert (run.id, run.framework, len(run.requests)) == (parked, "pydantic-ai", 1)
        assert await controller.drop_run(run, "ann gave it up")
        assert not await controller.drop_run(run, "ann gave it up")
        assert await controller.pending() == []
        (request,) = await controller.store.recent()
        assert request.status == "withdrawn"
        with pytest.raises(UnknownRequest):
            await resume(agent_of(till, controller), parked, controller=controller)


async def test_a_run_that_is_dropped_while_it_goes_on_stops_before_the_next_request_to_the_model(
    till: Till, tmp_path: Path
) -> None:
    async with controller_on(tmp_path / "state.db") as controller:

        async def pay(amount: int) -> str:
            (run,) = await controller.parked_runs()
            assert await controller.drop_run(run, "ann gave it up")
            return till.pay(amount)

        script, outputs = Scripted([PAY], [("look", {"name": "ann"})]), [str, DeferredToolRequests]
        agent = Agent(script.model, tools=[pay, till.look], output_type=outputs, capabilities=[Approvals(controller)])
        parked = await park(await agent.run("go"), controller)
        await answer_all(controller)
        with pytest.raises(AlreadyResuming, match="was dropped"):
            await resume(agent, parked, controller=controller)
        assert till.ran == [("pay", 5)]
        assert await controller.parked_runs() == []


async def test_a_run_that_has_gone_on_is_not_brought_back_by_parking_its_old_result(till: Till) -> None:
    controller = ApprovalController(policy=Policy({"pay": "required"}), mode="defer", store=MemoryStore())
    agent = agent_of(till, controller)
    parked = await park(await agent.run("go"), controller)
    await answer_all(controller)
    asked_again = await resume(agent, parked, controller=controller)
    await answer_all(controller)
    assert (await resume(agent, parked, controller=controller)).output == "done"
    assert await park(asked_again, controller) == parked
    assert await controller.parked_runs() == []
