"""Deferred tool calls and their results, and runs whose calls are answered in place."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar, cast

from pydantic_ai import Agent
from pydantic_ai.tools import DeferredToolRequests, DeferredToolResults, ToolApproved, ToolDenied

from sayso.adapters.pydantic_ai.capability import Approvals, with_approvals
from sayso.adapters.pydantic_ai.deferrals import request_ids, tool_metadata
from sayso.adapters.pydantic_ai.tool_rules import rules_of_asking_tool
from sayso.channels.callback import Callback, CallbackChannel
from sayso.core.canonical import thaw
from sayso.core.decide import Mode, parse_mode
from sayso.core.model import ApprovalDecision, ApprovalRequest, Approved, Denied, ToolCall
from sayso.core.ports import ApprovalUI
from sayso.engine import blocking, context
from sayso.engine.asking import summary_of
from sayso.engine.controller import ApprovalController
from sayso.engine.remembered import ApprovalMemory
from sayso.engine.settings import check_kind
from sayso.errors import ConfigurationError
from sayso.policy.policy import Policy

OutputT = TypeVar("OutputT")

_UNREADABLE = "INVALID_JSON"  # the key under which PydanticAI puts arguments that are not JSON


def build_approval_requests(requests: DeferredToolRequests) -> list[ApprovalRequest]:
    """Return the requests in the output of a run, in order, without asking or storing anything."""
    found: list[ApprovalRequest] = []
    for part in requests.approvals:
        metadata = tool_metadata(requests, part.tool_call_id)
        found.append(
            ApprovalRequest(
                tool_call_id=part.tool_call_id,
                tool_name=part.tool_name,
                args=part.args_as_dict(),
                metadata=metadata,
                summary=summary_of(metadata),
            )
        )
    return found


async def collect_approvals_async(
    requests: DeferredToolRequests,
    *,
    ui: ApprovalUI | Callback | None = None,
    mode: str = "interactive",
    memory: ApprovalMemory | None = None,
    controller: ApprovalController | None = None,
) -> DeferredToolResults:
    """Ask about every call that waits for approval, and return the answers to resume the run with.

    External calls (`requests.calls`) are left alone.

    Args:
        requests: the output of the run.
        ui: asks the person; an object with `choose`, or a function.
        mode: `interactive`, `auto_approve`, `auto_deny`, or sayso's own names for them.
        memory: remembered decisions, shared with others that get the same object.
        controller: that of the agent's `Approvals`, whose open requests are answered.
    """
    if controller is None:
        asker = ApprovalController(mode=mode, approval_callback=ui, memory=memory)
        answers = [await _ask_about(asker, request) for request in build_approval_requests(requests)]
        return DeferredToolResults(approvals={request.tool_call_id: answer for request, answer in answers})
    if memory is not None:
        raise ConfigurationError("the controller has its own memory; pass only one of them")
    return await _answer_open_requests(requests, controller, ui, mode)


async def _ask_about(asker: ApprovalController, request: ApprovalRequest) -> tuple[ApprovalRequest, Any]:
    if _UNREADABLE in request.args:
        return request, ToolDenied("Not executed: its arguments are no JSON, so nobody could be asked about them.")
    call = ToolCall(tool=request.tool_name, args=request.args, call_id=request.tool_call_id)
    outcome = await asker.settle(call, rules_of_asking_tool(call, request.metadata))
    if isinstance(outcome, Approved):
        override = None if outcome.decision is None else outcome.decision.override_args
        return request, True if override is None else ToolApproved(override_args=dict(thaw(override)))
    return request, _denied(outcome)


def _denied(outcome: Denied) -> ToolDenied | bool:
    if outcome.cause == "refused":
        return False if outcome.note is None else ToolDenied(outcome.note)
    return ToolDenied(outcome.message)


async def _answer_open_requests(
    requests: DeferredToolRequests, controller: ApprovalController, ui: ApprovalUI | Callback | None, mode: str
) -> DeferredToolResults:
    """Answer the open requests of a controller; the guard of the resumed run finds the answers."""
    ask = _asker(ui, parse_mode(mode))
    results = DeferredToolResults()
    for part in requests.approvals:
        rows = [await controller.store.get(each) for each in request_ids(requests, part.tool_call_id)]
        for row in rows:
            if row is not None and row.status == "open":
                await controller.answer(row.id, await ask(row))
        if any(row is not None for row in rows):  # else not asked by this controller
            results.approvals[part.tool_call_id] = True  # the guard knows whether it was a yes
    return results


def _asker(ui: ApprovalUI | Callback | None, mode: Mode) -> Callable[[ApprovalRequest], Awaitable[ApprovalDecision]]:
    """Return the function that answers an open request: by the mode, or by asking the person."""
    if ui is None and mode == "interactive":
        raise ConfigurationError("there is nobody to ask; pass ui=…")
    channel = None if ui is None or mode != "interactive" else CallbackChannel(ui, mode=mode)

    async def ask(request: ApprovalRequest) -> ApprovalDecision:
        decision = None if channel is None else await channel.announce(request)
        if decision is None:
            return ApprovalDecision(approved=mode == "approve_all", note=f"by the mode {mode}")
        return check_kind(decision, ApprovalDecision, "the answer")

    return ask


def collect_approvals_sync(
    requests: DeferredToolRequests,
    *,
    ui: ApprovalUI | Callback | None = None,
    mode: str = "interactive",
    memory: ApprovalMemory | None = None,
    controller: ApprovalController | None = None,
) -> DeferredToolResults:
    """Do what `collect_approvals_async` does, for synchronous callers."""
    return blocking.run(collect_approvals_async, requests, ui=ui, mode=mode, memory=memory, controller=controller)


async def run_with_approval_async(
    agent: Agent[Any, OutputT],
    prompt: str | Sequence[Any] | None = None,
    *,
    ui: ApprovalUI | Callback | None = None,
    mode: str = "interactive",
    memory: ApprovalMemory | None = None,
    controller: ApprovalController | None = None,
    **settings: Any,  # noqa: ANN401 - those of `Agent.run`
) -> OutputT | DeferredToolRequests:
    """Run an agent whose tools ask: wait for each answer in place, and return the agent's output.

    Without `controller`, the policy of the active controller decides; without one, a tool asks if it is marked, or if
    the agent's own guard says so. A run with an external call
    returns `DeferredToolRequests` with that call.
    """
    asker = _controller(ui, mode, memory, controller)
    given = with_approvals(agent, Approvals(asker), settings)
    # An agent with a controller of its own asks this one too; its policy only tightens.
    with context.activate_unless_nested(asker):
        return (await agent.run(cast("Any", prompt), **given)).output


def run_with_approval(
    agent: Agent[Any, OutputT],
    prompt: str | Sequence[Any] | None = None,
    *,
    ui: ApprovalUI | Callback | None = None,
    mode: str = "interactive",
    memory: ApprovalMemory | None = None,
    controller: ApprovalController | None = None,
    **settings: Any,  # noqa: ANN401 - those of `Agent.run_sync`
) -> OutputT | DeferredToolRequests:
    """Do what `run_with_approval_async` does, for synchronous callers."""
    asker = _controller(ui, mode, memory, controller)
    given = with_approvals(agent, Approvals(asker), settings)
    with context.activate_unless_nested(asker):
        return agent.run_sync(cast("Any", prompt), **given).output


def _controller(
    ui: ApprovalUI | Callback | None, mode: str, memory: ApprovalMemory | None, controller: ApprovalController | None
) -> ApprovalController:
    if controller is None:
        active = context.current_controller()
        # The tools say themselves that they ask, and the agent's own guard may add; an active policy stays in charge.
        policy = Policy(default="none") if active is None else active.policy
        return ApprovalController(mode=mode, approval_callback=ui, policy=policy, memory=memory)
    if ui is not None or memory is not None:
        raise ConfigurationError("the controller has its own callback and memory; pass it alone")
    return controller
