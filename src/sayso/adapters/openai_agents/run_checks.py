"""Run checks: the SDK's default runner, with a backstop under unguarded agents.

`Agent.as_tool` and a tool that runs an agent take no hooks of the run around them. All runs pass the default runner.

Tests: tests/adapters/openai_agents/test_holes.py
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Generator
from typing import Any, cast

from agents import (
    Agent,
    FunctionTool,
    ModelResponse,
    ModelSettings,
    RunConfig,
    RunContextWrapper,
    RunHooks,
    RunResult,
    RunResultStreaming,
    Tool,
)
from agents.lifecycle import RunHooksBase
from agents.run import get_default_agent_runner, set_default_agent_runner
from agents.tool_context import ToolContext

from sayso.adapters.kit import Gate, check_start
from sayso.adapters.openai_agents.model_arguments import read_arguments
from sayso.adapters.openai_agents.provider_tools import ProviderTools, name_of
from sayso.adapters.openai_agents.run_messages import MODEL_INPUT, ModelInput
from sayso.engine import context as running
from sayso.errors import ConfigurationError


class GuardedMark:
    """The mark of agents whose tools decide about their calls themselves."""

    def check_model_settings(self, settings: ModelSettings | None) -> None:
        """Check that settings bring no tools to the model that nobody sees here."""
        raise NotImplementedError


def check_runs() -> None:
    """Let all runs from here on pass the checks; once, round the runner that the SDK has now."""
    # The SDK calls this experimental. Without it, an agent inside a tool that nobody guards would run anything.
    current: Any = get_default_agent_runner()
    if not isinstance(current, CheckedRunner):
        set_default_agent_runner(cast("Any", CheckedRunner(current)))


class CheckedRunner:
    """The runner that was the default one, whose runs are checked where they begin behind or inside `Approvals`."""

    def __init__(self, runner: Any) -> None:  # noqa: ANN401 - the SDK's own type
        self._runner = runner

    async def run(self, starting_agent: Agent[Any], input: Any, **settings: Any) -> RunResult:  # noqa: A002, ANN401 - the SDK's own
        """Run an agent."""
        with _noting_input():
            return await self._runner.run(starting_agent, input, **_checked(starting_agent, settings))

    def run_sync(self, starting_agent: Agent[Any], input: Any, **settings: Any) -> RunResult:  # noqa: A002, ANN401 - the SDK's own
        """Run an agent, for synchronous callers."""
        with _noting_input():
            return self._runner.run_sync(starting_agent, input, **_checked(starting_agent, settings))

    def run_streamed(self, starting_agent: Agent[Any], input: Any, **settings: Any) -> RunResultStreaming:  # noqa: A002, ANN401 - the SDK's own
        """Run an agent, and return its events."""
        with _noting_input():
            return self._runner.run_streamed(starting_agent, input, **_checked(starting_agent, settings))


@contextlib.contextmanager
def _noting_input() -> Generator[None]:
    """Let the tools of a run know what its model was given."""
    token = MODEL_INPUT.set(ModelInput())
    try:
        yield
    finally:
        running.reset(MODEL_INPUT, token)


def _checked(agent: Agent[Any], settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of a run with the checks that it needs."""
    is_guarded = isinstance(agent, GuardedMark)
    hooks: Any = settings.get("hooks")
    if (is_guarded or running.current_call() is not None) and isinstance(hooks, RunHooksBase | None):
        settings = {**settings, "hooks": StartHooks(cast("Any", hooks), only_guarded=is_guarded)}
    if not isinstance(agent, GuardedMark):
        return settings
    config = _telling(settings.get("run_config"))
    if isinstance(config, RunConfig):
        agent.check_model_settings(config.model_settings)
    return {**settings, "run_config": config}


def _telling(given: object) -> object:
    """Return the settings of a run, in which the model is told of a call to a tool that is hidden from it."""
    config = RunConfig(**cast("dict[str, Any]", given)) if isinstance(given, dict) else given
    if not isinstance(config, RunConfig | None):
        return config  # which the SDK refuses
    return dataclasses.replace(config or RunConfig(), tool_not_found_behavior="return_error_to_model")


