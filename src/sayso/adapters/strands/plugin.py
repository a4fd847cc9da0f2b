"""The plugin: puts every tool call of a Strands agent, and of the agents of a graph or swarm, behind one controller.

Tests: tests/adapters/strands/test_conformance.py
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Unpack, cast

from strands import Agent
from strands.hooks import AgentInitializedEvent, BeforeNodeCallEvent, HookOrder
from strands.multiagent.graph import Graph
from strands.multiagent.swarm import Swarm
from strands.plugins import MultiAgentPlugin, Plugin

from sayso.adapters.kit import ControllerSettings, Gate, OnDenied, WebUser, build_controller, check_on_denied
from sayso.adapters.strands.guarded_agents import add_guarded, is_guarded
from sayso.adapters.strands.model_stage import ModelStage
from sayso.adapters.strands.stages import ExecuteToolStage, InvokeModelStage, add_middleware
from sayso.adapters.strands.stopping import Stops
from sayso.adapters.strands.tool_stage import ToolStage
from sayso.errors import ConfigurationError

if TYPE_CHECKING:
    from strands.multiagent.base import MultiAgentBase

    from sayso.engine.controller import ApprovalController
    from sayso.policy.policy import Policy


class Approvals(Plugin, MultiAgentPlugin):
    """Nothing that an agent calls runs without your say-so: `Agent(…, plugins=[Approvals(controller)])`.

    Where the controller waits for people, each call waits in place; where it defers, the agent is interrupted, and
    `resume` goes on when the question is answered, perhaps in another process. A graph or a swarm takes it too.
    """

    def __init__(
        self,
        controller: ApprovalController | Policy | None = None,
        *,
        on_denied: OnDenied = "model",
        answered_by: Callable[[Mapping[str, Any]], WebUser | None] | None = None,
        **settings: Unpack[ControllerSettings],
    ) -> None:
        """Use a controller, or build one from a policy and its settings.

        Args:
            controller: the controller; or a policy, for a controller of its own that is built with the other settings.
                A policy alone defers. Without either, the active controller is asked. Inside a tool of another agent,
                the policy can only make that agent's policy stricter.
            on_denied: `model` tells the model why a call did not run, `raise` ends the run with an `ApprovalError`
                when all calls of the response are through.
            answered_by: returns the person, whom the host has authenticated, whose answer an interrupt is resumed with,
                from the run's `invocation_state`. Left out, or None: what an interrupt is resumed with means nothing.
            **settings: those of `ApprovalController`.
        """
        super().__init__()
        self._gate = Gate(build_controller(controller, settings))
        model = ModelStage(self._gate)
        self._model_handler = model.handle
        self._tool_handler = ToolStage(
            self._gate, Stops(self._gate, answered_by), model, check_on_denied(on_denied)
        ).handle
        self._guarded_orchestrators: weakref.WeakSet[MultiAgentBase] = weakref.WeakSet()

    @property
    def name(self) -> str:
        """The name of the plugin, which an agent takes once."""
        return "sayso"

    @property
    def controller(self) -> ApprovalController:
        """The controller that is asked."""
        return self._gate.controller

    def guard(self, agent: Agent) -> Agent:
        """Put the tools of an agent that is built already behind the controller, and return the agent.

        Middleware that is added to the agent later would run behind the decision, so its calls are refused then.
        """
        if not isinstance(cast("object", agent), Agent):
            raise ConfigurationError(
                f"{agent!r} is no agent of Strands with middleware, such as a bidirectional or remote one"
            )
        if is_guarded(agent):
            raise ConfigurationError(f"the agent {agent.name!r} has `Approvals` already; give it one")
        add_middleware(agent, InvokeModelStage, self._model_handler)
        add_middleware(agent, ExecuteToolStage, self._tool_handler)
        add_guarded(agent, self._tool_handler)
        return agent

    # Hooks of Strands.

    def init_agent(self, agent: Agent) -> None:
        """Guard an agent once it is built: plugins that come later, and Strands' own, add middleware of theirs."""
        agent.add_hook(self._guard_built, AgentInitializedEvent, order=HookOrder.SDK_LAST)

    def _guard_built(self, event: AgentInitializedEvent) -> None:
        self.guard(event.agent)

    def init_multi_agent(self, orchestrator: MultiAgentBase) -> None:
        """Guard the agents of a graph or swarm, and of those inside it, that are not guarded when they are called."""
        self._guarded_orchestrators.add(orchestrator)
        cast("Any", orchestrator).add_hook(self._guard_node, BeforeNodeCallEvent)

    def _guard_node(self, event: BeforeNodeCallEvent) -> None:
        executor: Any = cast("Graph | Swarm", event.source).nodes[event.node_id].executor
        if isinstance(executor, Graph | Swarm):
            if executor not in self._guarded_orchestrators:
                self.init_multi_agent(executor)
        elif not is_guarded(executor):
            self.guard(executor)
