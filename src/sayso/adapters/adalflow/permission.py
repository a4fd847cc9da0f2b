"""The permission manager: AdalFlow's runner asks it about every tool, and it asks the one controller."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import dataclasses
from collections.abc import Callable, Generator
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Unpack, cast

from sayso.adapters.adalflow.answers import Callback, PermissionRequest, to_decision, to_permission_request
from sayso.adapters.adalflow.function_tools import FunctionCall, GuardedFunctionTool, to_function_call
from sayso.adapters.adalflow.library import (
    AdalFlowPermissionManager,
    Function,
    FunctionRequest,
    FunctionTool,
    ToolCallPermissionRequest,
    ToolManager,
    ToolOutput,
)
from sayso.adapters.kit import Gate, GuardedRun, SharedSettings, refuse_defer
from sayso.core.callables import is_async
from sayso.core.model import ApprovalDecision, ApprovalRequest, Approved, Denied, Pending, ToolCall
from sayso.engine import blocking, context
from sayso.engine.controller import ApprovalController
from sayso.errors import ConfigurationError, ToolError
from sayso.policy.policy import Policy

if TYPE_CHECKING:
    pass

_RUNNER_EMITS: ContextVar[object] = ContextVar("sayso_adalflow_runner_emits", default=None)
_MODES = {"default": "interactive", "auto_approve": "approve_all"}
_CANCELLED = frozenset({"refused", "unattended", "expired", "withdrawn"})


class ManagerSettings(SharedSettings, total=False):
    """Settings of the controller of a permission manager; see `ApprovalController`."""

    policy: Policy


class PermissionManager(AdalFlowPermissionManager):
    """Nothing that an AdalFlow agent calls runs without your say-so: `Runner(agent, permission_manager=…)`.

    It has the methods that AdalFlow calls, and inherits nothing from AdalFlow's own class, which allows where this one
    refuses. A call asks if its tool has `require_approval=True` or was never registered, or if the policy says so. With
    `ApprovalRunner` in place of `Runner`, notes, reasons and edited arguments reach the model too.
    """

    def __init__(
        self,
        approval_callback: Callback | None = None,
        approval_mode: str | None = None,
        tool_manager: ToolManager | None = None,
        *,
        controller: ApprovalController | None = None,
        **settings: Unpack[ManagerSettings],
    ) -> None:
        """Use a controller, or build one from the settings; without anybody to ask, that fails.

        Args:
            approval_callback: called with a `PermissionRequest`, sync or async; returns an `ApprovalOutcome`, an
                `ApprovalResponse` or an `ApprovalDecision`.
            approval_mode: AdalFlow's names of modes, `default` and `auto_approve`; neither overrides a block.
            tool_manager: the tools; a runner sets it.
            controller: used in place of one that is built from the other settings.
            **settings: those of `ApprovalController`.
        """
        self._waiting_calls: dict[str, FunctionCall] = {}
        self._marks: dict[str, bool] = {}
        self._tools: dict[str, GuardedFunctionTool] = {}
        self._tool_manager = tool_manager
        if controller is None:
            controller = _make_controller(self._adapt_callback(approval_callback), approval_mode, settings)
        elif settings or approval_callback is not None or approval_mode is not None:
            raise ConfigurationError("the controller has settings of its own; pass either it or these")
        elif not isinstance(controller, ApprovalController):  # pyright: ignore[reportUnnecessaryIsInstance] - the user's code
            raise ConfigurationError(f"controller is {controller!r}; pass an ApprovalController")
        refuse_defer(controller, "AdalFlow")
        self._gate = Gate(controller)
        if tool_manager is not None:
            self._know_tools(tool_manager)

    @property
    def controller(self) -> ApprovalController:
        """The controller: inside a tool of another agent, that of the outer agent."""
        return self._gate.controller

    # Methods that AdalFlow's runner calls.

    def set_tool_manager(self, tool_manager: ToolManager) -> None:
        """Set the tools; a manager that several runners share has those of the last one."""
        self._tool_manager = tool_manager
        self._know_tools(tool_manager)

    def register_tool(self, tool_name: str, require_approval: bool = True) -> None:  # noqa: FBT001, FBT002 - as AdalFlow calls it
        """Register whether a tool asks; a tool that asks keeps asking if it is registered again."""
        self._marks[tool_name] = self._marks.get(tool_name, False) or require_approval
        self._tools.pop(tool_name, None)

    def is_approval_required(self, tool_name: str) -> bool:
        """Whether a call of this tool may ask, judged by its name only."""
        if _RUNNER_EMITS.get() is self:
            return False  # the runner emits each request itself, when it is opened
        tool, controller = self._tool(tool_name, self._tool_manager), self.controller
        if tool is None:
            return False
        rules = self._gate.tighten(tool.rules)
        verdict = controller.policy.judge_by_name(ToolCall(tool=tool_name), rules)
        if verdict is not None:
            return verdict.approval != "none"
        return controller.mode == "interactive" and tool_name not in self.always_allowed_tools

    def create_permission_event(self, func: Function) -> ToolCallPermissionRequest | ToolOutput:
        """Return the event of a permission request or, for a call that cannot run, the output for the model."""
        function_call = self.build_call(func)
        if function_call.tool is None:
            return denied_output(Denied(cause="failed", reason=function_call.problem))
        verdict = self.controller.policy.judge_by_name(function_call.call, function_call.rules)
        if verdict is not None and verdict.approval == "blocked":
            outcome = self.controller.adapter.decide_fast(function_call.call, function_call.rules)
            return denied_output(
                outcome if isinstance(outcome, Denied) else Denied(cause="blocked", reason=verdict.reason)
            )
        try:
            shown = function_call.tool.preview_details(function_call.func)
        except ToolError as error:
            return denied_output(Denied(cause="failed", reason=str(error)))
        return permission_event(function_call, shown)

    async def check_permission(self, func: Function) -> tuple[bool, Function | None, str | None]:
        """Return whether a function may run, the function with exactly the approved arguments, and a text.

        The text is for the caller: the reason of a refusal, or the scope of a remembered answer.
        """
        function_call = self.build_call(func)
        outcome = await self.settle(function_call)
        if isinstance(outcome, Denied):
            return False, None, outcome.message
        return True, function_call.approved_function(outcome), remembered_text(function_call, outcome)

    # Methods that `ApprovalRunner` calls, which emits all events itself.

    def build_call(self, func: Function, *, agent: str = "", tool_manager: ToolManager | None = None) -> FunctionCall:
        """Convert a function to a call with its rules."""
        tool = self._tool(func.name, tool_manager or self._tool_manager)
        function_call = to_function_call(func, tool, agent_path=context.agent_path(agent))
        if function_call.tool is None:
            return function_call
        rules = self._gate.tighten(function_call.tool.rules)
        return dataclasses.replace(function_call, rules=rules)

    async def settle(
        self, function_call: FunctionCall, on_asked: Callable[[ApprovalRequest], None] | None = None
    ) -> Approved | Denied:
        """Decide about a call; where a person is asked, call `on_asked` and wait for the answer."""
        outcome = self.controller.adapter.decide_fast(function_call.call, function_call.rules)
        return await self._review(function_call, on_asked) if outcome is None else outcome

    def settle_sync(self, function_call: FunctionCall) -> Approved | Denied:
        """Do what `settle` does, for synchronous callers, on a thread that runs a loop too."""
        outcome = self.controller.adapter.decide_fast(function_call.call, function_call.rules)
        if outcome is not None:
            return outcome
        if blocking.runs_a_loop():
            return asyncio.run(self._review(function_call))  # AdalFlow has made that possible, for the whole process
        return blocking.run(self._review, function_call)

    async def _review(
        self, function_call: FunctionCall, on_asked: Callable[[ApprovalRequest], None] | None = None
    ) -> Approved | Denied:
        """Review a call that `decide_fast` left open until no answer is pending."""
        controller, key = self.controller, function_call.call.call_id
        self._waiting_calls[key] = function_call
        try:
            outcome = await controller.adapter.review(function_call.call, function_call.rules)
            while isinstance(outcome, Pending):
                await self._wait_for_answer(controller, outcome.request, on_asked)
                outcome = await controller.adapter.review(function_call.call, function_call.rules, asked=True)
        finally:
            self._waiting_calls.pop(key, None)
        return outcome

    def execution(self, function_call: FunctionCall, outcome: Approved) -> GuardedRun:
        """Return the context manager round an approved tool; agents inside it use the same controller."""
        tool = function_call.tool
        answered = tool is not None and (outcome.by != "policy" or function_call.rules.marked)
        marked_as = tool.marked_as if answered and tool is not None else None
        return GuardedRun(self._gate, function_call.call, outcome, marked_as=marked_as)

    @contextlib.contextmanager
    def runner_emits_requests(self) -> Generator[None]:
        """Mark the block as one whose runner emits each request itself, so that AdalFlow's events are not needed."""
        token = _RUNNER_EMITS.set(self)
        try:
            yield
        finally:
            _RUNNER_EMITS.reset(token)

    # AdalFlow's names.

    @property
    def pending_approvals(self) -> dict[str, PermissionRequest]:  # pyright: ignore[reportIncompatibleVariableOverride] - only to be read
        """The calls that wait for an answer here, by their ids."""
        return self.get_pending_approvals()

    def get_pending_approvals(self) -> dict[str, PermissionRequest]:  # pyright: ignore[reportIncompatibleMethodOverride] - has the same fields
        """Return the calls that wait for an answer here, by their ids; `controller.pending` returns all requests."""
        found = dict(self._waiting_calls)
        return {
            key: PermissionRequest(
                id=key,
                tool_name=function_call.call.tool,
                tool_args=function_call.func.args or (),
                tool_kwargs=function_call.func.kwargs or {},
                confirmation_message=f"Allow {function_call.call.tool} to run?",
            )
            for key, function_call in found.items()
        }

    @property
    def always_allowed_tools(self) -> frozenset[str]:  # pyright: ignore[reportIncompatibleVariableOverride] - only to be read
        """The tools with a remembered yes to every call; a block of the policy still comes first."""
        found = self.controller.memory.list()
        return frozenset(each.tool for each in found if each.scope.kind == "tool" and each.decision.approved)

    def remove_from_always_allowed(self, tool_name: str) -> None:
        """Forget the remembered yes to every call of a tool."""
        memory = self.controller.memory
        for each in memory.list():
            if each.tool == tool_name and each.scope.kind == "tool" and each.decision.approved:
                memory.revoke(each.id)

    def _know_tools(self, tool_manager: ToolManager) -> None:
        known = cast("dict[str, object]", getattr(tool_manager, "context", {}))
        self._gate.know_tools([name for name, tool in known.items() if isinstance(tool, FunctionTool)])

    def _tool(self, name: object, tool_manager: ToolManager | None) -> GuardedFunctionTool | None:
        """Return the tool that a runner would run under this name."""
        known = cast("dict[object, object]", getattr(tool_manager, "context", {}))
        source = known.get(name) if isinstance(name, str) else None
        if not isinstance(name, str) or not isinstance(source, FunctionTool):
            return None
        tool = self._tools.get(name)
        if tool is None or tool.source is not source:
            tool = self._tools[name] = GuardedFunctionTool(name, source, mark=self._mark(name))
        return tool

    def _mark(self, name: str) -> str:
        if name not in self._marks:
            return f"{name} was never registered with the permission manager"
        return f"{name} was made with require_approval=True" if self._marks[name] else ""

    async def _wait_for_answer(
        self,
        controller: ApprovalController,
        request: ApprovalRequest,
        on_asked: Callable[[ApprovalRequest], None] | None,
    ) -> None:
        """Wait for the answer; an error or a cancellation withdraws the request."""
        try:
            if on_asked is not None:
                on_asked(request)
            if controller.mode == "defer":  # of an outer agent; a run of AdalFlow cannot be suspended
                await controller.withdraw(request.id, "a run of AdalFlow cannot stop and go on later")
            await controller.adapter.wait_or_withdraw(request.id)
        except BaseException:
            await controller.adapter.withdraw_if_open(request.id)
            raise

    def _adapt_callback(self, callback: Callback | None) -> Callable[[ApprovalRequest], Any] | None:
        """Return the callback with sayso's own types."""
        if callback is None:
            return None
        if not callable(callback):
            raise ConfigurationError(f"approval_callback is {callback!r}; pass a function of one PermissionRequest")

        def call_callback(request: ApprovalRequest) -> tuple[Any, FunctionCall | None]:
            function_call = self._waiting_calls.get(request.tool_call_id)
            return callback(to_permission_request(request, function_call)), function_call

        async def answer_async(request: ApprovalRequest) -> ApprovalDecision:
            answer, function_call = call_callback(request)
            return to_decision(await answer, request, function_call)

        def answer(request: ApprovalRequest) -> ApprovalDecision:
            answer, function_call = call_callback(request)
            return to_decision(answer, request, function_call)

        return answer_async if is_async(callback) else answer


