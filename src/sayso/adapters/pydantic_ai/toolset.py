"""Guarded toolsets: the innermost PydanticAI wrapper toolset, where every call is decided and executed."""

from __future__ import annotations

import copy
import inspect
import logging
import warnings
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self, cast

import msgspec
from pydantic_ai import __version__ as _version
from pydantic_ai.exceptions import ApprovalRequired, CallDeferred, ModelRetry, SkipToolExecution
from pydantic_ai.messages import ToolReturn
from pydantic_ai.tools import RunContext, ToolDenied
from pydantic_ai.toolsets import AbstractToolset, WrapperToolset
from pydantic_ai.toolsets.abstract import ToolsetTool

from sayso.adapters.kit import GuardedRun, OnDenied, add_feedback, call_text, has_feedback
from sayso.adapters.pydantic_ai.calls import is_beside_output, is_of_earlier_run, shape_of, to_plain, to_tool_call
from sayso.adapters.pydantic_ai.deferrals import (
    METADATA_KEY,
    deferral_metadata,
    is_nested,
    nested_run_name,
    raised_request_ids,
    waiting_mark_name,
)
from sayso.adapters.pydantic_ai.durable import as_step, check_engine, in_workflow, is_recoverable
from sayso.adapters.pydantic_ai.guard import AgentGuard
from sayso.adapters.pydantic_ai.message_history import messages_of
from sayso.adapters.pydantic_ai.tool_rules import NOT_EDITED, GuardedToolsetTool, guard_tool, rules_of_asking_tool
from sayso.core.canonical import freeze, is_same_value, thaw
from sayso.core.model import Approved, Denied, ToolCall
from sayso.engine import context
from sayso.engine.controller import ApprovalController
from sayso.errors import ApprovalPending, ConfigurationError, ToolError
from sayso.policy.policy import Policy, ToolRules

if TYPE_CHECKING:
    from sayso.channels.callback import Callback
    from sayso.core.ports import ApprovalUI
    from sayso.engine.remembered import ApprovalMemory

_LOG = logging.getLogger("sayso")
_TAKES_DENIALS = not _version.startswith(("0.", "1."))  # older versions would show a returned denial as a success
_BESIDE_OUTPUT = (
    "it stands beside the final result, and a run can stop for somebody else only before it has one; call it alone"
)


