"""Runs of agents inside agents are parked in PostgreSQL as in any other store."""

from typing import Any

import pytest
from pydantic_ai import Agent
from pydantic_ai.tools import DeferredToolRequests
from tests.adapters.pydantic_ai.scripted import Scripted, Till
from tests.people import YES
from tests.postgres import Postgres

from sayso import ApprovalController, Policy
from sayso.adapters.pydantic_ai import Approvals, delegate, park, resume
from sayso.stores.postgres import PostgresStore


@pytest.mark.proves("R17")
async def test_a_nested_run_stops_and_goes_on_in_postgresql(postgres: Postgres) -> None:
    till = Till()
    inner = Agent(Scripted([("pay", {"amount": 5})]).model, name="inner", tools=till.tools)

    async def ask_inner() -> str:
        return await delegate(inner, "go")

    def outer(controller: ApprovalController) -> Agent[None, Any]:
        script = Scripted([("ask_inner", {})])
        return Agent(script.model, name="outer", tools=[ask_inner], capabilities=[Approvals(controller)],
                     output_type=[str, DeferredToolRequests])  # fmt: skip

    store = PostgresStore(postgres.database())
    try:
        controller = ApprovalController(policy=Policy({"pay": "required"}, default="none"), mode="defer", store=store)
        parked = await park(await outer(controller).run("go"), controller)
        (request,) = await controller.pending()
        await controller.answer(request.id, YES)
        assert (await resume(outer(controller), parked, controller=controller)).output == "done"
    finally:
        await store.aclose()
    assert till.ran == [("pay", 5)]
