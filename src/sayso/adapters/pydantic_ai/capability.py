"""The capability: puts every tool of an agent, from any toolset, behind one controller."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Self, TypedDict, Unpack, cast

from pydantic_ai import Agent
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.capabilities.abstract import CapabilityOrdering
from pydantic_ai.exceptions import UserError
from pydantic_ai.tools import DeferredToolRequests, DeferredToolResults, RunContext, ToolApproved, ToolDenied
from pydantic_ai.toolsets import AbstractToolset

from sayso.adapters.pydantic_ai.calls import run_of
from sayso.adapters.pydantic_ai.message_history import messages_of
from sayso.adapters.pydantic_ai.outputs import call_output_function
from sayso.adapters.pydantic_ai.toolset import (
    AgentGuard,
    GuardedToolset,
    OnDenied,
    all_request_ids,
    read_deferral,
    waiting_mark_name,
)
from sayso.core.decide import refusal
from sayso.core.model import ApprovalDecision, ApprovalRequest, Denied, ToolCall, Verdict
from sayso.engine import context
from sayso.engine.controller import ApprovalController
from sayso.engine.settings import check_policy
from sayso.errors import ApprovalDenied, ConfigurationError
from sayso.policy.policy import Policy, ToolRules

if TYPE_CHECKING:
    from sayso.channels.callback import Callback
    from sayso.core.ports import ApprovalUI, Channel
    from sayso.engine.remembered import ApprovalMemory
    from sayso.engine.settings import StoreLike


_CANNOT_STOP = (
    "somebody has to be asked about a call, and this run can neither wait for the answer nor stop there: pass "
    "approval_callback=… or channels=[…] to `Approvals`, run the agent by `run_with_approval`, or let it stop: give it "
    "output_type=[…, DeferredToolRequests], and `park` it"
)


class CapabilitySettings(TypedDict, total=False):
    """Settings of the controller that is built for a policy; see `ApprovalController`."""

    mode: str
    approval_callback: Callback | ApprovalUI
    memory: ApprovalMemory
    store: StoreLike
    channels: list[Channel]
    session: str
    timeout: float


class Approvals(AbstractCapability[Any]):
    """Nothing that an agent calls runs without your say-so: `Agent(…, capabilities=[Approvals(controller)])`.

    Where the controller waits for people, the run waits; where it defers, the run ends with `DeferredToolRequests` and
    resumes later, perhaps in another process. All calls of one model response are asked about at once.
    """

    def __init__(
        self,
        controller: ApprovalController | Policy | None = None,
        *,
        on_denied: OnDenied = "model",
        **settings: Unpack[CapabilitySettings],
    ) -> None:
        """Use a controller, or build one from a policy and its settings.

        Args:
            controller: the controller; or a policy, for a controller of its own that is built with the other settings.
                A policy alone defers. Without either, the active controller is asked. Under another agent, the policy
                can only make that agent's policy stricter.
            on_denied: `model` tells the model why a call did not run, `raise` ends the run with an `ApprovalError`.
            **settings: those of `ApprovalController`.
        """
        if isinstance(controller, ApprovalController) and settings:
            raise ConfigurationError(f"the controller has its own {next(iter(settings))}; pass a policy instead")
        if not isinstance(controller, ApprovalController) and (controller is not None or settings):
            policy = None if controller is None else check_policy(controller, prefix="")
            made = {"mode": "interactive" if {"approval_callback", "channels", "store"} & settings.keys() else "defer"}
            controller = ApprovalController(policy=policy, **cast("Any", made | cast("dict[str, Any]", settings)))
        self._guard = AgentGuard(controller, on_denied)

    @property
    def controller(self) -> ApprovalController:
        """The controller that is asked."""
        return self._guard.controller

    @property
    def adds_a_policy(self) -> bool:
        """Whether its policy tightens those that the running code is under."""
        return self._guard.tightening != context.tightening()

    def get_ordering(self) -> CapabilityOrdering:
        """Be the innermost capability, so that no other one changes a call after its decision."""
        return CapabilityOrdering(position="innermost")

    @classmethod
    def get_serialization_name(cls) -> None:
        """Return None: a controller cannot be serialised in the specification of an agent."""
        return

    async def for_run(self, ctx: RunContext[Any]) -> Self:
        """Return a copy for one run, with the requests of that run."""
        mine = copy.copy(self)
        vars(mine).update(_guard=self._guard.for_run())
        return mine

    def get_wrapper_toolset(self, toolset: AbstractToolset[Any]) -> AbstractToolset[Any]:
        """Wrap all tools of the run in the guard."""
        return GuardedToolset(toolset, guard=self._guard)

    async def wrap_run(self, ctx: RunContext[Any], *, handler: Any) -> Any:  # noqa: ANN401 - PydanticAI's own types
        """Withdraw the open requests of a run that fails: their answers have no waiter any more."""
        waits: set[str] = set()
        try:
            result = await handler()
            if isinstance(result.output, DeferredToolRequests):
                waits.update(all_request_ids(result.output))
            return result
        finally:
            for request_id in self._guard.opened_requests:
                if request_id not in waits:
                    await self._guard.controller.adapter.withdraw_if_open(request_id)

    async def on_run_error(self, ctx: RunContext[Any], *, error: BaseException) -> Any:  # noqa: ANN401 - PydanticAI's own types
        """Say what to do where a run has to stop for an answer, and PydanticAI does not let it."""
        if isinstance(error, UserError) and self._guard.opened_requests and "DeferredToolRequests" in str(error):
            raise ConfigurationError(_CANNOT_STOP) from error
        raise error

    async def wrap_output_process(self, ctx: RunContext[Any], *, output_context: Any, output: Any, handler: Any) -> Any:  # noqa: ANN401 - PydanticAI's own types
        """Decide about a call of an output function before it is made."""
        if not output_context.has_function:
            return await handler(output)
        with context.messages_from(messages_of(ctx)):
            return await call_output_function(self._guard, ctx, output_context, output, handler)

    async def before_node_run(self, ctx: RunContext[Any], *, node: Any) -> Any:  # noqa: ANN401 - PydanticAI's own types
        """Refuse given results of calls that a person was asked about: only running them yields results."""
        results = getattr(node, "deferred_tool_results", None)
        if isinstance(results, DeferredToolResults):
            for call_id in results.calls:
                await self._reject_forged_result(ctx, call_id)
            for call_id, answer in results.approvals.items():
                if answer is False or isinstance(answer, ToolDenied):
                    await self._record_refusal(ctx, call_id, answer)
        return node

    async def _record_refusal(self, ctx: RunContext[Any], call_id: str, answer: object) -> None:
        """Answer the request with the no of the caller: a later yes must not find it open."""
        found = await self._guard.controller.adapter.find_request(run_of(ctx, call_id), call_id)
        if found is not None and found.status == "open":
            note = answer.message if isinstance(answer, ToolDenied) else None
            await self._guard.controller.answer(found.id, ApprovalDecision(approved=False, note=note, who="the host"))

    async def _reject_forged_result(self, ctx: RunContext[Any], call_id: str) -> None:
        run = run_of(ctx, call_id)
        found = await self._guard.controller.adapter.find_request(run, call_id)
        asked = found is not None and found.status != "used"  # a tool that ran may leave the rest to an external system
        key = ToolCall(tool="", call_id=call_id, run=run).key
        if asked or await self._guard.controller.store.parked(waiting_mark_name(key)) is not None:
            raise ApprovalDenied(
                "the tool" if found is None else found.tool_name,
                f"a result is given for the call {call_id!r}, about which a person was asked; approve it instead",
                cause="forged",
            )

    async def handle_deferred_tool_calls(
        self, ctx: RunContext[Any], *, requests: DeferredToolRequests
    ) -> DeferredToolResults | None:
        """Wait for the answers to all calls of one model response, unless the controller defers."""
        found = {part.tool_call_id: read_deferral(requests, part.tool_call_id) for part in requests.approvals}
        self._guard.handled_calls.update(found)
        results = DeferredToolResults(calls=await self._deny_external_calls(ctx, requests))
        for call_id, facts in found.items():
            if "denied" in facts:
                results.approvals[call_id] = ToolDenied(facts["denied"])
        if self._guard.controller.mode != "defer":
            asked = {
                call_id: facts["request"]
                for call_id, facts in found.items()
                if "request" in facts and await self._guard.controller.store.get(facts["request"]) is not None
            }
            for call_id, request in (await self._wait_for_answers(asked)).items():
                results.approvals[call_id] = self._result(request)
        return results if results.approvals or results.calls else None

    async def _deny_external_calls(self, ctx: RunContext[Any], requests: DeferredToolRequests) -> dict[str, Any]:
        """Refuse external calls that the policy does not allow: no person can be asked about them."""
        found: dict[str, Any] = {}
        for part in requests.calls:
            if part.tool_call_id in self._guard.started_calls:
                continue  # it passed the guard, and its tool leaves the rest to an external system
            try:
                call = ToolCall(tool=part.tool_name, args=part.args_as_dict(), call_id=part.tool_call_id)
                verdict = await self._guard.controller.policy.judge_async(call, self._guard.tighten(ToolRules()))
            except ValueError as error:
                verdict = Verdict(approval="blocked", reason=str(error))
            if verdict.approval != "none":
                reason = f"{verdict.reason}; a call that is made elsewhere cannot be asked about"
                found[part.tool_call_id] = Denied(cause="blocked", reason=reason).message
        return found

    async def _wait_for_answers(self, asked: Mapping[str, str]) -> dict[str, ApprovalRequest]:
        async with asyncio.TaskGroup() as group:
            waiting = {
                call_id: group.create_task(self._guard.controller.adapter.wait_or_withdraw(request_id))
                for call_id, request_id in asked.items()
            }
        self._guard.opened_requests[:] = [each for each in self._guard.opened_requests if each not in asked.values()]
        return {call_id: task.result() for call_id, task in waiting.items()}

    def _result(self, request: ApprovalRequest) -> ToolApproved | ToolDenied:
        if request.status == "approved":
            return ToolApproved()  # the guard knows the approved arguments
        refused = refusal(request)
        if self._guard.on_denied == "raise":
            raise refused.error(request.tool_name)
        return ToolDenied(refused.message)


def _brings_approvals(agent: Agent[Any, Any], settings: Mapping[str, Any]) -> bool:
    """Whether a run of this agent is certain to be guarded by an `Approvals` of its own.

    An override or another capability of the run may replace the agent's own, and a subclass may do as it likes. Only
    the last capability, the innermost, guards the arguments that the tool gets.
    """
    override = getattr(agent, "_override_root_capability", None)
    known = type(agent) is Agent and isinstance(override, ContextVar)
    if not known or cast("ContextVar[object]", override).get() is not None:
        return False
    if settings.get("capabilities") or settings.get("spec"):
        return False
    return [type(each) for each in agent.root_capability.capabilities][-1:] == [Approvals]


def with_approvals(agent: Agent[Any, Any], approvals: Approvals, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a guarded run whose output may be `DeferredToolRequests`.

    A second guard is left out only where the agent is certain to bring one, which asks the same controller (see
    `AgentGuard.controller`), and where `approvals` has no policy that its guard does not apply.
    """
    given = dict(settings)
    if approvals.adds_a_policy or not _brings_approvals(agent, settings):
        given["capabilities"] = [*settings.get("capabilities", ()), approvals]
    wanted: Any = given.get("output_type") or agent.output_type
    types: list[Any] = list(cast("Sequence[Any]", wanted)) if isinstance(wanted, list | tuple) else [wanted]
    if DeferredToolRequests not in types and not getattr(agent, "_output_validators", None):
        given["output_type"] = [*types, DeferredToolRequests]
    return given
