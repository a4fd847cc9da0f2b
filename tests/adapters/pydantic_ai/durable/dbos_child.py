"""The processes that test_dbos.py kills: each runs, or recovers, DBOS workflows."""

import asyncio
import contextlib
import json
import os
from pathlib import Path
from typing import Any

from dbos import DBOS, DBOSConfig, SetWorkflowID
from pydantic_ai.durable_exec import dbos as engine
from pydantic_ai.messages import ModelMessagesTypeAdapter
from tests.adapters.pydantic_ai.durable.process import Process, heard, open_calls
from tests.children import serve_crashes

from sayso import ApprovalDecision, ApprovalRequest

CONFIG: DBOSConfig = {
    "name": "cashier",
    "system_database_url": "sqlite:///dbos.sqlite",
    "application_version": "1",
    "executor_id": "one",
    "log_level": "CRITICAL",
}


class DBOSProcess(Process):
    """One life of the program, with workflows of DBOS."""

    main: asyncio.Task[None] | None = None

    async def ask(self, request: ApprovalRequest) -> ApprovalDecision:
        answer = await super().ask(request)
        if self.plan.get("cancel"):
            await DBOS.cancel_workflow_async(str(DBOS.workflow_id))  # of the agent, which may be one inside the other
            await asyncio.Event().wait()
        if self.plan.get("stop") and self.main is not None:
            self.main.cancel()  # as a signal does, when a new version is rolled out
            await asyncio.Event().wait()
        return answer

    def tools(self) -> list[Any]:
        if self.plan.get("asks") or self.plan.get("tools") == "plain":
            return super().tools()

        async def pay(amount: int) -> str:
            return self.pay(amount)

        async def look(name: str) -> str:
            return self.look(name)

        return [DBOS.step(name="pay")(pay), DBOS.step(name="look")(look)]

    def durable_agent(self) -> Any:
        """Return an agent whose runs are durable, by the newest way that the installed PydanticAI has."""
        if self.plan.get("agent") == "bare":
            return self.agent(self.tools(), [])
        newest: Any = getattr(engine, "DBOSDurability", None)
        if newest is None or self.plan.get("agent") == "wrapped":
            wrapper: Any = getattr(engine, "DBOSAgent")  # noqa: B009 - deprecated in PydanticAI 2
            return wrapper(self.agent(self.tools(), []))
        return self.agent(self.tools(), [newest()])

    async def run(self) -> None:
        self.main = asyncio.current_task()
        agent = self.durable_agent()

        @DBOS.workflow(name="work")
        async def work(history: bytes | None) -> bytes:
            return await self.work(agent, history)

        DBOS.launch()
        async with contextlib.nullcontext() if self.plan.get("stop") else self.controller:
            history = await outcome(work, "w1", None)
            if open_calls(ModelMessagesTypeAdapter.validate_json(history)):
                await self.answer_all()
                history = await outcome(work, "w2", history)
            steps = [each["function_name"] for each in await DBOS.list_workflow_steps_async("w1")]
            ended = {"heard": heard(history), "steps": steps}
            Path("ended").write_text(json.dumps(ended), encoding="utf-8")
        os._exit(0)  # all is written; `DBOS.destroy` would wait for the threads that poll, each for a second


async def outcome(work: Any, name: str, history: bytes | None) -> bytes:
    """Start a workflow, or find it where it has been started, and wait for its result."""
    with SetWorkflowID(name):
        handle = await DBOS.start_workflow_async(work, history)
    return await handle.get_result(polling_interval_sec=0.05)


def live(fatal: int) -> None:
    """Live until the end, or to the point with this number."""
    DBOS(config=CONFIG)
    asyncio.run(DBOSProcess(fatal).run())


if __name__ == "__main__":
    serve_crashes(live)
