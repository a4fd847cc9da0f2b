"""OpenAI Agents under the conformance suite: a scripted model; a pause is a parked id and the SDK's state."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any, ClassVar

from agents import (
    Agent,
    FunctionTool,
    Runner,
    RunState,
    ToolGuardrailFunctionOutput,
    function_tool,
    set_tracing_disabled,
    tool_input_guardrail,
)
from agents.mcp import MCPServerStdio
from agents.testing import ScriptedModel, assistant_message, function_call
from tests.adapters.conformance import Driver, Response, Seen, Tool

from sayso import ApprovalController
from sayso.adapters.openai_agents import Approvals, park, resume

set_tracing_disabled(disabled=True)


@dataclass
class Prompt:
    """What an agent is asked as a tool."""

    prompt: str


def scripted(responses: Sequence[Response]) -> ScriptedModel:
    """Return a model that gives the responses of a script."""
    steps: list[Any] = []
    for each in responses:
        if isinstance(each, str):
            steps.append([assistant_message(each)])
        else:
            steps.append([function_call(call.tool, dict(call.args), call_id=call.id) for call in each])
    return ScriptedModel(steps)


def as_tool(given: Tool) -> Any:
    """Return a function as a tool of its own."""
    return given if isinstance(given, FunctionTool) else function_tool(given)


def agent_of(responses: Sequence[Response], tools: Sequence[Tool], **settings: Any) -> Agent[Any]:
    """Return an agent with a scripted model."""
    name = settings.pop("name", "agent")
    return Agent(name=name, model=scripted(responses), tools=[as_tool(each) for each in tools], **settings)


class OpenAIAgentsDriver(Driver):
    """Agents of the SDK; a pause is the id of the parked run, and the JSON of its state."""

    name = "OpenAI Agents"
    cannot: ClassVar = {}

    async def run(
        self,
        responses: Sequence[Response],
        tools: Sequence[Tool],
        controller: ApprovalController | None,
        *,
        how: str = "async",
        name: str = "agent",
        **options: Any,
    ) -> Seen:
        after, mcp = options.pop("after", None), options.pop("mcp", None)
        approvals = Approvals(controller, **options)
        async with AsyncExitStack() as stack:
            servers: list[Any] = []
            if mcp is not None:
                params: Any = {"command": mcp[0], "args": mcp[1]}
                servers.append(
                    await stack.enter_async_context(MCPServerStdio(params, client_session_timeout_seconds=60))
                )
            agent = approvals.guard(with_guardrail(agent_of(responses, tools, name=name, mcp_servers=servers), after))
            result = await run_agent(agent, how)
            return await seen(result, agent, controller)

    async def bare(self, responses: Sequence[Response], tools: Sequence[Tool], **options: Any) -> Seen:
        agent = with_guardrail(agent_of(responses, tools), options.get("after"))
        return await seen(await Runner.run(agent, "go"), agent, None)

    def tool(self, function: Callable[..., Any], *, asks: bool = False) -> Tool:
        return function_tool(function, needs_approval=asks)

    def agent_tool(
        self,
        name: str,
        responses: Sequence[Response],
        tools: Sequence[Tool],
        controller: ApprovalController | None = None,
        *,
        guarded: bool = True,
    ) -> Tool:
        agent = agent_of(responses, tools, name=name)
        if guarded:
            agent = Approvals(controller).guard(agent)
        return agent.as_tool(name, "Ask a helper.", parameters=Prompt)

    async def go_on(
        self,
        pause: Any,
        responses: Sequence[Response],
        tools: Sequence[Tool],
        controller: ApprovalController,
        *,
        forced: bool = False,
        name: str = "agent",
    ) -> Seen:
        agent = Approvals(controller).guard(agent_of(responses, tools, name=name))
        if forced:
            state = await RunState.from_json(agent, pause["state"])
            for each in state.get_interruptions():
                state.approve(each, always_approve=True)
            result: Any = await Runner.run(agent, state)
            return await seen(result, agent, controller)
        result = await resume(agent, pause["parked"], controller=controller)
        return await seen(result, agent, controller, parked=pause["parked"])

    def snapshot(self, pause: Any) -> bytes:
        return json.dumps(pause).encode()

    def restore(self, record: bytes) -> Any:
        return json.loads(record)

    def changed(self, record: bytes, before: str, after: str) -> bytes:
        return record.replace(before.encode(), after.encode())

    def late_hook(self, change: Callable[[dict[str, Any]], None]) -> Any:
        @tool_input_guardrail
        def meddle(data: Any) -> ToolGuardrailFunctionOutput:
            args = json.loads(data.context.tool_call.arguments)
            change(args)
            data.context.tool_call.arguments = json.dumps(args)
            return ToolGuardrailFunctionOutput.allow()

        return meddle


def with_guardrail(agent: Agent[Any], guardrail: Any) -> Agent[Any]:
    """Return an agent with a guardrail before its tools."""
    for each in agent.tools:
        if guardrail is not None and isinstance(each, FunctionTool):
            each.tool_input_guardrails = [guardrail]
    return agent


async def run_agent(agent: Agent[Any], how: str) -> Any:
    """Run an agent in one of the three ways."""
    if how == "sync":
        return await asyncio.to_thread(_run_sync, agent)
    if how == "stream":
        result = Runner.run_streamed(agent, "go")
        async for _ in result.stream_events():
            pass
        return result
    return await Runner.run(agent, "go")


def _run_sync(agent: Agent[Any]) -> Any:
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        return Runner.run_sync(agent, "go")
    finally:
        asyncio.set_event_loop(None)
        loop.close()


async def seen(result: Any, agent: Any, controller: ApprovalController | None, parked: str | None = None) -> Seen:
    """Return what came of a run."""
    stopped = bool(result.interruptions)
    if stopped and controller is not None and parked is None:
        parked = await park(result, controller)
    items = [each for each in result.to_input_list() if each.get("type") == "function_call_output"]
    return Seen(
        text=None if stopped else str(result.final_output),
        told={each["call_id"]: str(each["output"]) for each in items},
        shown=[[each.name for each in call.tools] for call in agent.model.calls],
        pause={"parked": parked, "state": result.to_state().to_json()} if stopped else None,
    )
