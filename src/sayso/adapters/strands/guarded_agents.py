"""Guarded agents: which agents are behind `Approvals`, and whether anything could run behind its back.

Tests: tests/adapters/strands/test_holes.py
"""

from __future__ import annotations

import weakref
from typing import Any

from strands import Agent
from strands.types.tools import AgentTool

from sayso.adapters.strands.stages import ExecuteToolStage
from sayso.errors import ConfigurationError

_HANDLERS: weakref.WeakKeyDictionary[Agent, object] = weakref.WeakKeyDictionary()


def add_guarded(agent: Agent, handler: object) -> None:
    """Note that an agent is guarded by this middleware round its tools."""
    _HANDLERS[agent] = handler


def is_guarded(agent: object) -> bool:
    """Whether an agent is behind `Approvals`."""
    return agent in _HANDLERS


def check_agent(agent: Any) -> None:  # noqa: ANN401 - Strands' own type of a local agent
    """Check that the middleware round the tools of an agent is the innermost, and that agents among them have one.

    Raises:
        ConfigurationError: something could run that nobody has decided about.
    """
    # Strands tells by no public name which middleware an agent has; one that is added later could do as it likes.
    registry = agent._middleware_registry  # noqa: SLF001 - see above
    handlers: list[Any] = registry._handlers.get(ExecuteToolStage, [])  # noqa: SLF001 - see above
    wrapping = [each.handler for each in handlers if each.phase == "wrap"]
    if not wrapping or wrapping[-1] != _HANDLERS.get(agent):
        raise ConfigurationError(
            f"another middleware was added to the agent {agent.name!r} after `Approvals`, and could change what runs; "
            "add it by a plugin, or before `Approvals(…).guard(agent)`"
        )
    for tool in agent.tool_registry.registry.values():
        check_agent_tool(tool)


def check_agent_tool(tool: AgentTool | None) -> None:
    """Check that the agent behind a tool, if there is one, is guarded.

    Raises:
        ConfigurationError: it is not.
    """
    # The adapter for agents as tools tells by public names what it is; the name of its class is not public.
    if tool is not None and tool.tool_type == "agent" and not is_guarded(getattr(tool, "agent", None)):
        raise ConfigurationError(
            f"the tool {tool.tool_name!r} is an agent without `Approvals`; build it with `plugins=[Approvals()]`"
        )