@dataclass
class GuardedToolset(WrapperToolset[Any]):
    """A wrapper toolset that authorises each call of the toolset inside."""

    guard: AgentGuard
    in_capability: bool = True  # whose hook turns a denial into a result for PydanticAI 1

    async def for_run(self, ctx: RunContext[Any]) -> Self:
        """Return the toolset for one run, behind the same guard."""
        return self._rewrap(await self.wrapped.for_run(ctx))

    async def for_run_step(self, ctx: RunContext[Any]) -> Self:
        """Return the toolset for one step of a run, behind the same guard."""
        return self._rewrap(await self.wrapped.for_run_step(ctx))

    def visit_and_replace(self, visitor: Callable[[AbstractToolset[Any]], AbstractToolset[Any]]) -> Self:
        """Return the toolset that the visitor returns, behind the same guard."""
        return self._rewrap(self.wrapped.visit_and_replace(visitor))

    def _rewrap(self, wrapped: AbstractToolset[Any]) -> Self:
        if wrapped is self.wrapped:
            return self
        other = copy.copy(self)
        other.wrapped = wrapped
        return other

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        """Return the tools that are not blocked for all arguments, each guarded."""
        check_engine()
        guard = self.guard
        tools = await self.wrapped.get_tools(ctx)
        guard.know_tools(tools)
        return {
            name: guard_tool(name, tool, self.wrapped, guard, ctx)
            for name, tool in tools.items()
            if not guard.hides(name)
        }

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> Any:  # noqa: ANN401 - what the tool returns
        """Decide about a call, and run it if it is approved."""
        if not isinstance(tool, GuardedToolsetTool):
            tool = guard_tool(name, tool, self.wrapped, self.guard, ctx)
        try:
            return await self._call(name, _materialize_iterators(tool_args), ctx, tool.for_call(ctx))
        except ApprovalRequired as raised:
            if not is_beside_output(ctx) or METADATA_KEY not in (raised.metadata or {}):
                raise
            # PydanticAI would end the run with the output, and drop the deferred call without a word.
            for request_id in raised_request_ids(raised):
                await self.guard.controller.adapter.withdraw_if_open(request_id, _BESIDE_OUTPUT)
            refused = Denied(cause="blocked", reason=_BESIDE_OUTPUT)
            return self._denied_result(name, refused, ctx)

    async def _call(self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: GuardedToolsetTool) -> Any:  # noqa: ANN401 - what the tool returns
        controller = self.guard.controller
        if tool.is_external and is_beside_output(ctx):  # nobody is asked about what PydanticAI would drop
            return self._denied_result(name, Denied(cause="blocked", reason=_BESIDE_OUTPUT), ctx)
        call = await self._identify(name, tool_args, ctx, tool)
        if isinstance(call, Denied):
            return self._denied_result(name, call, ctx)
        rules = self.guard.tighten(tool.rules)

        async def run() -> Any:  # noqa: ANN401 - what the tool returns
            return await self._decide_and_run(call, rules, tool_args, ctx, tool)

        may_ask = in_workflow() and (ctx.tool_call_approved or controller.adapter.may_ask(call, rules))
        return await (self._as_step(call, run, ctx) if may_ask else run())

    async def _as_step(self, call: ToolCall, run: Callable[[], Awaitable[Any]], ctx: RunContext[Any]) -> Any:  # noqa: ANN401 - what the tool returns
        """Run a call as one step if this is a durable workflow; note of a replayed one what its run has noted."""
        state = self.guard.state(ctx)
        try:
            result = await as_step(self.guard.controller, call, run)
        except ApprovalRequired as raised:
            state.opened_requests += raised_request_ids(raised)
            if is_nested(raised) or METADATA_KEY not in (raised.metadata or {}):
                state.started_calls.add(call.key)
            raise
        except (CallDeferred, ModelRetry):
            state.started_calls.add(call.key)
            raise
        if isinstance(result, Denied):
            return self._denied_result(call.tool, result, ctx)
        if not isinstance(result, ToolDenied):
            state.started_calls.add(call.key)
        return result

    async def _decide_and_run(
        self,
        call: ToolCall,
        rules: ToolRules,
        tool_args: dict[str, Any],
        ctx: RunContext[Any],
        tool: GuardedToolsetTool,
    ) -> Any:  # noqa: ANN401 - what the tool returns
        controller, name = self.guard.controller, call.tool
        if context.current_call() is not None and await self.guard.is_approved_outside(call, rules):
            return await self.wrapped.call_tool(name, tool_args, ctx, tool.source)
        # Of an agent that was suspended inside this call.
        state = await controller.store.parked(nested_run_name(call)) if self._is_resumed(ctx) else None
        if ctx.tool_call_approved and state is None:
            # Somebody wanted an approval, so a default does not allow the call; only a rule that names it does.
            rules = msgspec.structs.replace(rules, marked=True)
        # Enough for nearly all calls.
        outcome = None if ctx.tool_call_approved else self.guard.decide_fast(call, rules)
        if outcome is None:
            shape = shape_of(tool_args)
            outcome = deny_if_changed(await self._decide(call, rules, ctx, state=state), call, tool_args, shape)
        if isinstance(outcome, Denied):
            return self._denied_result(name, outcome, ctx)
        try:
            # Only sayso knows what was approved: a flag that came with the run may be forged.
            approved = outcome.by != "policy"
            return await self._execute(call, outcome, tool_args, ctx, tool, approved=approved, state=state)
        except ApprovalRequired as raised:
            if outcome.by != "policy" or is_nested(raised):
                raise  # it is approved and asks again, or an agent inside it asks about another call
            asking = self.guard.tighten(rules_of_asking_tool(call, raised.metadata))

        async def run() -> Any:  # noqa: ANN401 - what the tool returns
            shape = shape_of(tool_args)
            outcome = deny_if_changed(await self._review(call, asking, ctx, asked=False), call, tool_args, shape)
            if isinstance(outcome, Denied):
                return self._denied_result(name, outcome, ctx)
            return await self._execute(call, outcome, tool_args, ctx, tool, approved=True)

        return await self._as_step(call, run, ctx)

    async def _identify(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: GuardedToolsetTool
    ) -> ToolCall | Denied:
        """Return the call with its run, which a history from a browser has lost; or why that is impossible."""
        controller = self.guard.controller
        try:
            call = to_tool_call(name, tool_args, ctx, tool.schema_hash, context.current_session() or controller.session)
            if not self._is_resumed(ctx):
                return call
            call.digest()  # what cannot be bound to an approval was never asked about
        except ValueError as error:
            return Denied(cause="blocked", reason=f"its arguments cannot be shown: {error}")
        return call if call.run else await controller.adapter.restore_run(call)

    def _is_resumed(self, ctx: RunContext[Any]) -> bool:
        """Whether the approval came with the run, so that the store must know of it."""
        if not ctx.tool_call_approved:
            return False
        return ctx.tool_call_id in self.guard.state(ctx).resumed_calls or is_of_earlier_run(ctx)

    async def _decide(
        self, call: ToolCall, rules: ToolRules, ctx: RunContext[Any], *, state: bytes | None
    ) -> Approved | Denied:
        """Decide about a call; raise `ApprovalRequired` where the run has to stop for the answer."""
        if state is not None:
            return await self._resume_suspended(call, rules)
        granted = self.guard.state(ctx).take_grant(call) if ctx.tool_call_approved else None
        asked = self._is_resumed(ctx)
        if ctx.tool_call_approved and not asked and granted is None:
            granted = self.guard.decide_fast(call, rules)
        return await self._review(call, rules, ctx, asked=asked) if granted is None else granted

    async def _resume_suspended(self, call: ToolCall, rules: ToolRules) -> Approved | Denied:
        controller = self.guard.controller
        outcome = await controller.adapter.resume_suspended(call, rules)
        if isinstance(outcome, Approved) and await controller.store.unpark(nested_run_name(call)) is None:
            return Denied(cause="replayed", reason="somebody else goes on with it at the same moment")
        await controller.store.unpark(waiting_mark_name(call.key))
        return outcome

    async def _review(
        self, call: ToolCall, rules: ToolRules, ctx: RunContext[Any], *, asked: bool
    ) -> Approved | Denied:
        """Wait for the answer in place, so that PydanticAI sees one call; in the mode `defer`, stop there."""
        try:
            with context.messages_from(messages_of(ctx)):
                return await self.guard.controller.adapter.settle(call, rules, asked=asked, keep=is_recoverable())
        except ApprovalPending as pending:
            self.guard.state(ctx).opened_requests.append(pending.request.id)
            raise ApprovalRequired(metadata=deferral_metadata(pending.request)) from None

    async def _execute(
        self,
        call: ToolCall,
        outcome: Approved,
        args: dict[str, Any],
        ctx: RunContext[Any],
        tool: GuardedToolsetTool,
        *,
        approved: bool,
        state: bytes | None = None,
    ) -> Any:  # noqa: ANN401 - what the tool returns
        if approved is not ctx.tool_call_approved:
            ctx = replace(ctx, tool_call_approved=approved)
        if outcome.decision is not None and outcome.decision.override_args is not None:
            args = tool.args_validator.validate_python(thaw(outcome.args), context=ctx.validation_context)
            call = msgspec.structs.replace(call, args={name: to_plain(value) for name, value in args.items()})
            problem = await self._problem(call, args, ctx, tool)
            if problem is not None:
                return self._denied_result(call.tool, Denied(cause="blocked", reason=problem), ctx)
            outcome = msgspec.structs.replace(outcome, args=call.args)
        self.guard.state(ctx).started_calls.add(call.key)
        if tool.is_external:
            with self.guard.controller.adapter.execution(call, outcome) as handing_over:
                handing_over.result = "given to another program"
            raise CallDeferred
        # A marked function would ask again under its own name, unless the call is pre-approved here.
        may_ask = approved or tool.rules.marked or tool.marked_as is not None
        running = GuardedRun(
            self.guard,
            call,
            outcome,
            marked_as=(tool.marked_as or call.tool) if may_ask else None,
            passed=args,
            state=state,
            messages=messages_of(ctx),  # also for what the tool itself asks about
        )
        return _tell(await self._call_inside(running, call, args, ctx, tool), call, outcome)

    async def _call_inside(
        self, running: GuardedRun, call: ToolCall, args: dict[str, Any], ctx: RunContext[Any], tool: GuardedToolsetTool
    ) -> Any:  # noqa: ANN401 - what the tool returns
        """Call the tool; if an agent inside it has to ask, the call is suspended."""
        try:
            with running:
                try:
                    running.result = await self.wrapped.call_tool(call.tool, args, ctx, tool.source)
                except ApprovalRequired as raised:
                    if is_nested(raised):
                        running.suspend()
                        await self._note_suspended(call, raised, ctx)
                    raise
        except ToolError as error:  # the model can read it; it does not end the run
            return f"{call.tool} failed: {error}"
        return running.result

    async def _note_suspended(self, call: ToolCall, raised: ApprovalRequired, ctx: RunContext[Any]) -> None:
        self.guard.state(ctx).opened_requests += raised_request_ids(raised)
        if is_beside_output(ctx):  # it will not be resumed
            for name in (nested_run_name(call), waiting_mark_name(call.key)):
                await self.guard.controller.store.unpark(name)

    async def _problem(
        self, call: ToolCall, args: dict[str, Any], ctx: RunContext[Any], tool: GuardedToolsetTool
    ) -> str | None:
        """Return why edited arguments, as the tool would get them, must not run, or None."""
        if tool.is_external:
            return NOT_EDITED
        verdict = await self.guard.controller.policy.judge_async(call, self.guard.tighten(tool.rules))
        if verdict.approval == "blocked":
            return f"the edited arguments cannot run: {verdict.reason}"
        return await _validator_problem(args, ctx, tool)

    def _denied_result(self, name: str, outcome: Denied, ctx: RunContext[Any]) -> Any:  # noqa: ANN401 - in the result's place
        if self.guard.on_denied == "raise" and outcome.cause != "failed":
            raise outcome.error(name)
        if _TAKES_DENIALS and self.in_capability:
            raise SkipToolExecution(ToolDenied(outcome.message))  # hooks after the tool do not take it for a result
        if _TAKES_DENIALS:
            return ToolDenied(outcome.message)
        handled = self.guard.state(ctx).handled_calls
        if not self.in_capability or ctx.tool_call_id in handled or is_beside_output(ctx):
            return outcome.message  # the best that is possible: PydanticAI 1 calls its capabilities only once
        handled.add(ctx.tool_call_id or "")
        raise ApprovalRequired(metadata={METADATA_KEY: {"denied": outcome.message}})


