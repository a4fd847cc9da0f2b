"""P4 and P6 with the OpenAI Agents SDK: a run of 20 calls, and one that stops and goes on, beside its own approvals."""

from __future__ import annotations

import copy
import itertools
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from agents import (
    Agent,
    FunctionTool,
    Model,
    ModelResponse,
    RunContextWrapper,
    Runner,
    RunState,
    Tool,
    Usage,
    function_tool,
    set_tracing_disabled,
)
from agents.tool_context import ToolContext
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

from benchmarks import report
from benchmarks.agent_runs import CALLS, Run, compare_runs, compare_stops, write_file
from benchmarks.rows import Row
from benchmarks.timing import Effort
from sayso import ApprovalController, ApprovalDecision, Policy
from sayso.adapters.openai_agents import Approvals, park, questions, resume
from sayso.engine import blocking

set_tracing_disabled(disabled=True)
YES = ApprovalDecision(approved=True, who="ann")
TOOL = "write_file"
DONE = ResponseOutputMessage(
    id="m",
    content=[ResponseOutputText(text="done", type="output_text", annotations=[])],
    role="assistant",
    status="completed",
    type="message",
)


class Script(Model):
    """A model that makes these calls, one in each response, then ends, and begins again."""

    def __init__(self, calls: int) -> None:
        self._turns = itertools.cycle(range(calls + 1))
        self._calls = calls

    async def get_response(self, *_: object, **__: object) -> ModelResponse:
        number = next(self._turns)
        call = ResponseFunctionToolCall(
            name=TOOL, arguments=json.dumps({"path": "a.txt"}), call_id=f"c{number}", type="function_call"
        )
        return ModelResponse(output=[DONE if number == self._calls else call], usage=Usage(), response_id=None)

    def stream_response(self, *_: object, **__: object) -> AsyncIterator[Any]:
        raise NotImplementedError


class EmptyHooks(Agent[Any]):
    """An agent whose tools are copies with hooks that do nothing, as those of a guarded one have."""

    async def get_all_tools(self, run_context: RunContextWrapper[Any]) -> list[Tool]:
        return [_hooked(tool) for tool in await super().get_all_tools(run_context)]


def _hooked(tool: Tool) -> Tool:
    if not isinstance(tool, FunctionTool):
        return tool
    copied, invoke = copy.copy(tool), tool.on_invoke_tool

    async def hook(context: ToolContext[Any], arguments: str) -> object:
        return await invoke(context, arguments)

    copied.on_invoke_tool = hook
    return copied


def agent(calls: int, **marks: Any) -> Agent[Any]:  # noqa: ANN401 - the SDK's settings
    return Agent(name="writer", model=Script(calls), tools=[function_tool(write_file, **marks)])


def runs_of(built: Agent[Any]) -> Run:
    return lambda: Runner.run_sync(built, "go", max_turns=CALLS + 5)


async def run_of_calls(effort: Effort) -> list[Row]:
    with report.scratch() as folder:
        policy = Policy({TOOL: "none"})
        controller = ApprovalController(mode="auto_deny", policy=policy, store=Path(folder) / "sayso.db")
        ungated, theirs = agent(CALLS), agent(CALLS, needs_approval=lambda *_: _never())
        ours = Approvals(controller).guard(agent(CALLS))
        rows = await compare_runs(
            "OpenAI Agents",
            effort,
            ungated=runs_of(ungated),
            ours=runs_of(ours),
            empty=runs_of(EmptyHooks(name="writer", model=Script(CALLS), tools=[function_tool(write_file)])),
            theirs=runs_of(theirs),
            peer="needs_approval",
        )
        await controller.aclose()
    return rows


async def _never() -> bool:
    return False


def _store(file: Path, text: str) -> None:
    file.write_text(text)


def _load(file: Path) -> str:
    return file.read_text()


async def _stop_and_go_on_theirs(file: Path) -> None:
    stopped = await Runner.run(agent(1, needs_approval=True), "go")
    _store(file, json.dumps(stopped.to_state().to_json()))
    built = agent(0, needs_approval=True)
    state = await RunState.from_json(built, json.loads(_load(file)))
    for each in state.get_interruptions():
        state.approve(each)
    await Runner.run(built, state)


async def _stop_and_go_on_ours(controller: ApprovalController) -> None:
    stopped = await Runner.run(Approvals(controller).guard(agent(1)), "go")
    parked = await park(stopped, controller)
    for asked in (await questions(stopped, controller)).values():
        await controller.answer(asked.id, YES)
    await resume(Approvals(controller).guard(agent(0)), parked, controller=controller)


async def stop_and_go_on(effort: Effort) -> list[Row]:
    with report.scratch() as folder:
        file = Path(folder) / "state.json"
        controller = ApprovalController(mode="defer", store=Path(folder) / "sayso.db")
        rows = await compare_stops(
            "OpenAI Agents",
            effort,
            ungated=runs_of(agent(1)),
            ours=lambda: blocking.run(_stop_and_go_on_ours, controller),
            theirs=lambda: blocking.run(_stop_and_go_on_theirs, file),
            limit="the SDK's stop with its state in a file",
        )
        await controller.aclose()
    return rows


MEASUREMENTS = (run_of_calls, stop_and_go_on)
