"""Tools that no guard reaches, most of which run at the model's provider: shown only where the policy lets them run.

Tests: tests/adapters/openai_agents/test_other_tools.py
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Any

from agents import Agent, FunctionTool, HostedMCPTool, ModelSettings, Tool

from sayso.adapters.kit import Gate
from sayso.errors import ConfigurationError

_LOG = logging.getLogger("sayso")


class ProviderTools:
    """Decides which of them a model is shown, and tells once of each that is not."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._warned: set[str] = set()

    def may_show(self, tool: Tool) -> bool:
        """Whether the policy lets a tool run unasked, by its name or by the label of an MCP server."""
        names = list(_names_of(tool))
        if any(self._gate.allows(each) for each in names):
            return True
        if names[0] not in self._warned:
            self._warned.add(names[0])
            _LOG.warning(
                "the model is not shown %r, which runs where nobody can be asked; allow it by the rule %s: none",
                names[0],
                names[0],
            )
        return False

    def check(self, agent: Agent[Any]) -> None:
        """Check that an agent brings no tools to its model that nobody sees here.

        Raises:
            ConfigurationError: it may, and the policy does not let them run unasked.
        """
        if agent.prompt is not None:
            self._refuse_unless_allowed(agent)
        self.check_settings(agent, agent.model_settings)

    def check_settings(self, agent: Agent[Any], settings: ModelSettings | None) -> None:
        """Do the same for the settings of a model."""
        extra = () if settings is None else (settings.extra_body, settings.extra_args)
        if any(isinstance(each, Mapping) and {"tools", "prompt"} & each.keys() for each in extra):
            self._refuse_unless_allowed(agent)

    def _refuse_unless_allowed(self, agent: Agent[Any]) -> None:
        if not self._gate.allows("prompt"):
            raise ConfigurationError(
                f"the agent {agent.name!r} has a prompt or settings that may bring tools to its model, which run where "
                "nobody can be asked; allow them by the rule prompt: none, or take them out"
            )


def name_of(tool: Tool) -> str:
    """Return the name of a tool, by which rules call it."""
    return tool.qualified_name if isinstance(tool, FunctionTool) else tool.name


def _names_of(tool: Tool) -> Iterator[str]:
    if isinstance(tool, HostedMCPTool):
        yield str(tool.tool_config.get("server_label") or tool.name)
    yield tool.name
