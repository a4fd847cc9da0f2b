"""P4 and P6 with LangChain: a run of 20 calls, and a run that stops and goes on, beside LangChain's own question."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, HumanInTheLoopMiddleware
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import Command

from benchmarks import report
from benchmarks.agent_runs import CALLS, Run, compare_runs, compare_stops, write_file
from benchmarks.rows import Row
from benchmarks.timing import Effort
from sayso import ApprovalController, ApprovalDecision, Policy
from sayso.adapters.langchain import Approvals, resume_sync
from sayso.engine import blocking

GO: Any = {"messages": [("user", "go")]}
THREAD: Any = {"configurable": {"thread_id": "1"}}
YES = ApprovalDecision(approved=True, who="ann")
TOOL = tool(write_file)


class Script(GenericFakeChatModel):
    """A model that makes these calls, one in each response, then ends, and begins again."""

    def bind_tools(self, *_: object, **__: object) -> Script:
        return self


class EmptyHooks(AgentMiddleware[Any, Any, Any]):
    """The hooks that `Approvals` has, doing nothing."""

    def wrap_model_call(self, request: Any, handler: Any) -> Any:  # noqa: ANN401 - LangChain's own types
        return handler(request)

    def wrap_tool_call(self, request: Any, handler: Any) -> Any:  # noqa: ANN401 - LangChain's own types
        return handler(request)


def script(calls: int) -> Script:
    def responses() -> Iterator[AIMessage]:
        while True:
            for number in range(calls):
                yield AIMessage("", tool_calls=[{"name": TOOL.name, "args": {"path": "a.txt"}, "id": f"c{number}"}])
            yield AIMessage("done")

    return Script(messages=responses())


def agent(calls: int, *middleware: AgentMiddleware[Any, Any, Any], saver: Any = None) -> Any:  # noqa: ANN401 - LangGraph's own
    return create_agent(script(calls), [TOOL], middleware=middleware, checkpointer=saver)


def runs_of(*middleware: AgentMiddleware[Any, Any, Any]) -> Run:
    built = agent(CALLS, *middleware)
    return lambda: built.invoke(GO)


async def run_of_calls(effort: Effort) -> list[Row]:
    with report.scratch() as folder:
        policy = Policy({TOOL.name: "none"})
        controller = ApprovalController(mode="auto_deny", policy=policy, store=Path(folder) / "sayso.db")
        rows = await compare_runs(
            "LangChain",
            effort,
            ungated=runs_of(),
            ours=runs_of(Approvals(controller)),
            empty=runs_of(EmptyHooks()),
            theirs=runs_of(HumanInTheLoopMiddleware(interrupt_on={TOOL.name: False, "pay": True})),
            peer="HumanInTheLoopMiddleware",
        )
        await controller.aclose()
    return rows


def _stop_and_go_on_theirs(file: Path) -> None:
    asks = HumanInTheLoopMiddleware(interrupt_on={TOOL.name: True})
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
    with report.scratch() as folder:
        file = Path(folder) / "checkpoints.db"
        controller = ApprovalController(mode="defer", store=Path(folder) / "sayso.db")
        rows = await compare_stops(
            "LangChain",
            effort,
            ungated=lambda: agent(1).invoke(GO),
            ours=lambda: _stop_and_go_on_ours(file, controller),
            theirs=lambda: _stop_and_go_on_theirs(file),
            limit="LangGraph's stop with its SQLite saver",
        )
        await controller.aclose()
    return rows


MEASUREMENTS = (run_of_calls, stop_and_go_on)
