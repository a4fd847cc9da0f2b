"""Requests to the model: hides blocked tools, and tools that run at the provider unless the policy lets them run.

Tests: tests/adapters/google_adk/test_tools.py
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from google.adk.agents import LlmAgent
from google.adk.tools import AgentTool
from google.genai import types

from sayso.adapters.google_adk.tool_gate import check_tool
from sayso.errors import ConfigurationError

if TYPE_CHECKING:
    from google.adk.agents import Context
    from google.adk.events import Event
    from google.adk.models.llm_request import LlmRequest
    from google.adk.tools import BaseTool

    from sayso.adapters.kit import Gate

# The calls of these come back, and run here.
_RUNS_HERE = frozenset({"function_declarations", "computer_use"})


class ModelRequests:
    """What the plugin does before a model is called."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._tasks: set[str] = set()  # the agents in whose place nobody can be asked

    def shape(self, _: Context, request: LlmRequest) -> None:
        """Leave out of a request what the model must not call.

        Raises:
            ConfigurationError: an agent among the tools would run unguarded.
        """
        for tool in request.tools_dict.values():
            check_tool(tool)
        self._gate.know_tools(list(request.tools_dict))
        self._tasks.update(
            each for each in map(_task_in, request.tools_dict.values()) if each and not self._gate.allows(each)
        )
        if request.config.tools:
            shown = [self._shown(each) for each in request.config.tools]
            request.config.tools = [each for each in shown if each is not None]

    def check_event(self, event: Event) -> None:
        """Check that a response of a model delegates no task that it was not shown: ADK calls no tool for one.

        Raises:
            ConfigurationError: it does.
        """
        for call in event.get_function_calls():
            if call.name in self._tasks and event.author != "user":
                raise ConfigurationError(
                    f"ADK hands a task to {call.name!r} without a call that somebody could be asked about; allow it "
                    f"by the rule {call.name}: none, or use the agent with mode='single_turn'"
                )

    def _shows(self, name: str) -> bool:
        return name not in self._tasks and not self._gate.hides(name)

    def _shown(self, entry: Any) -> Any:  # noqa: ANN401 - any of ADK's kinds of tools
        """Return what the model is shown of one entry of its tools."""
        if not isinstance(entry, types.Tool):
            return entry if self._gate.allows(getattr(entry, "__name__", type(entry).__name__)) else None
        declared = [each for each in entry.function_declarations or () if self._shows(each.name or "")]
        kinds = {name for name, value in entry if value is not None} - _RUNS_HERE
        hidden = dict.fromkeys((each for each in kinds if not self._gate.allows(each)), None)
        shown = entry.model_copy(update={**hidden, "function_declarations": declared or None})
        return shown if any(value is not None for _, value in shown) else None


def _task_in(tool: BaseTool) -> str | None:
    """Return the name of a tool whose calls hand a task over to an agent."""
    is_task = isinstance(tool, AgentTool) and isinstance(tool.agent, LlmAgent) and tool.agent.mode == "task"
    return tool.name if is_task else None
