"""Parked runs go on when they are answered: in one call, or in a loop that any number of processes can run."""

import asyncio
from pathlib import Path
from typing import Any

import anyio
import pytest
from pydantic_ai import Agent, CallDeferred
from pydantic_ai.messages import ModelResponse
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.tools import DeferredToolRequests
from tests.adapters.pydantic_ai.scripted import Call, Scripted, Till
from tests.people import NO, YES

from sayso import ApprovalController, Policy
from sayso.adapters.pydantic_ai import Approvals, Resumed, keep_resuming, park, resume_answered
from sayso.errors import ConfigurationError
from sayso.stores.memory import MemoryStore
from sayso.testing import FixedClock

PAY: Call = ("pay", {"amount": 5})


def deferring(store: Any, **settings: Any) -> ApprovalController:
    return ApprovalController(policy=Policy({"pay": "required"}, default="none"), mode="defer", store=store, **settings)


def agent_of(controller: ApprovalController, tools: list[Any], name: str | None = "cashier") -> Agent[None, Any]:
    model, outputs = Scripted([PAY]).model, [str, DeferredToolRequests]
    return Agent(model, name=name, tools=tools, output_type=outputs, capabilities=[Approvals(controller)])


async def parked(agent: Agent[None, Any], controller: ApprovalController) -> str:
    return await park(await agent.run("go"), controller)


async def test_only_runs_whose_requests_are_all_answered_go_on_and_the_others_stay(till: Till, tmp_path: Path) -> None:
    async with deferring(tmp_path / "state.db") as controller:
        agent = agent_of(controller, till.tools)
        ids = [await parked(agent, controller) for _ in range(3)]
        asked = {run.id: run.requests[0] for run in await controller.parked_runs()}
        await controller.answer(asked[ids[0]], YES)
        await controller.answer(asked[ids[2]], NO)
        resumed = await resume_answered(agent, controller=controller)
        assert [(each.run.id, each.result.output if each.result else each.error) for each in resumed] == [
            (ids[0], "done"),
            (ids[2], "done"),
        ]
        assert till.ran == [("pay", 5)]
        assert [run.id for run in await controller.parked_runs()] == [ids[1]]
        assert await resume_answered(agent, controller=controller) == []


async def test_a_run_goes_on_with_the_agent_of_its_name_and_one_that_fails_holds_up_no_other(till: Till) -> None:
    controller = deferring(MemoryStore())

    def pay(amount: int) -> str:
        raise ConnectionError(f"no network to pay {amount}")

    agents = [agent_of(controller, [pay], "broken"), agent_of(controller, till.tools, "whole")]
    for agent in (*agents, agent_of(controller, till.tools, "elsewhere")):
        await parked(agent, controller)
    for request in await controller.pending():
        await controller.answer(request.id, YES)
    first, second = await resume_answered(agents, controller=controller)
    assert (first.run.agent, type(first.error), first.result) == ("broken", ConnectionError, None)
    assert (second.run.agent, second.error) == ("whole", None)
    assert [run.agent for run in await controller.parked_runs()] == ["broken", "elsewhere"]
    assert till.ran == [("pay", 5)]


async def test_an_agent_without_a_name_or_with_that_of_another_is_told_what_to_do(till: Till) -> None:
    controller = deferring(MemoryStore())
    with pytest.raises(ConfigurationError, match="pass `name=` when you build it"):
        await resume_answered(agent_of(controller, till.tools, None), controller=controller)
    twins = [agent_of(controller, till.tools), agent_of(controller, till.tools)]
    with pytest.raises(ConfigurationError, match="have the same name"):
        await resume_answered(twins, controller=controller)


async def test_a_run_that_needs_the_result_of_an_external_call_is_left_for_its_host(till: Till) -> None:
    controller = deferring(MemoryStore())

    def pay(amount: int) -> str:
        raise CallDeferred(metadata={"amount": amount})

    agent = agent_of(controller, [pay])
    await parked(agent, controller)
    await controller.answer((await controller.pending())[0].id, YES)
    (resumed,) = await resume_answered(agent, controller=controller)
    assert resumed.result is not None
    assert isinstance(resumed.result.output, DeferredToolRequests)
    (run,) = await controller.parked_runs()
    assert (run.requests, len(run.calls)) == ((), 1)
    assert await resume_answered(agent, controller=controller) == []


async def test_the_loop_goes_on_with_each_run_as_it_is_answered(till: Till, tmp_path: Path) -> None:
    async with deferring(tmp_path / "state.db") as controller, deferring(tmp_path / "state.db") as person:
        agent = agent_of(controller, till.tools)
        loop = keep_resuming(agent, controller=controller)
        with anyio.fail_after(20):
            for decision in (YES, NO):
                run_id = await parked(agent, controller)
                following = asyncio.ensure_future(anext(loop))
                await person.answer((await person.pending())[0].id, decision)
                resumed = await following
                assert (resumed.run.id, resumed.error) == (run_id, None)
        await loop.aclose()
    assert till.ran == [("pay", 5)]


async def test_two_loops_on_one_store_resume_each_run_once(till: Till, tmp_path: Path) -> None:
    file = tmp_path / "state.db"
    async with deferring(file) as one, deferring(file) as two:
        for _ in range(6):
            await parked(agent_of(one, till.tools), one)
        found: list[Resumed] = []

        async def work(controller: ApprovalController) -> None:
            async for each in keep_resuming(agent_of(controller, till.tools), controller=controller):
                found.append(each)
                if len(found) == 6:
                    workers.cancel_scope.cancel()

        with anyio.fail_after(30):
            async with anyio.create_task_group() as workers:
                workers.start_soon(work, one)
                workers.start_soon(work, two)
                for request in await one.pending():
                    await one.answer(request.id, YES)
        assert len({each.run.id for each in found}) == 6
        assert [each.error for each in found] == [None] * 6
    assert till.ran == [("pay", 5)] * 6


async def test_a_run_that_keeps_failing_is_tried_again_after_a_pause(till: Till) -> None:
    clock = FixedClock()
    controller = deferring(MemoryStore(), clock=clock)
    agent = agent_of(controller, till.tools)
    await parked(agent, controller)
    await controller.answer((await controller.pending())[0].id, YES)

    def fail(*_: object) -> ModelResponse:
        raise ConnectionError("no network")

    loop = keep_resuming(agent, controller=controller)
    with anyio.fail_after(10):
        with agent.override(model=FunctionModel(fail)):
            assert isinstance((await anext(loop)).error, ConnectionError)
        following = asyncio.ensure_future(anext(loop))
        while not following.done():
            await anyio.lowlevel.checkpoint()
            clock.advance(1.0)
        assert (await following).error is None
    await loop.aclose()
    assert till.ran == [("pay", 5)]
