"""The middleware round the model: hides blocked tools, and notes the calls that the model makes.

Tests: tests/adapters/strands/test_conformance.py
"""

from __future__ import annotations

import dataclasses
import weakref
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

from sayso.adapters.kit import Gate
from sayso.adapters.strands.agent_calls import calls_of
from sayso.adapters.strands.guarded_agents import check_agent
from sayso.adapters.strands.stages import InvokeModelContext, ModelStopReason, TypedEvent
from sayso.errors import ConfigurationError

if TYPE_CHECKING:
    from sayso.adapters.strands.agent_calls import AgentCall, Message
    from sayso.adapters.strands.stages import ExecuteToolContext

NextStage = Callable[[InvokeModelContext], AsyncGenerator[TypedEvent, None]]


class ModelStage:
    """Strands' middleware for `InvokeModelStage`."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        # The newest response of each agent's model in this process, and those of its calls that nobody has taken.
        self._new: weakref.WeakKeyDictionary[Any, tuple[Message, set[str]]] = weakref.WeakKeyDictionary()

    async def handle(self, stage: InvokeModelContext, next_stage: NextStage) -> AsyncGenerator[TypedEvent, None]:
        """Ask the model, which is shown what it may call."""
        error = stage.invocation_state.pop(_error_key(stage.agent), None)
        if error is not None:
            raise error
        check_agent(stage.agent)
        self._check_provider_tools(stage.model)
        self._gate.know_tools([each["name"] for each in stage.tool_specs])
        shown = [each for each in stage.tool_specs if not self._gate.hides(each["name"])]
        async for event in next_stage(dataclasses.replace(stage, tool_specs=shown)):
            if isinstance(event, ModelStopReason):
                message = cast("Any", event)["stop"][1]
                self._new[stage.agent] = message, calls_of(message)
            yield event

    def take(self, asked: AgentCall) -> bool:
        """Whether the model has just made a call in this process, once: nobody can have been asked about it before."""
        message, calls = self._new.get(asked.stage.agent, (None, set[str]()))
        if message is None or message is not asked.message or asked.call.call_id not in calls:
            return False
        calls.discard(asked.call.call_id)
        return True

    def raise_next(self, stage: ExecuteToolContext, error: Exception) -> None:
        """End the run with an error before the model is asked again.

        What a middleware round a tool raises, Strands tells to the model, and goes on.
        """
        stage.invocation_state.setdefault(_error_key(stage.agent), error)

    def _check_provider_tools(self, model: Any) -> None:  # noqa: ANN401 - Strands' own type
        for name, kind in provider_tools(cast("object", model.get_config())):
            if not (self._gate.allows(name) or self._gate.allows(kind)):
                raise ConfigurationError(
                    f"the model has the tool {name!r}, which runs at its provider, where nobody can be asked; allow it "
                    f"by the rule {name}: none, or take it out of the model's settings"
                )


def _error_key(agent: object) -> str:
    """Return the key of the error with which the run of an agent ends; the agents of a graph share their state."""
    return f"sayso_denied:{id(agent)}"


def provider_tools(config: object) -> Iterator[tuple[str, str]]:
    """Yield name and type of each tool in the settings of a model: Strands' own tools are never there."""
    if not isinstance(config, Mapping):
        return
    for key, value in cast("Mapping[object, Any]", config).items():
        if isinstance(value, list | tuple) and str(key).endswith("tools"):
            yield from (_name_of(each) for each in cast("list[object]", value))
        else:
            yield from provider_tools(cast("object", value))


def _name_of(tool: object) -> tuple[str, str]:
    """Return name and type of a provider's tool: a mapping, or a record that has one field for its kind."""
    if isinstance(tool, Mapping):
        given = cast("Mapping[str, object]", tool)
    else:
        given = {name: value for name, value in vars(tool).items() if value is not None}
    kind = str(given.get("type") or next(iter(given), "unknown"))
    inner = given.get(kind)  # such as {"systemTool": {"name": "web_search"}}
    named = cast("Mapping[str, object]", inner) if isinstance(inner, Mapping) else given
    return str(named.get("name") or kind), kind
