"""Requests to the model: hides blocked tools, and tools that run at the provider unless the policy lets them run.

Tests: tests/adapters/google_adk/test_tools.py
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from google.adk.agents import LlmAgent
from google.genai import types

from sayso.adapters.google_adk.tool_gate import check_tool
from sayso.errors import ConfigurationError

if TYPE_CHECKING:
    from google.adk.events import Event
    from google.adk.models.llm_request import LlmRequest

    from sayso.adapters.kit import Gate

# The calls of these come back, and run here.
_RUNS_HERE = frozenset({"function_declarations", "computer_use"})


class ModelRequests:
    """What the plugin does before a model is called."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._tasks: set[str] = set()  # the agents in whose place nobody can be asked

    def note_tasks(self, agent: LlmAgent) -> None:
        """Note the agents to which this one may hand tasks over, though somebody would have to be asked first."""
        tasks = (each.name for each in agent.sub_agents if isinstance(each, LlmAgent) and each.mode == "task")
        self._tasks.update(each for each in tasks if not self._gate.allows(each))

    def shape(self, request: LlmRequest) -> None:
        """Leave out of a request what the model must not call.

        Raises:
            ConfigurationError: an agent among the tools would run unguarded.
        """
        for tool in request.tools_dict.values():
            check_tool(tool)
        self._gate.know_tools(list(request.tools_dict))
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
        declared = entry.function_declarations or []
        shown = [each for each in declared if self._shows(each.name or "")]
        kinds = [each for each in entry.model_fields_set - _RUNS_HERE if getattr(entry, each) is not None]
        hidden = [each for each in kinds if not self._gate.allows(each)]
        if len(shown) == len(declared) and not hidden:
            return entry
        left = entry.model_copy(update={**dict.fromkeys(hidden), "function_declarations": shown or None})
        return left if any(value is not None for _, value in left) else None
