"""PydanticAI under the conformance suite: agents with the capability; a pause is the history that a host keeps."""

# PydanticAI's parts and the tools of an agent have too many types to name them all here.
# pyright: basic

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Sequence
from typing import Any, ClassVar

from pydantic import TypeAdapter
from pydantic_ai import Agent, RunContext, Tool
from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel
from pydantic_ai.run import AgentRunResult
from pydantic_ai.tools import DeferredToolRequests, DeferredToolResults
from tests.adapters.conformance import Call, Driver, Response, Seen
from tests.adapters.conformance import Tool as AnyTool

from sayso import ApprovalController
from sayso.adapters.pydantic_ai import Approvals, delegate, park, resume

_REQUESTS = TypeAdapter(DeferredToolRequests)
OUTPUT: Any = [str, DeferredToolRequests]


class Script:
    """A model that gives these responses, and notes which tools it was shown."""

    def __init__(self, responses: Sequence[Response]) -> None:
        self._responses = list(responses)
        self.shown: list[list[str]] = []

    def model(self) -> FunctionModel:
        return FunctionModel(self._respond, stream_function=self._stream)

    def _next(self, info: AgentInfo) -> Response:
        self.shown.append([each.name for each in info.function_tools])
        return self._responses.pop(0)

    def _respond(self, _: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        given = self._next(info)
        if isinstance(given, str):
            return ModelResponse([TextPart(given)])
        return ModelResponse([ToolCallPart(each.tool, dict(each.args), tool_call_id=each.id) for each in given])

    async def _stream(self, _: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
        given = self._next(info)
        if isinstance(given, str):
            yield given
        else:
            yield {at: _delta(each) for at, each in enumerate(given)}


def _delta(call: Call) -> DeltaToolCall:
    return DeltaToolCall(name=call.tool, json_args=json.dumps(call.args), tool_call_id=call.id)


class PydanticAIDriver(Driver):
    """Agents of PydanticAI; a pause is the id of the parked run, or the history that a host has kept itself."""

    name = "PydanticAI"
    cannot: ClassVar = {
        "a_late_hook_cannot_change_what_was_approved": "`Approvals` is the innermost capability, so nothing follows",
        "a_late_hook_does_what_it_likes_without_sayso": "as above",
        "a_nested_agent_that_nobody_guards_cannot_run_what_asks": (
            "no hook reaches an agent that is run by hand inside a tool; `delegate` guards it"
        ),
    }

    async def run(
        self,
        responses: Sequence[Response],
        tools: Sequence[AnyTool],
        controller: ApprovalController | None,
        *,
        how: str = "async",
        name: str = "agent",
        **options: Any,
    ) -> Seen:
        mcp, script = options.pop("mcp", None), Script(responses)
        agent: Agent[None, Any] = Agent(
            script.model(),
            name=name,
            tools=list(tools),
            toolsets=_servers(mcp),
            output_type=OUTPUT,
            capabilities=[Approvals(controller, **options)],
        )
        if how == "sync":
            result = await asyncio.to_thread(_run_sync, agent)
        elif how == "stream":
            async with agent.iter("go") as run:
                async for _ in run:
                    pass
            assert run.result is not None
            result = run.result
        else:
            async with agent:
                result = await agent.run("go")
        return await _seen(result, script, controller)

    async def bare(self, responses: Sequence[Response], tools: Sequence[AnyTool], **options: Any) -> Seen:
        script = Script(responses)
        agent: Agent[None, Any] = Agent(script.model(), tools=list(tools), output_type=OUTPUT)
        return await _seen(await agent.run("go"), script, None)

    def tool(self, function: Any, *, asks: bool = False) -> AnyTool:
        return Tool(function, requires_approval=asks)

    def agent_tool(
        self,
        name: str,
        responses: Sequence[Response],
        tools: Sequence[AnyTool],
        controller: ApprovalController | None = None,
        *,
        guarded: bool = True,
    ) -> AnyTool:
        capabilities = [Approvals(controller)] if guarded else []
        agent: Agent[None, Any] = Agent(
            Script(responses).model(), name=name, tools=list(tools), capabilities=capabilities
        )

        async def helper(_: RunContext[Any], prompt: str) -> str:
            """Ask the helper."""
            return await delegate(agent, prompt) if guarded else (await agent.run(prompt)).output

        return Tool(helper, name=name)

    async def go_on(
        self,
        pause: Any,
        responses: Sequence[Response],
        tools: Sequence[AnyTool],
        controller: ApprovalController,
        *,
        forced: bool = False,
        name: str = "agent",
    ) -> Seen:
        parked, record, script = pause["parked"], pause["record"], Script(responses)
        agent: Agent[None, Any] = Agent(
            script.model(),
            name=name,
            tools=list(tools),
            output_type=OUTPUT,
            capabilities=[Approvals(controller)],
        )
        if parked is not None and not forced:
            result = await resume(agent, parked, controller=controller)
        else:
            kept = json.loads(record)
            requests = _REQUESTS.validate_python(kept["requests"])
            given = DeferredToolResults(approvals={part.tool_call_id: True for part in requests.approvals})
            history = ModelMessagesTypeAdapter.validate_python(kept["history"])
            result = await agent.run(message_history=history, deferred_tool_results=given)
        return await _seen(result, script, controller)

    def snapshot(self, pause: Any) -> bytes:
        return pause["record"]

    def restore(self, record: bytes) -> Any:
        return {"parked": None, "record": record}

    def changed(self, record: bytes, before: str, after: str) -> bytes:
        return record.replace(before.encode(), after.encode())


def _run_sync(agent: Agent[None, Any]) -> AgentRunResult[Any]:
    """Run an agent from synchronous code, with a loop that is closed: PydanticAI leaves one that it made open."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        return agent.run_sync("go")
    finally:
        asyncio.set_event_loop(None)
        loop.close()


def _servers(mcp: Any) -> list[Any]:
    if mcp is None:
        return []
    try:
        from fastmcp.client.transports import StdioTransport  # noqa: PLC0415 - of PydanticAI 2
        from pydantic_ai.mcp import MCPToolset  # noqa: PLC0415 - as above
    except ImportError:
        from pydantic_ai.mcp import MCPServerStdio  # pyright: ignore[reportAttributeAccessIssue]  # noqa: PLC0415

        return [MCPServerStdio(mcp[0], args=mcp[1])]
    return [MCPToolset(StdioTransport(mcp[0], mcp[1]))]


async def _seen(result: AgentRunResult[Any], script: Script, controller: ApprovalController | None) -> Seen:
    parts: list[Any] = [part for message in result.all_messages() for part in message.parts]
    told = {each.tool_call_id: str(each.content) for each in parts if each.part_kind in {"tool-return", "retry-prompt"}}
    seen = Seen(told=told, shown=script.shown)
    if not isinstance(result.output, DeferredToolRequests):
        seen.text = result.output
        return seen
    record = {
        "history": json.loads(result.all_messages_json()),
        "requests": json.loads(_REQUESTS.dump_json(result.output)),
    }
    parked = None
    if controller is not None:
        with contextlib.suppress(ValueError):
            parked = await park(result, controller)
    seen.pause = {"parked": parked, "record": json.dumps(record).encode()}
    return seen
