"""The capability: puts every tool of an agent, from any toolset, behind one controller."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack, cast

import msgspec
from pydantic_ai import Agent, UserPromptNode
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.capabilities.abstract import CapabilityOrdering
from pydantic_ai.exceptions import ApprovalRequired, UserError
from pydantic_ai.messages import ToolCallPart
from pydantic_ai.tools import DeferredToolRequests, DeferredToolResults, RunContext, ToolApproved, ToolDenied
from pydantic_ai.toolsets import AbstractToolset

from sayso.adapters.kit import ControllerSettings, OnDenied, WebUser, build_controller
from sayso.adapters.pydantic_ai.browser_answers import accept_answers
from sayso.adapters.pydantic_ai.calls import call_key, run_of, to_tool_call
from sayso.adapters.pydantic_ai.deferrals import (
    all_request_ids,
    deferral_metadata,
    facts_request_ids,
    raised_request_ids,
    read_deferral,
    tool_metadata,
    waiting_mark_name,
)
from sayso.adapters.pydantic_ai.durable import as_step, in_workflow, is_recoverable
from sayso.adapters.pydantic_ai.guard import AgentGuard, SessionOf
from sayso.adapters.pydantic_ai.message_history import messages_of
from sayso.adapters.pydantic_ai.outputs import call_output_function, report_lost_calls
from sayso.adapters.pydantic_ai.tool_rules import guarded_tool, rules_of_asking_tool, validated_args
from sayso.adapters.pydantic_ai.toolset import GuardedToolset
from sayso.core.model import ApprovalDecision, Approved, Denied, ToolCall
from sayso.engine import context
from sayso.engine.controller import ApprovalController
from sayso.errors import ApprovalDenied, ApprovalPending, ConfigurationError
from sayso.policy.policy import Policy, ToolRules

if TYPE_CHECKING:
    pass


_CANNOT_STOP = (
    "somebody has to be asked about a call, and this run can neither wait for the answer nor stop there: pass "
    "approval_callback=… or channels=[…] to `Approvals`, run the agent by `run_with_approval`, or let it stop: give it "
    "output_type=[…, DeferredToolRequests], and `park` it"
)
_HAS_ASKED = "_sayso_has_asked"


class Approvals(AbstractCapability[Any]):
    """Nothing that an agent calls runs without your say-so: `Agent(…, capabilities=[Approvals(controller)])`.

    Where the controller waits for people, each call waits in place; where it defers, the run ends with
    `DeferredToolRequests` and resumes later, perhaps in another process. All calls of one model response are asked
    about at once.
    """

    def __init__(
        self,
        controller: ApprovalController | Policy | None = None,
        *,
        on_denied: OnDenied = "model",
        session_of: SessionOf | None = None,
        answered_by: Callable[[RunContext[Any]], WebUser | None] | None = None,
        **settings: Unpack[ControllerSettings],
    ) -> None:
        """Use a controller, or build one from a policy and its settings.

        Args:
            controller: the controller; or a policy, for a controller of its own that is built with the other settings.
                A policy alone defers. Without either, the active controller is asked. Under another agent, the policy
                can only make that agent's policy stricter.
            on_denied: `model` tells the model why a call did not run, `raise` ends the run with an `ApprovalError`.
            session_of: returns the session of a run from its context, such as its user and chat; left out, the session
                of the controller or, if that has none and the mode is `defer`, PydanticAI's conversation id.
            answered_by: returns the person, whom the host has authenticated, whose answers a run comes with; where the
                history is a browser's, which has lost its run, they are given to the controller as by `accept_answers`.
                Left out, or None: such answers do not count.
            **settings: those of `ApprovalController`.
        """
        if answered_by is not None and not callable(answered_by):
            raise ConfigurationError(f"answered_by is {answered_by!r}; pass a function of PydanticAI's run context")
        self._guard = AgentGuard(build_controller(controller, settings), on_denied, session_of)
        self._answered_by = answered_by

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

    def get_wrapper_toolset(self, toolset: AbstractToolset[Any]) -> AbstractToolset[Any]:
        """Wrap all tools of the run in the guard."""
        return GuardedToolset(toolset, guard=self._guard)

    async def wrap_run(self, ctx: RunContext[Any], *, handler: Any) -> Any:  # noqa: ANN401 - PydanticAI's own types
        """Withdraw the open requests of a run that fails: their answers have no waiter any more."""
        waits: set[str] = set()
        with self._guard.running(ctx) as run:
            try:
                result = await handler()
            except asyncio.CancelledError:
                if is_recoverable():
                    waits.update(run.opened_requests)  # another process goes on from here
                raise
            except UserError as error:
                vars(error)[_HAS_ASKED] = bool(run.opened_requests)  # PydanticAI 1 calls `on_run_error` after this
                raise
            else:
                if isinstance(result.output, DeferredToolRequests):
                    result.output.metadata.update(run.deferrals)
                    waits.update(all_request_ids(result.output))
                else:
                    report_lost_calls(ctx, result.all_messages())
                return result
            finally:
                for request_id in run.opened_requests:
                    if request_id not in waits:
                        await self._guard.controller.adapter.withdraw_if_open(request_id)

    async def on_run_error(self, ctx: RunContext[Any], *, error: BaseException) -> Any:  # noqa: ANN401 - PydanticAI's own types
        """Say what to do where a run has to stop for an answer, and PydanticAI does not let it."""
        asked = self._guard.state(ctx).opened_requests or vars(error).get(_HAS_ASKED)
        if asked and isinstance(error, UserError) and "DeferredToolRequests" in str(error):
            raise ConfigurationError(_CANNOT_STOP) from error
        raise error

    async def wrap_output_process(self, ctx: RunContext[Any], *, output_context: Any, output: Any, handler: Any) -> Any:  # noqa: ANN401 - PydanticAI's own types
        """Decide about a call of an output function before it is made."""
        if not output_context.has_function:
            return await handler(output)
        with context.messages_from(messages_of(ctx)):
            return await call_output_function(self._guard, ctx, output_context, output, handler)

    async def before_node_run(self, ctx: RunContext[Any], *, node: Any) -> Any:  # noqa: ANN401 - PydanticAI's own types
        """Take the answers that the run comes with, and refuse results of calls that a person was asked about."""
        if isinstance(node, UserPromptNode):
            node = await self._accept_answers(ctx, cast("UserPromptNode[Any, Any]", node))
        results = getattr(node, "deferred_tool_results", None)
        if isinstance(results, DeferredToolResults):
            self._guard.state(ctx).resumed_calls.update(results.approvals)
            for call_id in results.calls:
                await self._reject_forged_result(ctx, call_id)
            for call_id, answer in results.approvals.items():
                if answer is False or isinstance(answer, ToolDenied):
                    await self._record_refusal(ctx, call_id, answer)
        return node

    async def _accept_answers(self, ctx: RunContext[Any], node: UserPromptNode[Any, Any]) -> UserPromptNode[Any, Any]:
        person = None if self._answered_by is None else self._answered_by(ctx)
        if person is not None and not isinstance(person, WebUser):  # pyright: ignore[reportUnnecessaryIsInstance] - the host's code
            raise ConfigurationError(f"answered_by returned {person!r}; return a WebUser, or None")
        given = node.deferred_tool_results
        if person is None or (given is not None and any(run_of(ctx, call_id) for call_id in given.approvals)):
            return node  # in a history of the host's own, True is no answer: it only says that the store has one
        controller = self._guard.controller
        results = await accept_answers(
            given,
            [message for message in ctx.messages if not message.run_id],
            controller=controller,
            session=context.current_session() or controller.session,
            who=person.who,
            roles=person.roles,
        )
        return replace(node, deferred_tool_results=results)

    async def _record_refusal(self, ctx: RunContext[Any], call_id: str, answer: object) -> None:
        """Answer the request with the no of the caller: a later yes must not find it open."""
        found = await self._guard.controller.adapter.find_requests(run_of(ctx, call_id), call_id)
        if len(found) != 1:
            return  # it is not certain which call is meant
        await self._guard.controller.adapter.void(found[0])
        if found[0].status == "open":
            note = answer.message if isinstance(answer, ToolDenied) else None
            no = ApprovalDecision(approved=False, note=note, who="the host")
            await self._guard.controller.answer(found[0].id, no)

    async def _reject_forged_result(self, ctx: RunContext[Any], call_id: str) -> None:
        found = await self._guard.controller.adapter.find_requests(run_of(ctx, call_id), call_id)
        asked = [each for each in found if each.status != "used"]  # a tool may leave the rest to an external system
        mark = waiting_mark_name(call_key(ctx, call_id))
        if asked or await self._guard.controller.store.parked(mark) is not None:
            raise ApprovalDenied(
                found[0].tool_name if found else "the tool",
                f"a result is given for the call {call_id!r}, about which a person was asked; approve it instead",
                cause="forged",
            )

    async def handle_deferred_tool_calls(
        self, ctx: RunContext[Any], *, requests: DeferredToolRequests
    ) -> DeferredToolResults | None:
        """Ask about the calls for which other code wants an approval, all at once; deny what the guard has denied."""
        results = DeferredToolResults(calls=await self._deny_external_calls(ctx, requests))
        facts = {part.tool_call_id: read_deferral(requests, part.tool_call_id) for part in requests.approvals}
        self._guard.state(ctx).handled_calls.update(facts)
        try:
            async with asyncio.TaskGroup() as group:
                asked = {
                    part.tool_call_id: group.create_task(self._ask_for_others(ctx, requests, part))
                    for part in requests.approvals
                    if not self._is_known(ctx, facts[part.tool_call_id])
                }
        except BaseExceptionGroup as several:
            raise several.exceptions[0] from None
        results.approvals.update(
            {call_id: ToolDenied(each["denied"]) for call_id, each in facts.items() if "denied" in each}
        )
        for call_id, task in asked.items():
            outcome = task.result()
            if isinstance(outcome, Denied) and self._guard.on_denied == "raise":
                raise outcome.error(next(part.tool_name for part in requests.approvals if part.tool_call_id == call_id))
            if outcome is not None:
                approved = isinstance(outcome, Approved)
                results.approvals[call_id] = ToolApproved() if approved else ToolDenied(outcome.message)
        return results if results.approvals or results.calls else None

    def _is_known(self, ctx: RunContext[Any], facts: Mapping[str, Any]) -> bool:
        """Whether the guard itself has deferred the call, or somebody has denied it; a hook can make up metadata."""
        opened = self._guard.state(ctx).opened_requests
        return "denied" in facts or any(each in opened for each in facts_request_ids(facts))

    async def _ask_for_others(
        self, ctx: RunContext[Any], requests: DeferredToolRequests, part: ToolCallPart
    ) -> Approved | Denied | None:
        """Ask about a call that a validator, a hook or another capability does not let pass without an approval.

        A yes is claimed here, before any of them hears of it, and kept for the guard; None if the run stops for it. A
        durable workflow leaves the claim to the step of the call: what is kept here does not survive a recovery.
        """
        run, controller = self._guard.state(ctx), self._guard.controller
        tool = guarded_tool(ctx, part.tool_name)
        if tool is None:
            return Denied(cause="blocked", reason="an approval is wanted for a tool that the guard does not see")
        mine = replace(ctx, tool_call_id=part.tool_call_id, tool_name=part.tool_name)
        try:
            args = validated_args(tool, part, ctx)
            session = context.current_session() or controller.session
            call = to_tool_call(tool.source.tool_def.name, args, mine, tool.schema_hash, session)
        except ValueError as error:
            return Denied(cause="blocked", reason=f"its arguments cannot be shown: {error}")
        if call.key in run.started_calls:
            return Denied(
                cause="replayed",
                reason="it has run already, and an approval that is wanted afterwards does not run it again",
            )
        asking = rules_of_asking_tool(call, tool_metadata(requests, part.tool_call_id))
        rules = self._guard.tighten(
            msgspec.structs.replace(tool.for_call(mine).rules, marked=True, details=asking.details)
        )
        if in_workflow():
            return await self._hear(mine, call, rules)
        outcome = controller.adapter.decide_fast(call, rules)
        try:
            if outcome is None:
                with context.messages_from(messages_of(mine)):
                    outcome = await controller.adapter.settle(call, rules)
        except ApprovalPending as pending:
            run.note_deferral(call.call_id, pending.request.id, deferral_metadata(pending.request))
            return None
        if isinstance(outcome, Approved):
            run.grants[call.call_id] = (call, outcome)
        return outcome

    async def _hear(self, ctx: RunContext[Any], call: ToolCall, rules: ToolRules) -> Approved | Denied | None:
        """Wait for the answer to a call as a step of a durable workflow, and leave a yes to the step of the call."""
        controller = self._guard.controller

        async def hear() -> Denied | None:
            try:
                with context.messages_from(messages_of(ctx)):
                    return await controller.adapter.hear(call, rules)
            except ApprovalPending as pending:
                raise ApprovalRequired(metadata=deferral_metadata(pending.request)) from None

        try:
            refused = await as_step(controller, call, hear)
        except ApprovalRequired as raised:
            (request_id,) = raised_request_ids(raised)
            self._guard.state(ctx).note_deferral(call.call_id, request_id, raised.metadata or {})
            return None
        return Approved(args=call.args, by="answer", reason="approved") if refused is None else refused

    async def _deny_external_calls(self, ctx: RunContext[Any], requests: DeferredToolRequests) -> dict[str, Any]:
        """Refuse external calls that the policy does not allow, of tools that the guard does not see."""
        found: dict[str, Any] = {}
        for part in requests.calls:
            if guarded_tool(ctx, part.tool_name) is None and not self._guard.allows(part.tool_name, ToolRules()):
                reason = "another program would run it, and the guard does not see this tool"
                found[part.tool_call_id] = Denied(cause="blocked", reason=reason).message
        return found


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
