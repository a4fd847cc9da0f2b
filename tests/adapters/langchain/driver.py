"""LangChain under the conformance suite: agents of `create_agent`, with a SQLite file as the checkpointer."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import StructuredTool
from langchain_mcp_adapters.tools import load_mcp_tools
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.types import Command
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from tests.adapters.conformance import Driver, Response, Seen, Tool

from sayso import ApprovalController
from sayso.adapters.langchain import Approvals, resume

CONFIG: Any = {"configurable": {"thread_id": "1"}}


class ScriptedModel(GenericFakeChatModel):
    """A model that gives the responses of a script, and notes which tools it was shown."""

    shown: list[list[str]]

    def bind_tools(self, tools: Any, **_: Any) -> ScriptedModel:
        self.shown.append([tool["type"] if isinstance(tool, dict) else tool.name for tool in tools])
        return self


def model_of(responses: Sequence[Response]) -> ScriptedModel:
    """Return a model that gives these responses."""
    return ScriptedModel(messages=_messages(responses), shown=[])


def _messages(responses: Sequence[Response]) -> Iterator[AIMessage]:
    for each in responses:
        if isinstance(each, str):
            yield AIMessage(each)
        else:
            yield AIMessage("", tool_calls=[{"name": one.tool, "args": dict(one.args), "id": one.id} for one in each])


def as_tool(tool: Tool) -> Any:
    """Return a function as a tool of its own, so that two tests share none."""
    return StructuredTool.from_function(tool) if callable(tool) and not isinstance(tool, StructuredTool) else tool


class LateHook(AgentMiddleware[Any, Any, Any]):
    """A middleware behind `Approvals` that changes the arguments."""

    def __init__(self, change: Callable[[dict[str, Any]], None]) -> None:
        self._change = change

    async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
        args = dict(request.tool_call["args"])
        self._change(args)
        return await handler(request.override(tool_call={**request.tool_call, "args": args}))


class LangChainDriver(Driver):
    """Agents of LangChain; a pause is the file of its checkpointer."""

    name = "LangChain"
    cannot: ClassVar = {
        "a_framework_s_own_mark_asks_once": "a tool of LangChain has no mark of its own; interrupt_on is the agent's",
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
        middleware = [Approvals(controller, **options), *([after] if after else [])]
        if mcp is None:
            return await self._run(responses, tools, middleware, how=how, name=name)
        server = StdioServerParameters(command=mcp[0], args=mcp[1])
        async with stdio_client(server) as streams, ClientSession(*streams) as session:
            await session.initialize()
            more = await load_mcp_tools(session)
            return await self._run(responses, [*tools, *more], middleware, how=how, name=name)

    async def bare(self, responses: Sequence[Response], tools: Sequence[Tool], **options: Any) -> Seen:
        return await self._run(responses, tools, list(filter(None, [options.get("after")])))

    async def _run(
        self,
        responses: Sequence[Response],
        tools: Sequence[Tool],
        middleware: Any,
        *,
        how: str = "async",
        name: str = "",
    ) -> Seen:
        model, file = model_of(responses), _new_file()
        given: Any = {"messages": [("user", "go")]}

        def build(saver: Any) -> Any:
            return create_agent(
                model, [as_tool(each) for each in tools], middleware=middleware, checkpointer=saver, name=name
            )

        def run_sync() -> Any:
            with SqliteSaver.from_conn_string(str(file)) as saver:
                return build(saver).invoke(given, CONFIG)

        if how == "sync":
            return _seen(await asyncio.to_thread(run_sync), model, file)
        async with AsyncSqliteSaver.from_conn_string(str(file)) as saver:
            agent = build(saver)
            if how == "stream":
                async for _ in agent.astream(given, CONFIG, stream_mode="updates"):
                    pass
                state = await agent.aget_state(CONFIG)
                return _seen({**state.values, "__interrupt__": state.interrupts}, model, file)
            return _seen(await agent.ainvoke(given, CONFIG), model, file)

    def agent_tool(
        self,
        name: str,
        responses: Sequence[Response],
        tools: Sequence[Tool],
        controller: ApprovalController | None = None,
        *,
        guarded: bool = True,
    ) -> Tool:
        middleware = [Approvals(controller)] if guarded else []
        agent: Any = create_agent(
            model_of(responses), [as_tool(each) for each in tools], middleware=middleware, name=name
        )

        async def helper(prompt: str) -> str:
            """Ask the helper."""
            return (await agent.ainvoke({"messages": [("user", prompt)]}))["messages"][-1].text

        return StructuredTool.from_function(coroutine=helper, name=name)

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
        model = model_of(responses)
        async with AsyncSqliteSaver.from_conn_string(str(pause)) as saver:
            agent: Any = create_agent(
                model,
                [as_tool(each) for each in tools],
                middleware=[Approvals(controller)],
                checkpointer=saver,
                name=name,
            )
            if forced:
                state = await agent.aget_state(CONFIG)
                answers = {each.id: {"type": "approve"} for each in state.interrupts}
                return _seen(await agent.ainvoke(Command(resume=answers), CONFIG), model, pause)
            return _seen(await resume(agent, CONFIG, controller=controller), model, pause)

    def snapshot(self, pause: Any) -> bytes:
        return Path(pause).read_bytes()

    def restore(self, record: bytes) -> Any:
        file = _new_file()
        file.write_bytes(record)
        return file

    def changed(self, record: bytes, before: str, after: str) -> bytes:
        return record.replace(before.encode(), after.encode())

    def late_hook(self, change: Callable[[dict[str, Any]], None]) -> Any:
        return LateHook(change)


def _new_file() -> Path:
    return Path(tempfile.mkdtemp()) / "checkpoints.db"


def _seen(result: Any, model: ScriptedModel, file: Path) -> Seen:
    messages = result["messages"]
    stopped = bool(result.get("__interrupt__"))
    return Seen(
        text=None if stopped else messages[-1].text,
        told={each.tool_call_id: each.text for each in messages if isinstance(each, ToolMessage)},
        shown=model.shown,
        pause=file if stopped else None,
    )
