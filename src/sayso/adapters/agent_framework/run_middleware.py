"""The middleware of an agent: puts every tool call of its runs behind one controller.

Tests: tests/adapters/agent_framework/test_conformance.py
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Unpack, cast

from agent_framework import AgentContext

from sayso.adapters.agent_framework.agents_as_tools import GuardMark
from sayso.adapters.agent_framework.approval_contents import ApprovalFlow
from sayso.adapters.agent_framework.function_calls import AgentRun
from sayso.adapters.agent_framework.model_middleware import ModelMiddleware
from sayso.adapters.agent_framework.tool_middleware import ToolMiddleware
from sayso.adapters.kit import ControllerSettings, Gate, OnDenied, WebUser, build_controller, check_on_denied
from sayso.errors import ConfigurationError

if TYPE_CHECKING:
    from sayso.engine.controller import ApprovalController
    from sayso.policy.policy import Policy

_RUN = "sayso_run"
_KEY = "middleware"  # where the framework passes on the middleware round the model and round the tools


class Approvals(GuardMark):
    """Nothing that an agent calls runs without your say-so: `Agent(…, middleware=[Approvals(controller)])`.

    Where the controller waits for people, each call waits in place; where it defers, the run stops with an approval
    request, and `resume` goes on when the question is answered, perhaps in another process.
    """

    def __init__(
        self,
        controller: ApprovalController | Policy | None = None,
        *,
        on_denied: OnDenied = "model",
        answered_by: Callable[[AgentContext], WebUser | None] | None = None,
        **settings: Unpack[ControllerSettings],
    ) -> None:
        """Use a controller, or build one from a policy and its settings.

        Args:
            controller: the controller; or a policy, for a controller of its own that is built with the other settings.
                A policy alone defers. Without either, the active controller is asked. Inside a tool of another agent,
                the policy can only make that agent's policy stricter.
            on_denied: `model` tells the model why a call did not run, `raise` ends the run with a `MiddlewareFailure`
                whose cause is an `ApprovalError`.
            answered_by: returns the person, whom the host has authenticated, whose approval response a run is started
                with, from the run's `AgentContext`. Left out, or None: such a response means nothing.
            **settings: those of `ApprovalController`.
        """
        self._gate = Gate(build_controller(controller, settings))
        self._flow = ApprovalFlow(self._gate, answered_by)
        self._on_denied: OnDenied = check_on_denied(on_denied)

    @property
    def controller(self) -> ApprovalController:
        """The controller that is asked."""
        return self._gate.controller

    # Hook of the framework.

    async def process(self, context: AgentContext, call_next: Callable[[], Awaitable[None]]) -> None:
        """Put middleware of ours behind all other, round the model and round the tools of this run."""
        run = self._run_of(context)
        self._flow.collect(context, run)
        own = ToolMiddleware(run, self._flow, self._on_denied), ModelMiddleware(run)
        context.client_kwargs[_KEY] = [*self._others(context), *own]
        await call_next()

    def _run_of(self, context: AgentContext) -> AgentRun:
        """Return the run of a context, which other middleware of the agent may start several times."""
        known = context.metadata.get(_RUN)
        if not isinstance(known, AgentRun) or known.gate is not self._gate:
            known = AgentRun(self._gate, context.agent.name or "", context.session, context.messages)
            context.metadata[_RUN] = known
        return known

    def _others(self, context: AgentContext) -> list[Any]:
        """Return the middleware of others."""
        known: object = context.client_kwargs.get(_KEY) or []
        found = list(cast("Sequence[Any]", known)) if isinstance(known, list | tuple) else [known]
        if any(isinstance(each, ToolMiddleware) and each.run.gate is not self._gate for each in found):
            raise ConfigurationError(f"the agent {context.agent.name!r} has `Approvals` twice; give it one")
        return [each for each in found if not isinstance(each, ToolMiddleware | ModelMiddleware)]
