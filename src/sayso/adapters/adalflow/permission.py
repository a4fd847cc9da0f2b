"""The permission manager: AdalFlow's runner asks it about every tool, and it asks the one controller."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import Callable, Generator, Iterable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack, cast

import msgspec

from sayso.adapters.adalflow.answers import Callback, PermissionRequest, decision_of, request_of
from sayso.adapters.adalflow.function_tools import Asked, GuardedTool, asked_about
from sayso.adapters.adalflow.library import (
    Function,
    FunctionRequest,
    FunctionTool,
    Shipped,
    ToolCallPermissionRequest,
    ToolManager,
    ToolOutput,
)
from sayso.core.callables import is_async
from sayso.core.model import ApprovalDecision, ApprovalRequest, Approved, Denied, Pending, ToolCall
from sayso.engine import blocking, context
from sayso.engine.controller import ApprovalController
from sayso.engine.execution import Running
from sayso.errors import ConfigurationError, ToolError
from sayso.policy.policy import Policy, ToolRules

if TYPE_CHECKING:
    from sayso.core.ports import Channel, Clock, Hook
    from sayso.engine.remembered import ApprovalMemory
    from sayso.engine.settings import StoreLike

_TELLS: ContextVar[object] = ContextVar("sayso_adalflow_tells", default=None)
_MODES = {"default": "interactive", "auto_approve": "approve_all"}
_CANCELLED = frozenset({"refused", "expired", "withdrawn"})


class Settings(TypedDict, total=False):
    """What the controller of a permission manager is made of; see `ApprovalController`."""

    mode: str
    policy: Policy
    memory: ApprovalMemory
    store: StoreLike
    channels: Iterable[Channel]
    session: str
    timeout: float | None
    clock: Clock
    hooks: Iterable[Hook]
    audit: Literal["queued", "strict"]


class PermissionManager(Shipped):
    """Nothing that an AdalFlow agent calls runs without your say-so: `Runner(agent, permission_manager=…)`.

    It has the methods that AdalFlow looks for and inherits nothing from AdalFlow's own, which allows where this
    refuses. A tool that was made with `require_approval=True`, one that nobody registered, and whatever the policy says
    asks. With `ApprovalRunner` in place of `Runner`, notes, reasons and edited arguments reach the model too.
    """

    def __init__(
        self,
        approval_callback: Callback | None = None,
        approval_mode: str | None = None,
        tool_manager: ToolManager | None = None,
        *,
        controller: ApprovalController | None = None,
        **settings: Unpack[Settings],
    ) -> None:
        """Take a controller, or what one is made of; with nobody to ask it is not made at all.

        Args:
            approval_callback: asked with a `PermissionRequest`, sync or async; returns an `ApprovalOutcome`, an
                `ApprovalResponse` or an `ApprovalDecision`.
            approval_mode: AdalFlow's words for a mode, `default` and `auto_approve`; neither passes a block.
            tool_manager: the tools; a runner sets it.
            controller: asks, in place of one that is made from the other settings.
            **settings: those of `ApprovalController`.
        """
        self._asking: dict[str, Asked] = {}
        self._marks: dict[str, bool] = {}
        self._tools: dict[str, GuardedTool] = {}
        self._tool_manager = tool_manager
        if controller is None:
            controller = _made(self._answerer(approval_callback), approval_mode, settings)
        elif settings or approval_callback is not None or approval_mode is not None:
            raise ConfigurationError("the controller has settings of its own; pass either it or these")
        elif not isinstance(controller, ApprovalController):  # pyright: ignore[reportUnnecessaryIsInstance] - the user's code
            raise ConfigurationError(f"controller is {controller!r}; pass an ApprovalController")
        if controller.mode == "defer":
            raise ConfigurationError("a run of AdalFlow cannot stop and go on later; use another mode than 'defer'")
        self._controller = controller

    @property
    def controller(self) -> ApprovalController:
        """The controller that is asked: inside a tool of another agent, that one's."""
        return context.outer_controller() or self._controller

    # What AdalFlow's runner calls.

    def set_tool_manager(self, tool_manager: ToolManager) -> None:
        """Learn which tools there are; a manager that several runners share knows those of the last one."""
        self._tool_manager = tool_manager

    def register_tool(self, tool_name: str, require_approval: bool = True) -> None:  # noqa: FBT001, FBT002 - as AdalFlow calls it
        """Learn that a tool was made to ask or not; one that asks goes on asking, whoever registers it again."""
        self._marks[tool_name] = self._marks.get(tool_name, False) or require_approval
        self._tools.pop(tool_name, None)

    def is_approval_required(self, tool_name: str) -> bool:
        """Whether somebody may have to be asked about a call of this tool, as far as its name can tell."""
        if _TELLS.get() is self:
            return False  # the runner tells of each question itself, when it is really asked
        tool, controller = self._tool(tool_name, self._tool_manager), self.controller
        if tool is None:
            return False
        verdict = controller.policy.glance(ToolCall(tool=tool_name), self._rules(tool))
        if verdict is not None:
            return verdict.approval != "none"
        return controller.mode == "interactive" and tool_name not in self.always_allowed_tools

    def create_permission_event(self, func: Function) -> ToolCallPermissionRequest | ToolOutput:
        """Return the event that tells of a question or, for a call that cannot run, what the model is told instead."""
        asked = self.ask(func)
        if asked.tool is None:
            return refused(Denied(cause="failed", reason=asked.problem))
        verdict = self.controller.policy.glance(asked.call, asked.rules)
        if verdict is not None and verdict.approval == "blocked":
            outcome = self.controller.glance(asked.call, asked.rules)
            return refused(outcome if isinstance(outcome, Denied) else Denied(cause="blocked", reason=verdict.reason))
        try:
            shown = asked.tool.shown(asked.func)
        except ToolError as error:
            return refused(Denied(cause="failed", reason=str(error)))
        return permission_event(asked, shown)

    async def check_permission(self, func: Function) -> tuple[bool, Function | None, str | None]:
        """Say whether a function may run, and return it with exactly the arguments that may.

        The third is for whoever calls this: why it may not, or what of the answer is remembered.
        """
        asked = self.ask(func)
        outcome = await self.settle(asked)
        if isinstance(outcome, Denied):
            return False, None, outcome.message
        return True, asked.function(outcome), remembered(asked, outcome)

    # What `ApprovalRunner` calls, which tells of everything itself.

    def ask(self, func: Function, *, agent: str = "", tool_manager: ToolManager | None = None) -> Asked:
        """Return a function as the call that it is, with the rules that it brings along."""
        tool = self._tool(func.name, tool_manager or self._tool_manager)
        above = context.agent_path()
        asked = asked_about(func, tool, agent_path=(*above, agent) if agent else above)
        return asked if asked.tool is None else dataclasses.replace(asked, rules=self._rules(asked.tool))

    async def settle(self, asked: Asked, tell: Callable[[ApprovalRequest], None] | None = None) -> Approved | Denied:
        """Decide about a call; where a person is asked, `tell` is told so, and this waits for the answer."""
        controller, key = self.controller, asked.call.call_id
        self._asking[key] = asked
        try:
            outcome = await controller.review(asked.call, asked.rules)
            while isinstance(outcome, Pending):
                await self._answered(controller, outcome.request, tell)
                outcome = await controller.review(asked.call, asked.rules, asked=True)
        finally:
            self._asking.pop(key, None)
        return outcome

    def settle_sync(self, asked: Asked) -> Approved | Denied:
        """Do what `settle` does, for synchronous callers, on a thread that runs a loop too."""
        outcome = self.controller.glance(asked.call, asked.rules)
        if outcome is not None:
            return outcome
        if blocking.runs_a_loop():
            return asyncio.run(self.settle(asked))  # AdalFlow has made that possible, for the whole process
        return blocking.run(self.settle, asked)

    @contextlib.contextmanager
    def running(self, asked: Asked, outcome: Approved) -> Generator[Running]:
        """Return the context in which an approved tool runs; agents inside it ask whom this one asks."""
        controller, tool = self.controller, asked.tool
        with contextlib.ExitStack() as stack:
            running = stack.enter_context(controller.running(asked.call, outcome))
            tightening = self._tightening
            stack.enter_context(context.within(controller, asked.call, by=outcome.by, tightening=tightening))
            if tool is not None and (outcome.by != "policy" or asked.rules.marked):
                stack.enter_context(context.approved(controller, tool.marked_as, outcome.args))
            yield running

    @contextlib.contextmanager
    def telling_itself(self) -> Generator[None]:
        """Say that the runner inside tells of each question itself, so that AdalFlow's need not guess."""
        token = _TELLS.set(self)
        try:
            yield
        finally:
            _TELLS.reset(token)

    # The names of the seed, and of AdalFlow's own manager.

    @property
    def pending_approvals(self) -> dict[str, PermissionRequest]:  # pyright: ignore[reportIncompatibleVariableOverride] - only to be read
        """What waits for an answer here, by the id of its call."""
        return self.get_pending_approvals()

    def get_pending_approvals(self) -> dict[str, PermissionRequest]:  # pyright: ignore[reportIncompatibleMethodOverride] - has the same fields
        """Return what waits for an answer here, by the id of its call; `controller.pending` tells of all."""
        found = dict(self._asking)
        return {
            key: PermissionRequest(
                id=key,
                tool_name=asked.call.tool,
                tool_args=asked.func.args or (),
                tool_kwargs=asked.func.kwargs or {},
                confirmation_message=f"Allow {asked.call.tool} to run?",
            )
            for key, asked in found.items()
        }

    @property
    def always_allowed_tools(self) -> frozenset[str]:  # pyright: ignore[reportIncompatibleVariableOverride] - only to be read
        """The tools of which every call runs, because somebody had that remembered; the policy has the last word."""
        found = self.controller.memory.list()
        return frozenset(each.tool for each in found if each.scope.kind == "tool" and each.decision.approved)

    def remove_from_always_allowed(self, tool_name: str) -> None:
        """Forget that every call of a tool runs."""
        memory = self.controller.memory
        for each in memory.list():
            if each.tool == tool_name and each.scope.kind == "tool" and each.decision.approved:
                memory.revoke(each.id)

    def _tool(self, name: object, tool_manager: ToolManager | None) -> GuardedTool | None:
        """Return the tool that a runner would run under this name."""
        known = cast("dict[object, object]", getattr(tool_manager, "context", {}))
        source = known.get(name) if isinstance(name, str) else None
        if not isinstance(name, str) or not isinstance(source, FunctionTool):
            return None
        tool = self._tools.get(name)
        if tool is None or tool.source is not source:
            tool = self._tools[name] = GuardedTool(name, source, mark=self._mark(name))
        return tool

    def _mark(self, name: str) -> str:
        if name not in self._marks:
            return f"{name} was never registered with the permission manager"
        return f"{name} was made with require_approval=True" if self._marks[name] else ""

    def _rules(self, tool: GuardedTool) -> ToolRules:
        tightening = self._tightening
        return msgspec.structs.replace(tool.rules, tightening=tightening) if tightening else tool.rules

    @property
    def _tightening(self) -> tuple[Policy, ...]:
        """What the policies of agents above, and this one's own, add to that of the outermost."""
        above = context.running()
        if above is None:
            return ()
        mine = self._controller.policy
        return above.tightening if mine in (above.controller.policy, *above.tightening) else (*above.tightening, mine)

    async def _answered(
        self, controller: ApprovalController, request: ApprovalRequest, tell: Callable[[ApprovalRequest], None] | None
    ) -> None:
        """Wait for the answer; whatever ends that otherwise withdraws the question."""
        try:
            if tell is not None:
                tell(request)
            if controller.mode == "defer":  # of an agent above this one, which AdalFlow cannot stop for
                await controller.withdraw(request.id, "a run of AdalFlow cannot stop and go on later")
            await controller.attend(request.id)
        except BaseException:
            await controller.abandon(request.id)
            raise

    def _answerer(self, callback: Callback | None) -> Callable[[ApprovalRequest], Any] | None:
        """Return the callback as one that sayso asks."""
        if callback is None:
            return None
        if not callable(callback):
            raise ConfigurationError(f"approval_callback is {callback!r}; pass a function of one PermissionRequest")

        def asks(request: ApprovalRequest) -> tuple[Any, Asked | None]:
            asked = self._asking.get(request.tool_call_id)
            return callback(request_of(request, asked)), asked

        async def answer_async(request: ApprovalRequest) -> ApprovalDecision:
            answer, asked = asks(request)
            return decision_of(await answer, request, asked)

        def answer(request: ApprovalRequest) -> ApprovalDecision:
            answer, asked = asks(request)
            return decision_of(answer, request, asked)

        return answer_async if is_async(callback) else answer


