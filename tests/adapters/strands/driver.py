"""Strands under the conformance suite: agents with a scripted model; a pause is the folder of a session manager."""

from __future__ import annotations

import asyncio
import io
import json
import tarfile
import tempfile
from collections.abc import AsyncIterable, Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from mcp import StdioServerParameters
from mcp.client.stdio import stdio_client
from strands import Agent, tool
from strands.models import Model
from strands.session import FileSessionManager
from strands.tools.mcp import MCPClient
from strands.types.tools import AgentTool
from tests.adapters.conformance import Driver, Response, Seen, Tool

from sayso import ApprovalController
from sayso.adapters.strands import Approvals, resume
from sayso.adapters.strands.stages import ExecuteToolStage, add_middleware

SESSION = "1"


class ScriptedModel(Model):
    """A model that gives the responses of a script, and notes which tools it was shown."""

    def __init__(self, responses: Sequence[Response], **config: Any) -> None:
        self._responses = iter(responses)
        self._config = config
        self.shown: list[list[str]] = []

    def update_config(self, **model_config: Any) -> None:
        self._config.update(model_config)

    def get_config(self) -> Any:
        return self._config

    def structured_output(self, output_model: Any, prompt: Any, system_prompt: Any = None, **kwargs: Any) -> Any:
        raise NotImplementedError

    async def stream(self, messages: Any, tool_specs: Any = None, *_: Any, **__: Any) -> AsyncIterable[Any]:  # type: ignore[override]
        self.shown.append([each["name"] for each in tool_specs or []])
        for event in _events(next(self._responses)):
            yield event


def _events(response: Response) -> list[Any]:
    blocks: list[Any] = []
    if isinstance(response, str):
        blocks = [{"contentBlockDelta": {"delta": {"text": response}}}, {"contentBlockStop": {}}]
    for each in () if isinstance(response, str) else response:
        blocks += [
            {"contentBlockStart": {"start": {"toolUse": {"name": each.tool, "toolUseId": each.id}}}},
            {"contentBlockDelta": {"delta": {"toolUse": {"input": json.dumps(dict(each.args))}}}},
            {"contentBlockStop": {}},
        ]
    reason = "end_turn" if isinstance(response, str) else "tool_use"
    return [{"messageStart": {"role": "assistant"}}, *blocks, {"messageStop": {"stopReason": reason}}]


def as_tool(given: Tool) -> Any:
    """Return a function as a tool of its own."""
    return given if isinstance(given, AgentTool) else tool(given)


def agent_of(responses: Sequence[Response], tools: Sequence[Tool], *plugins: Any, **settings: Any) -> Agent:
    """Return an agent with a scripted model."""
    model = settings.pop("model", None) or ScriptedModel(responses)
    tools = [as_tool(each) for each in tools]
    return Agent(model=model, tools=tools, plugins=list(plugins), callback_handler=None, **settings)


class AgentAsTool(AgentTool):
    """Strands' own adapter for an agent, under the argument `prompt` of the suite."""

    def __init__(self, agent: Agent, name: str) -> None:
        super().__init__()
        self._inner: Any = agent.as_tool(name=name)
        self.agent = agent

    @property
    def tool_name(self) -> str:
        return self._inner.tool_name

    @property
    def tool_spec(self) -> Any:
        schema = {"type": "object", "properties": {"prompt": {"type": "string"}}, "required": ["prompt"]}
        return {**self._inner.tool_spec, "inputSchema": {"json": schema}}

    @property
    def tool_type(self) -> str:
        return self._inner.tool_type

    def stream(self, tool_use: Any, invocation_state: Any, **kwargs: Any) -> Any:
        use = {**tool_use, "input": {"input": tool_use["input"]["prompt"]}}
        return self._inner.stream(use, invocation_state, **kwargs)


def late_middleware(change: Callable[[dict[str, Any]], None]) -> Callable[[Agent], None]:
    """Return what adds a middleware to an agent that changes the arguments of each call."""

    async def meddle(stage: Any, next_stage: Any) -> Any:
        args = dict(stage.tool_use["input"])
        change(args)
        stage.tool_use["input"] = args
        async for event in next_stage(stage):
            yield event

    return lambda agent: add_middleware(agent, ExecuteToolStage, meddle)


