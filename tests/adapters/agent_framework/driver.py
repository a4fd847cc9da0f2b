"""Agent Framework under the conformance suite: agents with a scripted model; a pause is the JSON of a session."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any, ClassVar

from agent_framework import (
    Agent,
    AgentSession,
    BaseChatClient,
    ChatMiddlewareLayer,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    ContextProvider,
    FunctionInvocationContext,
    FunctionInvocationLayer,
    FunctionMiddleware,
    FunctionTool,
    MCPStdioTool,
    Message,
    tool,
)
from tests.adapters.conformance import Driver, Response, Seen, Tool

from sayso import ApprovalController
from sayso.adapters.agent_framework import Approvals, resume
from sayso.adapters.agent_framework.model_middleware import name_of

_Bases: Any = (FunctionInvocationLayer, ChatMiddlewareLayer, BaseChatClient)  # without their type parameters


class ScriptedClient(*_Bases):
    """A model that gives the responses of a script, and notes which tools it was shown."""

    def __init__(self, responses: Sequence[Response], **settings: Any) -> None:
        super().__init__(**settings)
        self._responses = iter(responses)
        self.shown: list[list[str]] = []
        self.options: list[Mapping[str, Any]] = []
        self.messages: list[Message] = []  # of the last request

    def _inner_get_response(self, *, messages: Any, stream: bool, options: Mapping[str, Any], **_: Any) -> Any:
        self.options.append(options)
        self.messages = list(messages)
        self.shown.append([name_of(each) for each in options.get("tools") or []])
        contents = _contents(next(self._responses))
        if stream:
            return self._build_response_stream(_updates(contents))
        return _response(contents)


async def _response(contents: list[Content]) -> ChatResponse[Any]:
    return ChatResponse(messages=[Message("assistant", contents)])


async def _updates(contents: list[Content]) -> AsyncIterable[ChatResponseUpdate]:
    for each in contents:
        yield ChatResponseUpdate(role="assistant", contents=[each])


def _contents(response: Response) -> list[Content]:
    if isinstance(response, str):
        return [Content.from_text(response)]
    return [
        each
        if isinstance(each, Content)
        else Content.from_function_call(each.id, each.tool, arguments=json.dumps(dict(each.args)))
        for each in response
    ]


class LateMiddleware(ContextProvider, FunctionMiddleware):
    """A context provider, whose middleware the framework puts behind all other, that changes the arguments."""

    def __init__(self, change: Callable[[dict[str, Any]], None]) -> None:
        super().__init__("late")
        self._change = change

    async def before_run(self, *, context: Any, **_: Any) -> None:
        context.extend_middleware(self.source_id, [self])

    async def process(self, context: FunctionInvocationContext, call_next: Any) -> None:
        args = dict(context.arguments)  # type: ignore[call-overload]
        self._change(args)
        context.arguments = args
        await call_next()


def agent_of(responses: Sequence[Response], tools: Sequence[Tool], *middleware: Any, **settings: Any) -> Agent[Any]:
    """Return an agent with a scripted model."""
    client = settings.pop("client", None) or ScriptedClient(responses)
    return Agent(client=client, tools=list(tools), middleware=list(middleware), **settings)


class AgentFrameworkDriver(Driver):
    """Agents of Agent Framework; a pause is the JSON of their session."""

    name = "Agent Framework"
    cannot: ClassVar = dict.fromkeys(
        (
            "a_nested_agent_stops_and_goes_on_with_the_outer_one",
            "outer_and_nested_call_are_both_asked_about_and_both_run_once",
            "a_refused_nested_call_stays_refused",
        ),
        "an agent as a tool starts anew each time, and the framework passes none of its stops on: it waits in place",
    )

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
        return await self._run(responses, tools, [approvals], how=how, name=name, after=after, mcp=mcp)

    async def bare(self, responses: Sequence[Response], tools: Sequence[Tool], **options: Any) -> Seen:
        return await self._run(responses, tools, [], after=options.get("after"))

    async def _run(
        self,
        responses: Sequence[Response],
        tools: Sequence[Tool],
        middleware: Sequence[Any],
        *,
        how: str = "async",
        name: str = "agent",
        after: Any = None,
        mcp: Any = None,
    ) -> Seen:
        async with AsyncExitStack() as stack:
            if mcp is not None:
                server = MCPStdioTool("bank", command=mcp[0], args=mcp[1], load_prompts=False)
                tools = [*tools, await stack.enter_async_context(server)]
            providers = [after] if after else []
            agent = agent_of(responses, tools, *middleware, name=name, context_providers=providers)
            session = agent.create_session()
            if how == "sync":
                return seen(await asyncio.to_thread(run_sync, agent, session), agent, session)
            if how == "stream":
                stream = agent.run("go", stream=True, session=session)
                _ = [update async for update in stream]
                return seen(await stream.get_final_response(), agent, session)
            return seen(await agent.run("go", session=session), agent, session)

    def tool(self, function: Callable[..., Any], *, asks: bool = False) -> Tool:
        return tool(function, approval_mode="always_require" if asks else "never_require")

    def agent_tool(
        self,
        name: str,
        responses: Sequence[Response],
        tools: Sequence[Tool],
        controller: ApprovalController | None = None,
        *,
        guarded: bool = True,
    ) -> FunctionTool:
        middleware = [Approvals(controller)] if guarded else []
        return agent_of(responses, tools, *middleware, name=name).as_tool(arg_name="prompt")

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
        agent, session = agent_of(responses, tools, Approvals(controller), name=name), AgentSession.from_dict(pause)
        if forced:
            return seen(await agent.run(yes_to_all(session), session=session), agent, session)
        return seen(await resume(agent, session, controller=controller), agent, session)

    def snapshot(self, pause: Any) -> bytes:
        return json.dumps(pause).encode()

    def restore(self, record: bytes) -> Any:
        return json.loads(record)

    def changed(self, record: bytes, before: str, after: str) -> bytes:
        return record.replace(before.encode(), after.encode())

    def late_hook(self, change: Callable[[dict[str, Any]], None]) -> Any:
        return LateMiddleware(change)


def run_sync(agent: Agent[Any], session: AgentSession) -> Any:
    """Run an agent on a thread, as a synchronous caller does: the framework has no other way."""

    async def run() -> Any:
        return await agent.run("go", session=session)

    return asyncio.run(run())


def yes_to_all(session: AgentSession) -> Message:
    """Return an approval of everything for which a session has stopped, as a front end gives it."""
    kept = session.state["tool_approval"]["pending_approval_requests"]
    return Message("user", [Content.from_dict(each).to_function_approval_response(approved=True) for each in kept])


def seen(response: Any, agent: Agent[Any], session: AgentSession) -> Seen:
    """Return what came of a run."""
    stopped = bool(response.user_input_requests)
    results = [each for message in response.messages for each in message.contents if each.type == "function_result"]
    client: Any = agent.client
    return Seen(
        text=None if stopped else response.messages[-1].text,
        told={each.call_id: str(each.result) for each in results},
        shown=client.shown,
        pause=json.loads(json.dumps(session.to_dict())) if stopped else None,
    )
