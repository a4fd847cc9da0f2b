"""P4 and P6 with LangChain: a run of 20 calls, and a run that stops and goes on, beside LangChain's own question."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, HumanInTheLoopMiddleware
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import Command

from benchmarks import report
from benchmarks.rows import Row, at_most, compare, row
from benchmarks.timing import Effort, Sample, interleave, minus
from sayso import ApprovalController, ApprovalDecision, Policy
from sayso.adapters.langchain import Approvals, resume_sync
from sayso.engine import blocking

CALLS = 20
GO: Any = {"messages": [("user", "go")]}
THREAD: Any = {"configurable": {"thread_id": "1"}}
YES = ApprovalDecision(approved=True, who="ann")


class Script(GenericFakeChatModel):
    """A model that makes these calls, one in each response, and then ends."""

    def bind_tools(self, *_: object, **__: object) -> Script:
        return self


def script(calls: int) -> Script:
    def responses() -> Iterator[AIMessage]:
        for number in range(calls):
            yield AIMessage("", tool_calls=[{"name": "write_file", "args": {"path": "a.txt"}, "id": f"c{number}"}])
        yield AIMessage("done")

    return Script(messages=responses())


def write_file(path: str) -> str:  # noqa: ARG001 - a minimal tool
    """Write a file."""
    return "written"


def repeat(run: Callable[[], object]) -> Sample:
    """Return a sample of processor time, which other work disturbs least."""

    def sample(count: int) -> float:
        begin = time.process_time()
        for _ in range(count):
            run()
        return time.process_time() - begin

    return lambda count: asyncio.to_thread(sample, count)  # off the loop, as synchronous callers are


def agent(calls: int, *middleware: AgentMiddleware[Any, Any, Any], saver: Any = None) -> Any:  # noqa: ANN401 - LangGraph's own
    return create_agent(script(calls), [write_file], middleware=middleware, checkpointer=saver)


async def run_of_calls(effort: Effort) -> list[Row]:
    """P4: 20 calls that run unasked, with the audit in a SQLite file."""
    with report.scratch() as folder:
        policy = Policy({"write_file": "none"})
        controller = ApprovalController(mode="auto_deny", policy=policy, store=Path(folder) / "sayso.db")
        ours, theirs = Approvals(controller), HumanInTheLoopMiddleware(interrupt_on={"write_file": False, "pay": True})
        samples = {
            "ungated": repeat(lambda: agent(CALLS).invoke(GO)),
            "ours": repeat(lambda: agent(CALLS, ours).invoke(GO)),
            "theirs": repeat(lambda: agent(CALLS, theirs).invoke(GO)),
        }
        seconds = await interleave(samples, effort, most=20)
        await controller.aclose()
    return [
        row(
            "P4",
            f"LangChain, {CALLS} calls; limit: ungated; peer: HumanInTheLoopMiddleware",
            seconds["ours"],
            limit=compare(seconds["ours"], seconds["ungated"], at_most(1.10)),
            peer=compare(seconds["ours"], seconds["theirs"], at_most(1)),
        )
    ]


def _stop_and_go_on_theirs(file: Path) -> None:
    asks = HumanInTheLoopMiddleware(interrupt_on={"write_file": True})
    with SqliteSaver.from_conn_string(str(file)) as saver:
        agent(1, asks, saver=saver).invoke(GO, THREAD)
    with SqliteSaver.from_conn_string(str(file)) as saver:
        agent(0, asks, saver=saver).invoke(Command(resume={"decisions": [{"type": "approve"}]}), THREAD)
    file.unlink()


def _stop_and_go_on_ours(file: Path, controller: ApprovalController) -> None:
    asks = Approvals(controller)
    with SqliteSaver.from_conn_string(str(file)) as saver:
        stopped = agent(1, asks, saver=saver).invoke(GO, THREAD)
    (asked,) = stopped["__interrupt__"]
    blocking.run(controller.answer, asked.value["sayso_request"], YES)
    with SqliteSaver.from_conn_string(str(file)) as saver:
        resume_sync(agent(0, asks, saver=saver), THREAD, controller=controller)
    file.unlink()


async def stop_and_go_on(effort: Effort) -> list[Row]:
    """P6: a run that stops for an answer and goes on, with LangGraph's checkpointer in a SQLite file."""
    with report.scratch() as folder:
        file = Path(folder) / "checkpoints.db"
        controller = ApprovalController(mode="defer", store=Path(folder) / "sayso.db")
        samples = {
            "ungated": repeat(lambda: agent(1).invoke(GO)),
            "ours": repeat(lambda: _stop_and_go_on_ours(file, controller)),
            "theirs": repeat(lambda: _stop_and_go_on_theirs(file)),
        }
        seconds = await interleave(samples, effort, most=20)
        await controller.aclose()
    added, limit = minus(seconds["ours"], seconds["theirs"]), minus(seconds["theirs"], seconds["ungated"])
    return [
        row(
            "P6",
            "LangChain, stop and go on: what sayso adds; limit: what LangGraph's stop with its SQLite saver adds",
            added,
            limit=compare(added, limit, at_most(0.5)),
        )
    ]


MEASUREMENTS = (run_of_calls, stop_and_go_on)
