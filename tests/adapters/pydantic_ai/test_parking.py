"""Runs that stop in one process and go on in another."""

import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import Agent
from pydantic_ai.tools import DeferredToolRequests
from tests.adapters.counting import Counting
from tests.adapters.pydantic_ai.scripted import Call, Scripted, Till, Wrapped, returns
from tests.people import YES

from sayso import ApprovalController, ApprovalDecision, Policy
from sayso.adapters.pydantic_ai import Approvals, park, resume
from sayso.errors import ApprovalPending, ConfigurationError, StoreError, UnknownRequest
from sayso.stores.memory import MemoryStore

PAY: Call = ("pay", {"amount": 5})


def controller_on(file: Path) -> ApprovalController:
    return ApprovalController(policy=Policy({"pay": "required"}), mode="defer", store=file)


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
        again = await park(result, second)
    async with controller_on(file) as third:
        await answer_all(third, ApprovalDecision(approved=False, note="once is enough"))
        result = await resume(agent_of(till, third), again, controller=third)
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
