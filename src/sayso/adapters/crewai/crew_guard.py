"""The guard of crews and agents: hides blocked tools, and binds every call of theirs to one controller.

Tests: tests/adapters/crewai/test_conformance.py
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from types import MethodType
from typing import Any, TypeVar, Unpack, cast

from crewai import Crew
from crewai.agents.agent_builder.base_agent import BaseAgent
from crewai.tools import BaseTool
from crewai.tools.mcp_native_tool import MCPNativeTool
from crewai.tools.mcp_tool_wrapper import MCPToolWrapper

from sayso.adapters.crewai.crew_runs import tracked
from sayso.adapters.crewai.tool_hooks import FRAMEWORK, Binding, bind, register_hooks
from sayso.adapters.crewai.tool_starts import guard_start, name_of
from sayso.adapters.kit import ControllerSettings, Gate, OnDenied, build_controller, check_on_denied
from sayso.engine.controller import ApprovalController
from sayso.errors import ConfigurationError
from sayso.policy.policy import Policy

_LOG = logging.getLogger("sayso")
_RUN_METHODS = ("kickoff", "kickoff_async", "akickoff")
_TOOL_MAKERS = ("get_delegation_tools", "get_mcp_tools", "get_platform_tools")
Target = TypeVar("Target", Crew, BaseAgent)


class Approvals:
    """Nothing that a crew or an agent calls runs without your say-so: `crew = Approvals(controller).guard(crew)`.

    Each call waits in place for its answer: a run of CrewAI cannot stop at a tool call and go on later.
    """

    def __init__(
        self,
        controller: ApprovalController | Policy | None = None,
        *,
        on_denied: OnDenied = "model",
        **settings: Unpack[ControllerSettings],
    ) -> None:
        """Use a controller, or build one from a policy and its settings.

        Args:
            controller: the controller; or a policy, for a controller of its own that is built with the other settings.
                Without either, the active controller is asked. Inside a tool of another agent, the policy can only make
                that agent's policy stricter. A controller that defers is refused.
            on_denied: `model` tells the model why a call did not run, `raise` ends the run with CrewAI's `HookAborted`,
                whose cause is an `ApprovalError`.
            **settings: those of `ApprovalController`.
        """
        built = build_controller(controller, settings, stops=FRAMEWORK)
        self._gate = Gate(built)
        self._unmatched = {} if built is None else dict(built.policy.patterns)
        self._binding = Binding(self._gate, check_on_denied(on_denied))

    @property
    def controller(self) -> ApprovalController:
        """The controller that is asked."""
        return self._gate.controller

    def guard(self, target: Target) -> Target:
        """Put a crew with all its agents, or a single agent, behind the controller, and return it.

        Its tools are guarded one by one, and so are those that CrewAI adds: from here on, they run in no other way.

        Raises:
            ConfigurationError: it is neither, or one of its tools cannot be guarded.
        """
        register_hooks()
        if isinstance(target, Crew):
            self._guard_crew(target)
        elif isinstance(target, BaseAgent):  # pyright: ignore[reportUnnecessaryIsInstance] - the user's code
            self._guard_agent(target)
        else:
            raise ConfigurationError(f"guard got {type(target).__name__}; pass a Crew or an Agent of CrewAI")
        return target

    def _guard_crew(self, crew: Crew) -> None:
        bind(crew, self._binding)
        _track_runs(crew, _RUN_METHODS, lambda _: None)
        _replace_method(crew, "copy", self.guard)  # `kickoff_for_each` runs copies
        agents = [*crew.agents, crew.manager_agent, *(task.agent for task in crew.tasks)]
        for agent in agents:
            if agent is not None:
                self._guard_agent(agent)
        for task in crew.tasks:
            task.tools = self._guarded(task.tools or [])

    def _guard_agent(self, agent: BaseAgent) -> None:
        bind(agent, self._binding)
        _track_runs(agent, _RUN_METHODS, lambda _: self._begin(agent))
        _track_runs(agent, ("execute_task", "aexecute_task"), lambda given: self._begin_task(agent, given))
        _replace_method(agent, "copy", self.guard)
        for name in _TOOL_MAKERS:  # CrewAI calls them at each run
            _replace_method(agent, name, self._guarded)
        agent.tools = self._guarded(agent.tools or [])
        self._hide_hosted_tools(cast("Any", agent).llm)

    def _begin(self, agent: BaseAgent) -> None:
        """Guard what has joined an agent since, and look again at what only the controller of this run can tell."""
        self._guarded(agent.tools or [])
        self._hide_hosted_tools(cast("Any", agent).llm)

    def _begin_task(self, agent: BaseAgent, given: dict[str, Any]) -> float | None:
        """Do the same for a task, whose tools are those of the agent, its own and CrewAI's; return its time."""
        self._begin(agent)
        if given.get("tools") is not None:
            given["tools"] = self._guarded(given["tools"])
        return cast("Any", agent).max_execution_time

    def _guarded(self, tools: Iterable[BaseTool]) -> list[BaseTool]:
        """Return the tools that the model is offered; those that are left out are guarded, too."""
        given = list(tools)
        for tool in given:
            guard_start(tool)
            bind(tool, self._binding)
        self._gate.know_tools([name_of(tool) for tool in given])
        self._warn_of_short_names(given)
        return [tool for tool in given if not self._hides(name_of(tool))]

    def _hides(self, tool: str) -> bool:
        """Whether a tool is not offered; without a controller so far, it is refused when it is called."""
        try:
            return self._gate.hides(tool)
        except ConfigurationError:
            return False

    def _allows(self, tool: str) -> bool:
        try:
            return self._gate.allows(tool)
        except ConfigurationError:
            return False

    def _hide_hosted_tools(self, llm: Any) -> None:  # noqa: ANN401 - one of CrewAI's many models, or its name
        """Take tools that run at the provider from a model, unless the policy lets them run unasked."""
        built_in: list[str] | None = getattr(llm, "builtin_tools", None)
        if built_in:
            llm.builtin_tools = [each for each in built_in if self._allows(each)]
        more: dict[str, Any] = getattr(llm, "additional_params", None) or {}
        if isinstance(more.get("tools"), list):
            more["tools"] = [each for each in more["tools"] if any(map(self._allows, _hosted_names(each)))]

    def _warn_of_short_names(self, tools: Iterable[BaseTool]) -> None:
        """Warn of rules that name a tool as its MCP server does: CrewAI puts the name of the server before it."""
        for tool in tools:
            short = tool.original_tool_name if isinstance(tool, MCPNativeTool | MCPToolWrapper) else None
            rule = None if short is None else self._unmatched.pop(short, None)
            if rule is not None:
                _LOG.warning("the rule %s names no tool: write %r, as CrewAI calls it", rule, name_of(tool))


def _hosted_names(tool: object) -> list[str]:
    """Return the names by which rules may allow a tool that runs at the provider."""
    given = cast("dict[str, Any]", tool) if isinstance(tool, dict) else {}
    return [str(given[key]) for key in ("name", "type") if key in given]


def _replace_method(target: Crew | BaseAgent, name: str, finish: Callable[[Any], Any]) -> None:
    """Let a method of this one object pass on what it returns through `finish`."""
    original = MethodType(getattr(type(target), name), target)

    def replaced(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - those of CrewAI
        return finish(original(*args, **kwargs))

    vars(target)[name] = replaced


def _track_runs(
    target: Crew | BaseAgent, names: Iterable[str], prepare: Callable[[dict[str, Any]], float | None]
) -> None:
    """Let the methods of this one object that run it say when a run begins, and when it is over."""

    def begin(given: dict[str, Any]) -> float | None:
        register_hooks()  # somebody may have cleared them
        return prepare(given)

    for name in names:
        method = getattr(type(target), name, None)  # not every agent runs by itself
        if method is not None:
            vars(target)[name] = tracked(MethodType(method, target), begin)
