"""Parked runs at a hub: an agent lists its own, and people those of their project."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest
from msgspec.structs import replace
from pydantic_ai import Agent
from pydantic_ai.run import AgentRunResult
from pydantic_ai.tools import DeferredToolRequests
from tests.adapters.pydantic_ai.scripted import Scripted, Till
from tests.cli.questions import sayso
from tests.server.served import POLICY, Served

from sayso import ApprovalController, ToolCall
from sayso.adapters.pydantic_ai import Approvals, park, resume_answered
from sayso.client.hub_http import path_of
from sayso.client.hub_records import HubRecords
from sayso.core.model import ParkedRun, Pending, new_id
from sayso.errors import StoreError
from sayso.stores.remote import RemoteStore

T = TypeVar("T")
RUN = new_id()


def as_agent(served: Served, name: str, work: Callable[[ApprovalController], Awaitable[T]], project: str = "shop") -> T:
    """Do something as an agent with a token of its own."""
    token = served.token("agent", name, project=project)

    async def run() -> T:
        store = await asyncio.to_thread(RemoteStore, served.url, token=token)
        try:
            return await work(ApprovalController(mode="defer", policy=POLICY, store=store))
        finally:
            await store.aclose()

    return asyncio.run(run())


async def ask_and_park(controller: ApprovalController, *more: str) -> ParkedRun:
    """Ask a question, and park a run that waits for it and for these."""
    outcome = await controller.review(ToolCall(tool="pay", args={"amount": 5}))
    assert isinstance(outcome, Pending)
    run = ParkedRun(id=new_id(), agent="payer", session=controller.session, requests=(outcome.request.id, *more))
    await controller.store.park(run.id, b"state", run)
    return run


@pytest.mark.proves("H11")
def test_an_agent_lists_its_own_runs_and_people_those_of_their_project(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = as_agent(served, "builder", ask_and_park)
    other = as_agent(served, "other", ask_and_park, project="office")
    (found,) = as_agent(served, "builder", lambda controller: controller.parked_runs())
    assert replace(found, parked_at=0.0) == run
    assert as_agent(served, "stranger", lambda controller: controller.parked_runs()) == []
    monkeypatch.setenv("SAYSO_TOKEN", served.token(name="ann", project="shop"))
    listed = json.loads(sayso("runs", "--json", "--store", served.url).stdout)
    assert [(each["id"], each["parked_by"], each["waits_for"]) for each in listed] == [
        (run.id, "builder", list(run.requests))
    ]
    assert sayso("runs", "drop", other.id, "--store", served.url).exit_code == 3
    done = sayso("runs", "drop", run.id, "--store", served.url)
    assert (done.exit_code, done.stdout) == (0, f"dropped  {run.id[-6:]} of payer (builder)\n")
    assert [each.project for each in served.do(served.store.runs())] == ["office"]
    assert [each.project for each in served.do(served.store.pending())] == ["office"]


@pytest.mark.proves("H11")
def test_a_run_that_names_requests_of_others_withdraws_none_of_them(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = as_agent(served, "other", ask_and_park, project="office")
    run = as_agent(served, "builder", lambda controller: ask_and_park(controller, *theirs.requests))
    monkeypatch.setenv("SAYSO_TOKEN", served.token(name="ann", project="shop"))
    assert sayso("runs", "drop", run.id, "--store", served.url).exit_code == 0
    assert [each.id for each in served.do(served.store.pending())] == list(theirs.requests)


@pytest.mark.parametrize(
    "forged",
    [
        ParkedRun(id="../remembered/" + RUN),
        ParkedRun(id=RUN, requests=("../me",)),
        ParkedRun(id=RUN, requests=(RUN,) * 201),
        ParkedRun(id=RUN, agent="x" * 201),
        ParkedRun(id="f" * 12 + RUN[12:]),
        ParkedRun(id=RUN, agent="pay\0er"),
        ParkedRun(id=RUN, session="s" * 1001),
    ],
)
def test_a_run_that_could_not_be_listed_is_refused(served: Served, forged: ParkedRun) -> None:
    with pytest.raises(StoreError, match="the request is refused"):
        as_agent(served, "builder", lambda controller: controller.store.park(forged.id, b"state", forged))
    assert served.do(served.store.runs()) == []


def test_what_an_agent_says_about_its_owner_is_replaced_by_what_its_token_says(served: Served) -> None:
    lie = ParkedRun(id=RUN, project="office", parked_by="somebody")
    as_agent(served, "builder", lambda controller: controller.store.park(RUN, b"state", lie))
    (stored,) = served.do(served.store.runs())
    assert (stored.project, stored.parked_by, stored.name) == ("shop", "builder", f"shop/builder/{RUN}")
    with pytest.raises(StoreError, match="under its own id"):
        as_agent(served, "builder", lambda controller: controller.store.park("another name", b"state", lie))


@pytest.mark.proves("H11")
def test_an_id_that_two_agents_use_drops_neither(served: Served) -> None:
    for agent in ("builder", "copycat"):
        as_agent(served, agent, lambda controller: controller.store.park(RUN, b"state", ParkedRun(id=RUN)))
    with served.person(project="shop") as ann:
        assert ann.delete(f"/runs/{RUN}").status_code == 409
    assert len(served.do(served.store.runs())) == 2


@pytest.mark.proves("H11")
def test_an_id_that_is_a_path_leads_a_person_s_command_nowhere_else(served: Served) -> None:
    async def drop(run_id: str) -> bool:
        records = HubRecords(served.url, served.token(name="ann", project="shop"))
        try:
            return await records.drop_run(ParkedRun(id=run_id), "ann")
        finally:
            await records.aclose()

    for run_id in ("../remembered/x", "..", ".", "a/b", "a?b=c#d"):
        assert not asyncio.run(drop(run_id))
    assert path_of("runs", "../me") == "/runs/..%2Fme"


@pytest.mark.proves("R17")
def test_a_run_that_is_parked_at_a_hub_goes_on_from_there_as_often_as_it_asks(served: Served) -> None:
    till = Till()

    async def go_on(controller: ApprovalController) -> object:
        model = Scripted([("pay", {"amount": 5})], [("pay", {"amount": 6})]).model
        agent = Agent(model, name="cashier", tools=till.tools, capabilities=[Approvals(controller)])
        if not await controller.parked_runs():
            await park(await agent.run("go", output_type=[str, DeferredToolRequests]), controller)
        await answer_all()
        (resumed,) = await resume_answered(agent, controller=controller)
        return resumed.error or resumed.result

    async def answer_all() -> None:
        with served.person(project="shop") as ann:
            for each in ann.get("/approvals", params={"status": "pending"}).json()["items"]:
                assert ann.post(f"/approvals/{each['id']}", json={"approved": True}).status_code == 200

    assert isinstance(as_agent(served, "till", go_on), AgentRunResult)
    assert till.ran == [("pay", 5)]
    assert isinstance(as_agent(served, "till", go_on), AgentRunResult)
    assert till.ran == [("pay", 5), ("pay", 6)]
    assert served.do(served.store.runs()) == []
