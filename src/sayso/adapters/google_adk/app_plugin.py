"""The plugin: puts every tool call of the agents of an ADK app behind one controller.

Tests: tests/adapters/google_adk/test_conformance.py
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

from google.adk.agents import LlmAgent, ManagedAgent
from google.adk.code_executors import BuiltInCodeExecutor
from google.adk.plugins.base_plugin import BasePlugin

from sayso.adapters.google_adk.callback_order import decide_last, require_last_plugin, shape_last
from sayso.adapters.google_adk.model_requests import ModelRequests
from sayso.adapters.google_adk.session_calls import is_workflow_node
from sayso.adapters.google_adk.tool_gate import ToolGate
from sayso.adapters.kit import ControllerSettings, Gate, OnDenied, WebUser, build_controller, check_on_denied
from sayso.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable

    from google.adk.agents import BaseAgent, Context, InvocationContext
    from google.adk.events import Event
    from google.adk.tools import BaseTool, ToolContext
    from google.genai import types

    from sayso.engine.controller import ApprovalController
    from sayso.policy.policy import Policy

_CODE = "code_execution"


class Approvals(BasePlugin):
    """Nothing that the agents of an app call runs without your say-so: `App(…, plugins=[Approvals(controller)])`.

    Where the controller waits for people, each call waits in place; where it defers, the run ends with ADK's own
    confirmation, and `resume` goes on when the question is answered, perhaps in another process.
    """

    def __init__(
        self,
        controller: ApprovalController | Policy | None = None,
        *,
        on_denied: OnDenied = "model",
        answered_by: Callable[[ToolContext], WebUser | None] | None = None,
        **settings: Unpack[ControllerSettings],
    ) -> None:
        """Use a controller, or build one from a policy and its settings.

        Args:
            controller: the controller; or a policy, for a controller of its own that is built with the other settings.
                A policy alone defers. Without either, the active controller is asked. Inside a tool of another app,
                the policy can only make that app's policy stricter.
            on_denied: `model` tells the model why a call did not run, `raise` ends the run with an `ApprovalError`.
            answered_by: returns the person, whom the host has authenticated, whose answer a confirmation is answered
                with, from the tool's context. Left out, or None: what a confirmation is answered with means nothing.
            **settings: those of `ApprovalController`.
        """
        super().__init__("sayso")
        if answered_by is not None and not callable(answered_by):
            raise ConfigurationError(f"answered_by is {answered_by!r}; pass a function of the tool's context")
        self._gate = Gate(build_controller(controller, settings))
        self._tools = ToolGate(self._gate, check_on_denied(on_denied), answered_by)
        self._requests = ModelRequests(self._gate)

    @property
    def controller(self) -> ApprovalController:
        """The controller that is asked."""
        return self._gate.controller

    # Callbacks of ADK.

    async def on_user_message_callback(
        self, *, invocation_context: InvocationContext, user_message: types.Content
    ) -> None:
        """Note what a run is started with."""
        self._tools.note_message(invocation_context, user_message)

    async def before_run_callback(self, *, invocation_context: InvocationContext) -> None:
        """Note that a run begins, perhaps without a message."""
        self._tools.note_run(invocation_context)

    async def before_agent_callback(self, *, agent: BaseAgent, callback_context: Context) -> None:
        """Refuse what nothing here could see: live sessions, agents that run elsewhere, and a code executor."""
        invocation = callback_context.get_invocation_context()
        if invocation.live_request_queue is not None or (invocation.run_config and invocation.run_config.support_cfc):
            raise ConfigurationError("a live session shows its tools to nobody here; use run or run_async")
        if isinstance(agent, ManagedAgent) and not self._gate.allows(agent.name):
            raise ConfigurationError(
                f"the tools of the managed agent {agent.name!r} run elsewhere, where nobody can be asked; allow it by "
                f"the rule {agent.name}: none"
            )
        if isinstance(agent, LlmAgent):
            self._requests.note_tasks(agent)
            self._check_code(agent)

    def _check_code(self, agent: LlmAgent) -> None:
        """Check that an agent does not run what its model writes: ADK calls nothing of ours for that."""
        executor = agent.code_executor
        if executor is not None and not isinstance(executor, BuiltInCodeExecutor) and not self._gate.allows(_CODE):
            raise ConfigurationError(
                f"the agent {agent.name!r} runs code that its model writes, and nobody can be asked about it; allow it "
                f"by the rule {_CODE}: none, or take out its code_executor"
            )

    async def before_model_callback(self, *, callback_context: Context, **_: object) -> None:
        """See to it that requests are shaped after all other callbacks."""
        shape_last(self, callback_context.get_invocation_context(), callback_context, self._requests.shape)

    async def before_tool_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext
    ) -> dict[str, Any] | None:
        """See to it that a call is decided about after all other callbacks."""
        invocation = tool_context.get_invocation_context()
        if is_workflow_node(tool_context):
            require_last_plugin(self, invocation)
            return await self._tools.decide(tool, tool_args, tool_context, invocation)
        decide_last(self, invocation, tool_context, self._tools.decide)
        return None

    async def after_tool_callback(
        self, *, tool: BaseTool, tool_context: ToolContext, result: dict[str, Any], **_: object
    ) -> None:
        """Note that a tool has returned."""
        await self._tools.returned(tool_context, result, comes_later=tool.is_long_running and not result)

    async def on_tool_error_callback(self, *, tool_context: ToolContext, error: BaseException, **_: object) -> None:
        """Note that a tool has failed, or was cancelled."""
        await self._tools.raised(tool_context, error)

    async def on_event_callback(self, *, event: Event, **_: object) -> None:
        """Note the calls of a model, and tell it what a person has changed."""
        self._requests.check_event(event)
        await self._tools.note_event(event)
