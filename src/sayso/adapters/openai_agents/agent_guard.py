"""The guard of agents: `Approvals(…).guard(agent)` returns the agent with its tools behind one controller.

Tests: tests/adapters/openai_agents/test_conformance.py
"""

from __future__ import annotations

import copy
import weakref
from collections.abc import Callable
from typing import Any, ClassVar, Unpack, cast

from agents import Agent, Handoff, ModelSettings, RunContextWrapper, Tool

from sayso.adapters.kit import ControllerSettings, Gate, OnDenied, WebUser, build_controller, check_on_denied
from sayso.adapters.openai_agents.call_guard import GuardTerms, has_controller
from sayso.adapters.openai_agents.guarded_copies import GuardedCopies
from sayso.adapters.openai_agents.host_answers import HostAnswers
from sayso.adapters.openai_agents.other_tools import guarded_copies
from sayso.adapters.openai_agents.provider_tools import ProviderTools, name_of
from sayso.adapters.openai_agents.run_checks import GuardedMark, check_runs
from sayso.engine.controller import ApprovalController
from sayso.errors import ConfigurationError
from sayso.policy.policy import Policy


class GuardedAgent(GuardedMark, Agent[Any]):
    """An agent whose tools are behind a controller, and whose handoffs lead to such agents only."""

    _approvals: ClassVar[Approvals]

    async def get_all_tools(self, run_context: RunContextWrapper[Any]) -> list[Tool]:
        """Return guarded copies of the tools that the agent may call."""
        return await self._approvals.guard_tools(self, run_context, await super().get_all_tools(run_context))

    def check_model_settings(self, settings: ModelSettings | None) -> None:
        """Check that settings bring no tools to the model that nobody sees here."""
        self._approvals.check_model_settings(self, settings)


class Approvals:
    """Nothing that an agent calls runs without your say-so: `agent = Approvals(controller).guard(agent)`.

    Where the controller waits for people, each call waits in place; where it defers, the run stops with
    `interruptions`, and `resume` goes on when the questions are answered, perhaps in another process.
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
        self._gate = Gate(build_controller(controller, settings))
        self._terms = GuardTerms(self._gate, check_on_denied(on_denied), HostAnswers(self._gate, answered_by))
        self._provider_tools = ProviderTools(self._gate)
        self._agents: weakref.WeakValueDictionary[int, GuardedAgent] = weakref.WeakValueDictionary()
        self._classes: dict[type, type[GuardedAgent]] = {}
        self._copies: weakref.WeakValueDictionary[tuple[int, int], GuardedCopies[Any]] = weakref.WeakValueDictionary()

    @property
    def controller(self) -> ApprovalController:
        """The controller that is asked."""
        return self._gate.controller

    def guard(self, agent: Agent[Any]) -> Agent[Any]:
        """Return the agent with its tools, and those of the agents that it hands off to, behind the controller."""
        check_runs()
        if isinstance(agent, GuardedAgent):
            return agent
        if not isinstance(cast("object", agent), Agent):
            raise ConfigurationError(
                f"{agent!r} is no `Agent` of the SDK; agents of its realtime part have no such hooks"
            )
        known = self._agents.get(id(agent))
        if known is None:
            known = self._agents[id(agent)] = self._guarded(agent)
        return known

    def _guarded(self, agent: Agent[Any]) -> GuardedAgent:
        kind = self._class_of(type(agent))
        guarded = kind.__new__(kind)
        state: dict[str, Any] = vars(guarded)
        state.update(vars(agent), handoffs=list(agent.handoffs), _sayso_original=agent)  # which keeps its id
        return guarded

    def _class_of(self, base: type) -> type[GuardedAgent]:
        found = self._classes.get(base)
        if found is None:
            fields = {"_approvals": self, "handoffs": _Handoffs(self)}
            found = self._classes[base] = cast("type[GuardedAgent]", type(base.__name__, (GuardedAgent, base), fields))
        return found

    async def guard_tools(self, agent: GuardedAgent, context: RunContextWrapper[Any], tools: list[Tool]) -> list[Tool]:
        """Return the tools of an agent as its model may call them."""
        check_runs()  # another library may have set a runner of its own
        self._gate.know_tools([name_of(each) for each in tools])
        if has_controller(self._gate):  # else a state is being restored, and no model is asked
            self._provider_tools.check(agent)
            await self._terms.answers.take_all(context)
            tools = [each for each in tools if not self._gate.hides(name_of(each))]
        guarded = (self._guarded_tool(agent, each) for each in tools)
        return [each for each in guarded if each is not None]

    def check_model_settings(self, agent: GuardedAgent, settings: ModelSettings | None) -> None:
        """Check that the settings of a run bring no tools to the model that nobody sees here."""
        self._provider_tools.check_settings(agent, settings)

    def _guarded_tool(self, agent: GuardedAgent, tool: Tool) -> Tool | None:
        """Return the copy of a tool that has a hook for a guard; else the tool, if the policy lets it run unasked."""
        key = id(agent), id(tool)
        copies = self._copies.get(key)
        if copies is None or not copies.are_of(tool):
            copies = guarded_copies(tool, agent, self._terms)
            if copies is None:
                return tool if has_controller(self._gate) and self._provider_tools.may_show(tool) else None
            self._copies[key] = copies
        return copies.current()


class _Handoffs:
    """The handoffs of a guarded agent: whatever is put among them leads to a guarded agent."""

    def __init__(self, approvals: Approvals) -> None:
        self._approvals = approvals

    def __get__(self, agent: object, owner: type) -> Any:  # noqa: ANN401 - a descriptor
        if agent is None:
            return self
        kept: list[object] = vars(agent)["handoffs"]
        kept[:] = [self._guarded(each) for each in kept]
        return kept

    def __set__(self, agent: Any, given: object) -> None:  # noqa: ANN401 - a descriptor
        vars(agent)["handoffs"] = given

    def _guarded(self, target: object) -> object:
        if isinstance(target, Agent):
            return self._approvals.guard(cast("Agent[Any]", target))
        return guarded_handoff(cast("Any", target), self._approvals) if isinstance(target, Handoff) else target


class _GuardedTransfer:
    """The hook of a handoff that leads to a guarded agent."""

    def __init__(self, handoff: Handoff[Any, Any], approvals: Approvals) -> None:
        self._transfer = handoff.on_invoke_handoff
        self._approvals = approvals
        # The SDK finds the agents of a stored state by this reference, which has no public name.
        known = handoff._agent_ref  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
        target = None if known is None else known()
        self.target = None if target is None else approvals.guard(cast("Agent[Any]", target))

    async def __call__(self, context: RunContextWrapper[Any], given: str) -> Agent[Any]:
        return self._approvals.guard(await self._transfer(context, given))


def guarded_handoff(handoff: Handoff[Any, Any], approvals: Approvals) -> Handoff[Any, Any]:
    """Return a handoff that leads to a guarded agent."""
    if isinstance(handoff.on_invoke_handoff, _GuardedTransfer):
        return handoff
    copied, transfer = copy.copy(handoff), _GuardedTransfer(handoff, approvals)
    copied.on_invoke_handoff = transfer
    copied._agent_ref = None if transfer.target is None else weakref.ref(transfer.target)  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
    return copied
