"""The processes that prefect_flows.py kills: each runs a flow of Prefect, or runs the same flow run again."""

import asyncio
import json
from importlib import import_module
from pathlib import Path
from typing import Any
from uuid import UUID

from pydantic_ai.messages import ModelMessagesTypeAdapter
from tests.adapters.pydantic_ai.durable.process import Process, heard, open_calls
from tests.children import serve_crashes

# Prefect is not there where the types are checked.
prefect: Any = import_module("prefect")
get_client: Any = import_module("prefect.client.orchestration").get_client
run_flow: Any = import_module("prefect.flow_engine").run_flow
Pending: Any = import_module("prefect.states").Pending
PrefectDurability: Any = import_module("pydantic_ai.durable_exec.prefect").PrefectDurability


class PrefectProcess(Process):
    """One life of the program, with flows of Prefect."""

    async def run(self) -> None:
        agent = self.agent(self.tools(), [PrefectDurability()])

        @prefect.flow(name="work", retries=self.plan.get("retries", 0), persist_result=True)
        async def work(history: str | None) -> str:
            given = None if history is None else history.encode()
            return (await self.work(agent, given)).decode()

        async with self.controller:
            history = await outcome(work, "w1", None)
            if open_calls(ModelMessagesTypeAdapter.validate_json(history)):
                await self.answer_all()
                history = await outcome(work, "w2", history)
            Path("ended").write_text(json.dumps({"heard": heard(history.encode())}), encoding="utf-8")


async def outcome(work: Any, name: str, history: str | None) -> str:
    """Run a flow, or run it once more as the same flow run, as a worker does with one that has crashed."""
    file = Path(name)
    async with get_client() as client:
        if file.exists():
            known = await client.read_flow_run(UUID(file.read_text(encoding="utf-8")))
            await client.set_flow_run_state(known.id, Pending(), force=True)
        else:
            known = await client.create_flow_run(work, parameters={"history": history}, state=Pending())
            file.write_text(str(known.id), encoding="utf-8")
        flow_run = await client.read_flow_run(known.id)
    return await run_flow(work, flow_run=flow_run, parameters={"history": history})


def live(fatal: int) -> None:
    """Live until the end, or to the point with this number."""
    asyncio.run(PrefectProcess(fatal).run())


if __name__ == "__main__":
    serve_crashes(live)
