"""P2, P4, P6: overhead of the PydanticAI adapter per call, per run, and when a run is parked and resumed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter
from pydantic_ai import Agent
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.tools import DeferredToolRequests

from benchmarks import peers, report
from benchmarks.rows import Row, at_most, compare, row
from benchmarks.timing import Effort, interleave, minus, repeat_async
from sayso import ApprovalController, ApprovalDecision, Policy
from sayso.adapters.pydantic_ai import Approvals, park, resume
from sayso.adapters.pydantic_ai.guard import AgentGuard
from sayso.adapters.pydantic_ai.toolset import GuardedToolset

ARGS: dict[str, Any] = {"path": "notes/today.txt", "content": "forty characters of text, more or less .."}
RULES = 1_000
CALLS = 20
YES = ApprovalDecision(approved=True)
_REQUESTS = TypeAdapter(DeferredToolRequests)


async def write_file(path: str, content: str) -> str:  # noqa: ARG001 - a minimal tool
    return "written"


def _controller(word: str, **settings: Any) -> ApprovalController:  # noqa: ANN401 - those of the controller
    rules = {f"other_{number}": "none" for number in range(RULES - 1)}
    return ApprovalController(policy=Policy({**rules, "write_file": word}), mode="defer", **settings)


async def per_call(effort: Effort) -> list[Row]:
    """P2: one call of a tool that the policy lets run, with the audit queued."""
    controller = _controller("none")
    plain = peers.toolset(write_file)
    guarded = GuardedToolset(plain, guard=AgentGuard(controller, "model"))
    seconds = await interleave(
        {
            "ungated": repeat_async(await peers.plain(write_file, ARGS)),
            "ours": repeat_async(await peers.call(guarded, write_file, ARGS), then=controller.store.audit_ends),
            "required": repeat_async(await peers.call(plain.approval_required(lambda *_: False), write_file, ARGS)),
            "peer": repeat_async(await peers.pre_approved(write_file, ARGS, RULES - 1)),
        },
        effort,
    )
    ours, theirs, peer = (minus(seconds[name], seconds["ungated"]) for name in ("ours", "required", "peer"))
    return [
        row(
            "P2",
            "added; limit: ApprovalRequired",
            ours,
            limit=compare(ours, theirs, at_most(3)),
            peer=compare(ours, peer),
        )
    ]


def _model(calls: int) -> FunctionModel:
    def respond(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
        if any(part.part_kind == "tool-return" for part in messages[-1].parts):
            return ModelResponse(parts=[TextPart("done")])
        return ModelResponse(parts=[ToolCallPart("write_file", ARGS) for _ in range(calls)])

    return FunctionModel(respond)


def _run_agent(agent: Agent[None, Any]) -> Callable[[], Awaitable[object]]:
    return lambda: agent.run("go")


class Nothing(AbstractCapability[Any]):
    """Capability without behaviour: the overhead of PydanticAI itself."""


async def per_run(effort: Effort) -> list[Row]:
    """P4: a whole run of twenty calls in one turn, with a model that answers at once."""
    controller = _controller("none")
    ungated: Agent[None, Any] = Agent(_model(CALLS), tools=[write_file])
    empty: Agent[None, Any] = Agent(_model(CALLS), tools=[write_file], capabilities=[Nothing()])
    gated: Agent[None, Any] = Agent(_model(CALLS), tools=[write_file], capabilities=[Approvals(controller)])
    seconds = await interleave(
        {
            "ungated": repeat_async(_run_agent(ungated)),
            "empty": repeat_async(_run_agent(empty)),
            "gated": repeat_async(_run_agent(gated), then=controller.store.audit_ends),
        },
        effort,
    )
    return [
        row(
            "P4",
            f"{CALLS} calls; peer: empty capability",
            seconds["gated"],
            limit=compare(seconds["gated"], seconds["ungated"], at_most(1.03)),
            peer=compare(seconds["gated"], seconds["empty"]),
        )
    ]


def _history(length: int) -> list[ModelMessage]:
    pair: list[ModelMessage] = [
        ModelRequest(parts=[UserPromptPart("x" * 200)]),
        ModelResponse(parts=[TextPart("y" * 200)]),
    ]
    return pair * (length // 2)


async def _parked(agent: Agent[None, Any], controller: ApprovalController, history: list[ModelMessage]) -> None:
    name = await park(await agent.run("go", message_history=history), controller)
    for request in await controller.pending():
        await controller.answer(request.id, YES)
    await resume(agent, name, controller=controller)


def _written(data: bytes, file: Path) -> bytes:
    file.write_bytes(data)
    return file.read_bytes()


async def _through_json(agent: Agent[None, Any], history: list[ModelMessage], file: Path) -> None:
    """Park and resume with the bare library: write history and requests to a file, and read them back; no fsync."""
    stopped = await agent.run("go", message_history=history)
    requests = _REQUESTS.validate_json(_REQUESTS.dump_json(stopped.output))
    await agent.run(
        message_history=ModelMessagesTypeAdapter.validate_json(_written(stopped.all_messages_json(), file)),
        deferred_tool_results=requests.build_results(approve_all=True),
    )


async def park_and_resume(effort: Effort) -> list[Row]:
    """P6: overhead of stopping, parking durably and resuming a run of one call."""
    return [await _park_after(length, effort) for length in (2, 100)]


async def _park_after(length: int, effort: Effort) -> Row:
    past, outputs = _history(length), [str, DeferredToolRequests]
    ungated: Agent[None, Any] = Agent(_model(1), tools=[write_file])
    bare: Agent[None, Any] = Agent(_model(1), output_type=outputs)
    bare.tool_plain(requires_approval=True)(write_file)
    with report.scratch() as folder:
        controller = _controller("required", store=Path(folder) / "parked.db")
        gated: Agent[None, Any] = Agent(
            _model(1), tools=[write_file], capabilities=[Approvals(controller)], output_type=outputs
        )
        seconds = await interleave(
            {
                "ungated": repeat_async(lambda: ungated.run("go", message_history=past)),
                "ours": repeat_async(lambda: _parked(gated, controller, past)),
                "peer": repeat_async(lambda: _through_json(bare, past, Path(folder) / "history.json")),
            },
            effort,
        )
        await controller.aclose()
    ours, theirs = (minus(seconds[name], seconds["ungated"]) for name in ("ours", "peer"))
    what = f"park, resume, {length} messages; peer: JSON"
    return row("P6", what, ours, peer=compare(ours, theirs, at_most(1 / 2)))


MEASUREMENTS = (per_call, per_run, park_and_resume)
