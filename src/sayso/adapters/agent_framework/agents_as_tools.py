"""Agents as tools: an agent that another one calls needs `Approvals` of its own, for the framework passes none on.

Tests: tests/adapters/agent_framework/test_agents.py
"""

from __future__ import annotations

import inspect

from agent_framework import AgentMiddleware, BaseAgent, FunctionTool, RawAgent

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
    function = tool.func and inspect.unwrap(innermost(tool).func or tool.func)
    if not inspect.isfunction(function) or not function.__qualname__.startswith(_WRAPPER):
        return
    agent = inspect.getclosurevars(function).nonlocals.get("self")
    if isinstance(agent, RawAgent) and not any(isinstance(each, GuardMark) for each in agent.middleware or ()):
        raise ConfigurationError(
            f"the tool {tool.name!r} is an agent without `Approvals`; build it with `middleware=[Approvals()]`"
        )