class StrandsDriver(Driver):
    """Agents of Strands; a pause is the folder of its session manager."""

    name = "Strands"
    cannot: ClassVar = {
        "a_framework_s_own_mark_asks_once": "a tool of Strands has no mark of its own; HumanInTheLoop is the agent's",
    }

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
        return await self._run(
            responses, tools, [Approvals(controller, **options)], how=how, name=name, after=after, mcp=mcp
        )

    async def bare(self, responses: Sequence[Response], tools: Sequence[Tool], **options: Any) -> Seen:
        return await self._run(responses, tools, [], after=options.get("after"))

    async def _run(
        self,
        responses: Sequence[Response],
        tools: Sequence[Tool],
        plugins: Sequence[Any],
        *,
        how: str = "async",
        name: str = "agent",
        after: Any = None,
        mcp: Any = None,
    ) -> Seen:
        folder = new_folder()
        with ExitStack() as stack:
            if mcp is not None:
                server: Any = StdioServerParameters(command=mcp[0], args=mcp[1])
                transport: Any = partial(stdio_client, server)
                client = await asyncio.to_thread(stack.enter_context, MCPClient(transport))
                tools = [*tools, *await asyncio.to_thread(client.list_tools_sync)]
            agent = agent_of(responses, tools, *plugins, name=name, session_manager=session_in(folder))
            if after is not None:
                after(agent)
            if how == "sync":
                return seen(await asyncio.to_thread(agent, "go"), agent, folder)
            if how == "stream":
                events = [event async for event in agent.stream_async("go")]
                return seen(events[-1]["result"], agent, folder)
            return seen(await agent.invoke_async("go"), agent, folder)

    def agent_tool(
        self,
        name: str,
        responses: Sequence[Response],
        tools: Sequence[Tool],
        controller: ApprovalController | None = None,
        *,
        guarded: bool = True,
    ) -> Tool:
        plugins = [Approvals(controller)] if guarded else []
        return AgentAsTool(agent_of(responses, tools, *plugins, name=name), name)

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
        agent = agent_of(responses, tools, Approvals(controller), name=name, session_manager=session_in(pause))
        if forced:
            return seen(await agent.invoke_async(yes_to_all(agent)), agent, pause)
        return seen(await resume(agent, controller=controller), agent, pause)

    def snapshot(self, pause: Any) -> bytes:
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as tar:
            tar.add(pause, ".")
        return packed.getvalue()

    def restore(self, record: bytes) -> Any:
        folder = new_folder()
        with tarfile.open(fileobj=io.BytesIO(record)) as tar:
            tar.extractall(folder, filter="data")
        return folder

    def changed(self, record: bytes, before: str, after: str) -> bytes:
        return record.replace(before.encode(), after.encode())

    def late_hook(self, change: Callable[[dict[str, Any]], None]) -> Any:
        return late_middleware(change)


def yes_to_all(agent: Agent, response: Any = "y") -> Any:
    """Return an answer to everything that an agent is interrupted for, as a front end gives it."""
    kept = agent.take_snapshot(include=["interrupt_state"]).data["interrupt_state"]["interrupts"]
    return [{"interruptResponse": {"interruptId": each, "response": response}} for each in kept]


def new_folder() -> Path:
    """Return a folder of its own for a session."""
    return Path(tempfile.mkdtemp())


def session_in(folder: Path) -> FileSessionManager:
    """Return a session manager over a folder, as each process would build it."""
    return FileSessionManager(session_id=SESSION, storage_dir=str(folder))


def seen(result: Any, agent: Agent, folder: Path) -> Seen:
    """Return what came of a run."""
    stopped = result.stop_reason == "interrupt"
    blocks: list[Any] = [block for message in agent.messages for block in message["content"]]
    results = [block["toolResult"] for block in blocks if "toolResult" in block]
    return Seen(
        text=None if stopped else str(result).strip(),
        told={each["toolUseId"]: " ".join(part.get("text", "") for part in each["content"]) for each in results},
        shown=agent.model.shown,  # type: ignore[attr-defined]
        pause=folder if stopped else None,
    )
