"""The guard of agents: `Approvals(…).guard(agent)` returns the agent with its tools behind one controller.

Tests: tests/adapters/openai_agents/test_conformance.py
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, ClassVar, Unpack, cast

from agents import Agent, FunctionTool, Handoff, RunContextWrapper, Tool

from sayso.adapters.kit import ControllerSettings, Gate, OnDenied, WebUser, build_controller, check_on_denied
from sayso.adapters.openai_agents.run_checks import GuardedMark, check_runs
from sayso.adapters.openai_agents.tool_guard import FunctionGuard, can_stop
from sayso.engine.controller import ApprovalController
from sayso.errors import ConfigurationError
from sayso.policy.policy import Policy


class GuardedAgent(GuardedMark, Agent[Any]):
    """An agent whose tools are behind a controller, and whose handoffs lead to such agents only."""

    _approvals: ClassVar[Approvals]

    async def get_all_tools(self, run_context: RunContextWrapper[Any]) -> list[Tool]:
        """Return guarded copies of the tools that the agent may call."""
        return self._approvals.guard_tools(self, await super().get_all_tools(run_context))


class Approvals:
    """Nothing that an agent calls runs without your say-so: `agent = Approvals(controller).guard(agent)`.

    Where the controller waits for people, each call waits in place; where it defers, the run stops with `interruptions`,
    and `resume` goes on when the questions are answered, perhaps in another process.
    """

    def __init__(
        self,
        controller: ApprovalController | Policy | None = None,
        *,
        on_denied: OnDenied = "model",
        answered_by: Callable[[RunContextWrapper[Any]], WebUser | None] | None = None,
        **settings: Unpack[ControllerSettings],
    ) -> None:
        """Use a controller, or build one from a policy and its settings.

        Args:
            controller: the controller; or a policy, for a controller of its own that is built with the other settings.
                A policy alone defers. Without either, the active controller is asked. Inside a tool of another agent,
                the policy can only make that agent's policy stricter.
            on_denied: `model` tells the model why a call did not run, `raise` ends the run with an `ApprovalError`.
            answered_by: returns the person, whom the host has authenticated, whose `state.approve` and `state.reject`
                a run is resumed with, from the run's context. Left out, or None: what a state says counts for nothing.
            **settings: those of `ApprovalController`.
        """
        if answered_by is not None and not callable(answered_by):
            raise ConfigurationError(f"answered_by is {answered_by!r}; pass a function of the run's context")
        self._gate = Gate(build_controller(controller, settings))
        self._on_denied = check_on_denied(on_denied)
        self._answered_by = answered_by
        self._agents: weakref.WeakValueDictionary[int, GuardedAgent] = weakref.WeakValueDictionary()
        self._classes: dict[type, type[GuardedAgent]] = {}
        self._guards: weakref.WeakValueDictionary[tuple[int, int], FunctionGuard] = weakref.WeakValueDictionary()

    @property
    def controller(self) -> ApprovalController:
        """The controller that is asked."""
        return self._gate.controller

    def guard(self, agent: Agent[Any]) -> Agent[Any]:
        """Return the agent with its tools, and those of the agents that it hands off to, behind the controller."""
        check_runs()
        if isinstance(agent, GuardedAgent):
            return agent
        known = self._agents.get(id(agent))
        if known is None:
            known = self._agents[id(agent)] = self._guarded(agent)
        return known

    def _guarded(self, agent: Agent[Any]) -> GuardedAgent:
        kind = self._class_of(type(agent))
        guarded: Any = kind.__new__(kind)
        vars(guarded).update(vars(agent), handoffs=list(agent.handoffs), _sayso_original=agent)  # which keeps its id
        return guarded

    def _class_of(self, base: type) -> type[GuardedAgent]:
        found = self._classes.get(base)
        if found is None:
            fields = {"_approvals": self, "handoffs": _Handoffs(self)}
            found = self._classes[base] = cast("type[GuardedAgent]", type(base.__name__, (GuardedAgent, base), fields))
        return found

    def guard_tools(self, agent: GuardedAgent, tools: list[Tool]) -> list[Tool]:
        """Return the tools of an agent as its model may call them."""
        self._gate.know_tools([_name_of(each) for each in tools])
        return [self._guard_tool(agent, each) for each in tools if not self._gate.hides(_name_of(each))]

    def _guard_tool(self, agent: GuardedAgent, tool: Tool) -> Tool:
        if not isinstance(tool, FunctionTool):
            return tool
        key = id(agent), id(tool)
        guard = self._guards.get(key)
        if guard is None or not guard.guards(tool):
            guard = self._guards[key] = FunctionGuard(tool, agent, self._gate, self._on_denied)
        return guard.guarded_copy(stops=can_stop(self._gate))


class _Handoffs:
    """The handoffs of a guarded agent: whatever is put among them leads to a guarded agent."""

    def __init__(self, approvals: Approvals) -> None:
        self._approvals = approvals

    def __get__(self, agent: Any, owner: type) -> Any:  # noqa: ANN401 - a descriptor
        if agent is None:
            return self
        kept: list[Any] = vars(agent)["handoffs"]
        kept[:] = [self._guarded(each) for each in kept]
        return kept

    def __set__(self, agent: Any, given: Any) -> None:  # noqa: ANN401 - a descriptor
        vars(agent)["handoffs"] = given

    def _guarded(self, target: Any) -> Any:  # noqa: ANN401 - an agent or a handoff
        if isinstance(target, Agent):
            return self._approvals.guard(cast("Agent[Any]", target))
        return target


def _name_of(tool: Tool) -> str:
    return tool.qualified_name if isinstance(tool, FunctionTool) else tool.name