def permission_event(function_call: FunctionCall, details: object) -> ToolCallPermissionRequest:
    """Return the event of a permission request for a stream."""
    func = copy.copy(function_call.func)
    request = FunctionRequest(
        id=function_call.call.call_id, tool_name=function_call.call.tool, tool=func, confirmation_details=details
    )
    return ToolCallPermissionRequest(data=request)


def denied_output(outcome: Denied) -> ToolOutput:
    """Return the output of a tool that did not run."""
    return ToolOutput(
        output=outcome.message,
        observation=outcome.message,
        display="Not executed",
        metadata={"sayso": {"cause": outcome.cause, "request": outcome.request_id}},
        status="cancelled" if outcome.cause in _CANCELLED else "error",
    )


def remembered_text(function_call: FunctionCall, outcome: Approved) -> str | None:
    """Return the scope of a remembered answer as a text, or None."""
    decision = outcome.decision
    if outcome.by != "answer" or decision is None or decision.remember == "none":
        return None
    wide = (
        f"every call of {function_call.call.tool}"
        if decision.scope == "tool"
        else f"this {decision.scope or 'call'} only"
    )
    return f"remembered for the session: {wide}"


def _make_controller(
    callback: Callable[[ApprovalRequest], Any] | None, approval_mode: str | None, settings: ManagerSettings
) -> ApprovalController:
    if approval_mode is not None:
        if "mode" in settings or approval_mode not in _MODES:
            problem = "and `mode` are two names for one thing" if "mode" in settings else f"is {approval_mode!r}"
            raise ConfigurationError(f"approval_mode {problem}; use `mode`, or one of {', '.join(map(repr, _MODES))}")
        settings = {**settings, "mode": _MODES[approval_mode]}
    return ApprovalController(approval_callback=callback, **cast("Any", settings))