def _tell(result: Any, call: ToolCall, outcome: Approved) -> Any:  # noqa: ANN401 - what the tool returns
    """Return the result with what a person has edited and noted: in its text, else beside it."""
    if not has_feedback(outcome):
        return result
    ran = call_text(call.tool, outcome.args)
    if isinstance(result, str):
        return add_feedback(result, outcome, ran)
    words = add_feedback("above", outcome, ran)
    if not isinstance(result, ToolReturn):
        return ToolReturn(return_value=result, content=words)
    shown = cast("ToolReturn[Any]", result)
    said = [shown.content] if isinstance(shown.content, str) else [*(shown.content or ())]
    return replace(shown, content=[*said, words])


def _materialize_iterators(args: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments with iterators as lists: showing them must not consume them."""
    passing = {name: list(cast("Iterator[Any]", each)) for name, each in args.items() if isinstance(each, Iterator)}
    return {**args, **passing} if passing else args


def deny_if_changed(
    outcome: Approved | Denied, call: ToolCall, args: Mapping[str, Any], shape: object
) -> Approved | Denied:
    """Refuse a call whose arguments, which are mutable objects, were changed during the decision; `shape` is before."""
    if isinstance(outcome, Denied):
        return outcome
    try:
        now = freeze({name: to_plain(value) for name, value in args.items()})
        if shape_of(args) == shape and is_same_value(now, call.args):
            return outcome
    except ValueError:  # it cannot even be shown now
        pass
    reason = "its arguments were changed while it was decided about"
    return Denied(cause="changed", reason=reason, request_id=outcome.request_id)


async def _validator_problem(args: dict[str, Any], ctx: RunContext[Any], tool: GuardedToolsetTool) -> str | None:
    """Return the objection of the tool's own validator to edited arguments, or None."""
    if tool.args_validator_func is None:
        return None
    try:
        answer = tool.args_validator_func(ctx, **args)
        if inspect.isawaitable(answer):
            await answer
    except Exception as error:  # noqa: BLE001 - a validator is the host's code, and refuses by raising
        return f"the edited arguments do not fit the tool: {error}"
    return None


class ApprovalToolset(GuardedToolset):
    """One toolset behind a controller of its own; a call waits in place for its answer.

    Precedence of the rules: `tool_configs`, the toolset's own `needs_approval` or `check_approval`,
    `@requires_approval` on a function or PydanticAI's own mark; a tool about which none of them says anything runs,
    unless `controller` has a policy that says otherwise. The inner toolset is `wrapped`; its attributes are not
    forwarded, so that none of them bypasses the guard by accident.
    """

    def __init__(
        self,
        inner: AbstractToolset[Any],
        approval_callback: Callback | ApprovalUI | None = None,
        memory: ApprovalMemory | None = None,
        pre_approved: Iterable[str] | None = None,
        tool_configs: Mapping[str, Mapping[str, Any] | str] | None = None,
        *,
        prompt_fn: Callback | ApprovalUI | None = None,
        controller: ApprovalController | None = None,
        on_denied: OnDenied = "raise",
    ) -> None:
        """Wrap a toolset.

        Args:
            inner: the toolset.
            approval_callback: asked about each request; `prompt_fn` is its deprecated name.
            memory: remembered decisions, shared with others that get the same object.
            pre_approved: deprecated; tools that run unasked.
            tool_configs: per tool, the approval of its calls, as in `Policy(tools=…)`.
            prompt_fn: the same as `approval_callback`.
            controller: asks instead of a new one; it brings its own policy and memory.
            on_denied: `raise` raises a `PermissionError` with the note, `model` reports to the model.
        """
        if approval_callback is not None and prompt_fn is not None:
            raise ConfigurationError("approval_callback and prompt_fn are two names for one thing; pass one of them")
        if prompt_fn is not None:
            warnings.warn("prompt_fn is deprecated; use approval_callback", DeprecationWarning, stacklevel=2)
        asked = approval_callback if prompt_fn is None else prompt_fn
        asks_nothing = controller is None and not tool_configs and not pre_approved
        if controller is None:
            policy = Policy(default="none", tool_configs=tool_configs, pre_approved=pre_approved)
            controller = ApprovalController(approval_callback=asked, policy=policy, memory=memory)
        elif any(each is not None for each in (asked, memory, pre_approved, tool_configs)):
            raise ConfigurationError("the controller has its own callback, memory and policy; pass it alone")
        self._warns = asks_nothing
        super().__init__(wrapped=inner, guard=AgentGuard(controller, on_denied), in_capability=False)

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        """Return the tools, each guarded; warn once if none of them would ask, whatever its arguments."""
        tools = await super().get_tools(ctx)
        rules = [each.rules for each in tools.values() if isinstance(each, GuardedToolsetTool)]
        if self._warns and rules and not any(each.marked or each.judge for each in rules):
            _LOG.warning(
                "this ApprovalToolset asks about nothing by itself: it has no tool_configs, and its tools (%s) have no "
                "rule or mark of their own; pass tool_configs={…}, or a controller with a policy",
                ", ".join(sorted(tools)),
            )
            self._warns = False
        return tools
