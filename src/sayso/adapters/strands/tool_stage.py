"""The innermost middleware round a tool: decides about each call, and runs it once, as it was decided.

Tests: tests/adapters/strands/test_conformance.py
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, cast

from strands.interrupt import InterruptException
from strands.tools.structured_output.structured_output_tool import StructuredOutputTool
from strands.types.tools import AgentTool, ToolResult, ToolUse

from sayso.adapters.kit import Gate, GuardedRun, OnDenied, add_feedback, call_text, check_start, has_feedback, suspend
from sayso.adapters.strands.agent_calls import AgentCall, identify, text_of
from sayso.adapters.strands.event_task import in_own_task
from sayso.adapters.strands.guarded_agents import check_agent, check_agent_tool
from sayso.adapters.strands.stages import ExecuteToolContext, ToolResultEvent, TypedEvent
from sayso.core.canonical import thaw
from sayso.core.model import Approved, Denied
from sayso.engine import context

if TYPE_CHECKING:
    from sayso.adapters.strands.model_stage import ModelStage
    from sayso.adapters.strands.stopping import Stops

NextStage = Callable[[ExecuteToolContext], AsyncGenerator[TypedEvent, None]]

# Whether the running tools pass on the interrupts of an agent inside them; a function that runs one does not.
_PASSES_INTERRUPTS: ContextVar[bool] = ContextVar("sayso_strands_passes_interrupts", default=False)
_CANCELLED = "the agent was cancelled"


class CheckedTool(AgentTool):
    """A tool as it was approved: it starts once, with the approved arguments."""

    def __init__(self, tool: AgentTool) -> None:
        super().__init__()
        self._tool = tool

    @property
    def tool_name(self) -> str:
        """The name of the tool."""
        return self._tool.tool_name

    @property
    def tool_spec(self) -> Any:  # noqa: ANN401 - Strands' own type
        """What the model reads about it."""
        return self._tool.tool_spec

    @property
    def tool_type(self) -> str:
        """The kind of the tool."""
        return self._tool.tool_type

    @property
    def supports_hot_reload(self) -> bool:
        """Whether the tool can be loaded anew."""
        return self._tool.supports_hot_reload

    def stream(self, tool_use: ToolUse, invocation_state: dict[str, Any], **kwargs: Any) -> Any:  # noqa: ANN401 - Strands' own
        """Check the start of the tool, and run it."""
        check_start(self._tool.tool_name, tool_use["input"])
        return self._tool.stream(tool_use, invocation_state, **kwargs)


class ToolStage:
    """Strands' middleware for `ExecuteToolStage`, which has to be the last one that is added."""

    def __init__(self, gate: Gate, stops: Stops, model: ModelStage, on_denied: OnDenied) -> None:
        self._gate = gate
        self._stops = stops
        self._model = model
        self._on_denied = on_denied

    async def handle(self, stage: ExecuteToolContext, next_stage: NextStage) -> AsyncGenerator[TypedEvent, None]:
        """Decide about a call, and run it if it is approved."""
        check_agent(stage.agent)
        check_agent_tool(stage.tool)  # which a hook may have chosen, though the agent has it not
        if type(stage.tool) is StructuredOutputTool:  # it checks the model's last answer, and does nothing
            async for event in next_stage(stage):
                yield event
            return
        asked = identify(stage, self._gate)
        outcome = asked if isinstance(asked, Denied) else await self._decide(asked)
        if isinstance(asked, Denied) or isinstance(outcome, Denied):
            yield self._denied_event(stage, cast("Denied", outcome))
            return
        async with contextlib.aclosing(in_own_task(self._run(asked, outcome, next_stage))) as events:
            async for event in events:
                yield event

    async def _decide(self, asked: AgentCall) -> Approved | Denied:
        with context.messages_from(asked.messages):
            outcome = await self._stops.decide(asked, is_new=self._model.take(asked), inline=not _can_stop(asked))
        if asked.stage.cancel_signal.is_set():  # while somebody was asked
            return Denied(cause="withdrawn", reason=_CANCELLED)
        return outcome

    async def _run(
        self, asked: AgentCall, outcome: Approved, next_stage: NextStage
    ) -> AsyncGenerator[TypedEvent, None]:
        run = GuardedRun(self._gate, asked.call, outcome, marked_as=asked.tool.marked_as, messages=asked.messages)
        result: ToolResultEvent | None = None
        with _passing_interrupts(asked), run:
            try:
                async with contextlib.aclosing(next_stage(_approved(asked.stage, outcome))) as events:
                    async for event in events:
                        if isinstance(event, ToolResultEvent):
                            result = event
                            continue
                        if "tool_interrupt_event" in event:  # an agent inside it has to ask
                            await suspend(run, asked.call, self._gate.controller)
                        yield event
            except InterruptException:
                await suspend(run, asked.call, self._gate.controller)
                raise
            if result is not None and result.exception is not None:
                run.raised(result.exception)
            elif result is not None:
                run.result = result.tool_result
        if result is not None:
            yield _told(result, asked, outcome)

    def _denied_event(self, stage: ExecuteToolContext, outcome: Denied) -> ToolResultEvent:
        """Return the words for the model in the place of the result."""
        if self._on_denied == "raise" and outcome.cause != "failed":
            self._model.raise_next(stage, outcome.error(stage.tool_use["name"]))
        content: Any = [{"text": outcome.message}]
        return ToolResultEvent(ToolResult(toolUseId=stage.tool_use["toolUseId"], status="error", content=content))


def _can_stop(asked: AgentCall) -> bool:
    """Whether an interrupt of this call reaches the application, which can resume the agent."""
    return not asked.direct and (context.current_call() is None or _PASSES_INTERRUPTS.get())


@contextlib.contextmanager
def _passing_interrupts(asked: AgentCall) -> Generator[None]:
    """Say to the agents in the block whether they can stop; entered before the call is the current one."""
    tool = asked.stage.tool
    token = _PASSES_INTERRUPTS.set(_can_stop(asked) and tool is not None and tool.tool_type == "agent")
    try:
        yield
    finally:
        context.reset(_PASSES_INTERRUPTS, token)


def _approved(stage: ExecuteToolContext, outcome: Approved) -> ExecuteToolContext:
    given: Any = {**stage.tool_use, "input": thaw(outcome.args)}
    return dataclasses.replace(stage, tool=CheckedTool(cast("AgentTool", stage.tool)), tool_use=given)


def _told(event: ToolResultEvent, asked: AgentCall, outcome: Approved) -> ToolResultEvent:
    """Return the result with what a person has edited and noted."""
    if not has_feedback(outcome):
        return event
    result: Mapping[str, Any] = cast("Any", event.tool_result)
    told = add_feedback(text_of(result), outcome, call_text(asked.call.tool, outcome.args))
    others = [each for each in result["content"] if "text" not in each]
    return ToolResultEvent(cast("Any", {**result, "content": [{"text": told}, *others]}), exception=event.exception)