class StartHooks(RunHooks[Any]):
    """The hooks of a run, with a check before each tool of an agent that nobody guards."""

    def __init__(self, hooks: RunHooksBase[Any, Any] | None, *, only_guarded: bool) -> None:
        self._hooks: RunHooksBase[Any, Any] = hooks or RunHooks()
        self._only_guarded = only_guarded

    async def on_tool_start(self, context: RunContextWrapper[Any], agent: Any, tool: Tool) -> None:  # noqa: ANN401 - the SDK's own
        """Stop a tool that passes no gate, unless the policy lets it run unasked."""
        if not isinstance(agent, GuardedMark):
            if self._only_guarded:
                raise ConfigurationError(
                    f"the agent {agent.name!r} has no `Approvals`, and goes on with the run of one that has; "
                    "build the state of the run with the guarded agent"
                )
            check_start(tool.name, _arguments_of(context))
        await self._hooks.on_tool_start(context, agent, tool)

    async def on_tool_end(self, context: RunContextWrapper[Any], agent: Any, tool: Tool, result: object) -> None:  # noqa: ANN401 - the SDK's own
        """Pass it on."""
        await self._hooks.on_tool_end(context, agent, tool, result)

    async def on_agent_start(self, context: Any, agent: Any) -> None:  # noqa: ANN401 - the SDK's own
        """Pass it on."""
        await self._hooks.on_agent_start(context, agent)

    async def on_agent_end(self, context: Any, agent: Any, output: Any) -> None:  # noqa: ANN401 - the SDK's own
        """Pass it on."""
        await self._hooks.on_agent_end(context, agent, output)

    async def on_handoff(self, context: RunContextWrapper[Any], from_agent: Any, to_agent: Any) -> None:  # noqa: ANN401 - the SDK's own
        """Pass it on."""
        await self._hooks.on_handoff(context, from_agent, to_agent)

    async def on_llm_start(
        self,
        context: RunContextWrapper[Any],
        agent: Any,  # noqa: ANN401 - the SDK's own
        system_prompt: str | None,
        input_items: list[Any],
    ) -> None:
        """Note what the model is given; an agent that nobody guards brings no tools that run elsewhere."""
        if running.current_call() is not None:
            await _check_inside(agent, context)
        if (noted := MODEL_INPUT.get()) is not None:
            noted.items = input_items
        await self._hooks.on_llm_start(context, agent, system_prompt, input_items)

    async def on_llm_end(self, context: RunContextWrapper[Any], agent: Any, response: ModelResponse) -> None:  # noqa: ANN401 - the SDK's own
        """Pass it on."""
        await self._hooks.on_llm_end(context, agent, response)


async def _check_inside(agent: Agent[Any], context: RunContextWrapper[Any]) -> None:
    """Check that an agent inside a guarded call shows its model only tools whose start is seen, if nobody guards it.

    Raises:
        ConfigurationError: it would be shown others, and the policy does not let them run unasked.
    """
    if isinstance(agent, GuardedMark):
        return
    known = ProviderTools(Gate())
    known.check(agent)
    shown = [tool for tool in await agent.get_all_tools(context) if not isinstance(tool, FunctionTool)]
    hidden = [name_of(tool) for tool in shown if not known.may_show(tool)]
    if hidden:
        raise ConfigurationError(
            f"the agent {agent.name!r} has no `Approvals`, and its tool {hidden[0]!r} may run where nobody can be "
            f"asked; guard the agent, or allow the tool by the rule {hidden[0]}: none"
        )


def _arguments_of(context: RunContextWrapper[Any]) -> dict[str, Any] | None:
    """Return the arguments that a tool starts with, where the SDK shows them."""
    if not isinstance(context, ToolContext):
        return None
    try:
        return read_arguments(context.tool_arguments)
    except ValueError:
        return None
