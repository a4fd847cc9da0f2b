"""Agents as tools: an agent that another one calls needs `Approvals` of its own, for the framework passes none on.

Tests: tests/adapters/agent_framework/test_agents.py
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any, cast

from agent_framework import (
    Agent,
    AgentExecutor,
    AgentMiddleware,
    BaseAgent,
    FunctionTool,
    RawAgent,
    Workflow,
    WorkflowAgent,
    WorkflowExecutor,
)

from sayso.adapters.agent_framework.function_calls import innermost
from sayso.errors import ConfigurationError

_WRAPPER = f"{BaseAgent.as_tool.__qualname__}.<locals>."  # the function that `as_tool` makes has no public name


class GuardMark(AgentMiddleware):
    """The mark of the middleware by which an agent is known to be guarded."""


def check_agent_tool(tool: FunctionTool) -> None:
    """Check that the agent behind a tool, if there is one, is guarded.

    Raises:
        ConfigurationError: it is not.
    """
    function: Any = innermost(tool).func
    function = inspect.unwrap(function)
    if not inspect.isfunction(function) or not function.__qualname__.startswith(_WRAPPER):
        return
    for agent in _agents_in(inspect.getclosurevars(function).nonlocals.get("self")):
        if not isinstance(agent, Agent) or not any(isinstance(each, GuardMark) for each in agent.middleware or ()):
            raise ConfigurationError(
                f"the tool {tool.name!r} is an agent without `Approvals`, or has one inside it; build it as an `Agent` "
                "with `middleware=[Approvals()]`"
            )


def _agents_in(agent: object) -> Iterator[RawAgent[Any]]:
    """Yield an agent that calls tools here, or those of a workflow."""
    if isinstance(agent, RawAgent):
        yield cast("RawAgent[Any]", agent)
    elif isinstance(agent, WorkflowAgent):
        yield from _agents_of(agent.workflow)


def _agents_of(workflow: Workflow) -> Iterator[RawAgent[Any]]:
    for executor in workflow.get_executors_list():
        if isinstance(executor, AgentExecutor):
            yield from _agents_in(executor.agent)
        elif isinstance(executor, WorkflowExecutor):
            yield from _agents_of(executor.workflow)