def permission_event(asked: Asked, details: object) -> ToolCallPermissionRequest:
    """Return the event that tells a stream of a question."""
    func = dataclasses.replace(asked.func)
    request = FunctionRequest(id=asked.call.call_id, tool_name=asked.call.tool, tool=func, confirmation_details=details)
    return ToolCallPermissionRequest(data=request)


def refused(outcome: Denied) -> ToolOutput:
    """Return what stands in the place of a tool's output when it did not run."""
    return ToolOutput(
        output=outcome.message,
        observation=outcome.message,
        display="Not executed",
        metadata={"sayso": {"cause": outcome.cause, "request": outcome.request_id}},
        status="cancelled" if outcome.cause in _CANCELLED else "error",
    )


def remembered(asked: Asked, outcome: Approved) -> str | None:
    """Say what of an answer is remembered, if it is."""
    decision = outcome.decision
    if outcome.by != "answer" or decision is None or decision.remember == "none":
        return None
    wide = f"every call of {asked.call.tool}" if decision.scope == "tool" else f"this {decision.scope or 'call'} only"
    return f"remembered for the session: {wide}"


def _made(
    callback: Callable[[ApprovalRequest], Any] | None, approval_mode: str | None, settings: Settings
) -> ApprovalController:
    if approval_mode is not None:
        if "mode" in settings or approval_mode not in _MODES:
            problem = "and `mode` are two names for one thing" if "mode" in settings else f"is {approval_mode!r}"
            raise ConfigurationError(f"approval_mode {problem}; use `mode`, or one of {', '.join(map(repr, _MODES))}")
        settings = {**settings, "mode": _MODES[approval_mode]}
    return ApprovalController(approval_callback=callback, **cast("Any", settings))
