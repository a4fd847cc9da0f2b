"""Google ADK under the conformance suite: apps with a scripted model; a pause is the file of a session service."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any, ClassVar

from google.adk.agents import LlmAgent, RunConfig
from google.adk.apps import App
from google.adk.artifacts import InMemoryArtifactService
from google.adk.events import Event
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.runners import Runner
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.adk.tools import AgentTool, BaseTool, FunctionTool, McpToolset, ToolContext
from google.adk.tools.mcp_tool import StdioConnectionParams
from google.genai import types
from mcp import StdioServerParameters
from pydantic import BaseModel, PrivateAttr
from tests.adapters.conformance import Driver, Response, Seen, Tool

from sayso import ApprovalController
from sayso.adapters.google_adk import Approvals, resume

APP, USER, SESSION = "app", "user", "1"
STREAMING = RunConfig.model_validate({"streaming_mode": "sse"})
CONFIRM = "adk_request_confirmation"


class ScriptedModel(BaseLlm):
    """A model that gives the responses of a script, and notes which tools it was shown."""

    _responses: Any = PrivateAttr()
    _shown: list[list[str]] = PrivateAttr()

    def __init__(self, responses: Iterable[Response]) -> None:
        super().__init__(model="scripted")
        self._responses = iter(responses)
        self._shown = []

    @property
    def shown(self) -> list[list[str]]:
        return self._shown

    async def generate_content_async(
        self,
        llm_request: LlmRequest,
        stream: bool = False,  # noqa: FBT002 - as ADK has it
    ) -> AsyncGenerator[LlmResponse, None]:
        self._shown.append(sorted(names_in(llm_request)))
        response = next(self._responses)
        if stream and isinstance(response, str):
            for letter in response:
                yield LlmResponse(content=content(letter), partial=True)
        yield LlmResponse(content=content(response), usage_metadata=USAGE)


def names_in(request: LlmRequest) -> Iterable[str]:
    """Yield the names of all tools in a request, those of the provider too."""
    for each in request.config.tools or ():
        assert isinstance(each, types.Tool)
        yield from (name for name, value in each if value is not None and name != "function_declarations")
        yield from (str(declared.name) for declared in each.function_declarations or ())


def content(response: Response, role: str = "model") -> types.Content:
    """Return a response of the model as ADK has it."""
    if isinstance(response, str):
        return types.Content(role=role, parts=[types.Part.from_text(text=response)])
    calls = [types.FunctionCall(name=each.tool, args=dict(each.args), id=each.id) for each in response]
    return types.Content(role=role, parts=[types.Part(function_call=each) for each in calls])


USAGE = types.GenerateContentResponseUsageMetadata(prompt_token_count=1, candidates_token_count=1)
GO = content("go", "user")


class Prompt(BaseModel):
    """The argument of the suite's agents."""

    prompt: str


class AppTool(BaseTool):
    """An app of its own as a tool, as applications write it: with plugins, and so with a policy, of its own."""

    def __init__(self, agent: LlmAgent, *plugins: BasePlugin) -> None:
        super().__init__(name=agent.name, description="Run another app.")
        self._app = App(name="inner", root_agent=agent, plugins=list(plugins))

    def _get_declaration(self) -> types.FunctionDeclaration:
        schema = Prompt.model_json_schema()
        return types.FunctionDeclaration(name=self.name, parameters_json_schema=schema)

    async def run_async(self, *, args: dict[str, Any], tool_context: ToolContext) -> Any:
        runner = runner_of(self._app, new_folder())
        return await text_of(runner.run_async(user_id=USER, session_id=SESSION, new_message=GO))


class LatePlugin(BasePlugin):
    """A plugin that puts a callback of its own behind all that an agent has, to change the arguments there."""

    def __init__(self, change: Callable[[dict[str, Any]], None]) -> None:
        super().__init__("late")
        self._change = change

    async def before_tool_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext
    ) -> None:
        agent: Any = tool_context.get_invocation_context().agent
        agent.before_tool_callback = [*agent.canonical_before_tool_callbacks, self._meddle]

    async def _meddle(self, tool: BaseTool, args: dict[str, Any], tool_context: ToolContext) -> None:
        self._change(args)


class GoogleAdkDriver(Driver):
    """Apps of ADK; a pause is the file of its session service."""

    name = "Google ADK"
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
        plugins = [Approvals(controller, **options), *([after] if after else [])]
        return await self._run(responses, tools, plugins, how=how, name=name, mcp=mcp)

    async def bare(self, responses: Sequence[Response], tools: Sequence[Tool], **options: Any) -> Seen:
        after = options.get("after")
        return await self._run(responses, tools, [after] if after else [])

    async def _run(
        self,
        responses: Sequence[Response],
        tools: Sequence[Tool],
        plugins: Sequence[BasePlugin],
        *,
        how: str = "async",
        name: str = "agent",
        mcp: Any = None,
    ) -> Seen:
        folder = new_folder()
        if mcp is not None:
            server = StdioServerParameters(command=mcp[0], args=mcp[1])
            tools = [*tools, McpToolset(connection_params=StdioConnectionParams(server_params=server))]
        model = ScriptedModel(responses)
        agent = agent_of(model, tools, name=name)
        runner = runner_of(App(name=APP, root_agent=agent, plugins=list(plugins)), folder)
        settings: dict[str, Any] = {"user_id": USER, "session_id": SESSION, "new_message": GO}
        if how == "sync":
            await asyncio.to_thread(lambda: list(runner.run(**settings)))
        else:
            config = STREAMING if how == "stream" else RunConfig()
            await text_of(runner.run_async(**settings, run_config=config))
        await runner.close()
        return await seen(runner, model, folder)

    def tool(self, function: Callable[..., Any], *, asks: bool = False) -> Tool:
        return FunctionTool(function, require_confirmation=asks)

    def agent_tool(
        self,
        name: str,
        responses: Sequence[Response],
        tools: Sequence[Tool],
        controller: ApprovalController | None = None,
        *,
        guarded: bool = True,
    ) -> Tool:
        model = ScriptedModel(responses)
        if controller is not None:
            return AppTool(agent_of(model, tools, name=name), Approvals(controller))
        agent = agent_of(model, tools, name=name, input_schema=Prompt)
        if not guarded:
            return AgentTool(agent, include_plugins=False)
        agent.mode = "single_turn"
        return agent

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
        model = ScriptedModel(responses)
        agent = agent_of(model, tools, name=name)
        runner = runner_of(App(name=APP, root_agent=agent, plugins=[Approvals(controller)]), pause)
        settings: dict[str, Any] = {"user_id": USER, "session_id": SESSION}
        if forced:
            await text_of(runner.run_async(**settings, new_message=await yes_to_all(runner)))
        else:
            await text_of(resume(runner, controller=controller, **settings))
        return await seen(runner, model, pause)

    def snapshot(self, pause: Any) -> bytes:
        return database(pause).read_bytes()

    def restore(self, record: bytes) -> Any:
        folder = new_folder()
        database(folder).write_bytes(record)
        return folder

    def changed(self, record: bytes, before: str, after: str) -> bytes:
        return record.replace(before.encode(), after.encode())

    def late_hook(self, change: Callable[[dict[str, Any]], None]) -> Any:
        return LatePlugin(change)


def agent_of(model: ScriptedModel, tools: Sequence[Tool], *, name: str = "agent", **settings: Any) -> LlmAgent:
    """Return an agent with a scripted model; agents among the tools are its sub-agents."""
    agents = [each for each in tools if isinstance(each, LlmAgent)]
    others = [each for each in tools if not isinstance(each, LlmAgent)]
    return LlmAgent(name=name, model=model, tools=others, sub_agents=list(agents), **settings)


def new_folder() -> Path:
    """Return a folder of its own for a session."""
    return Path(tempfile.mkdtemp())


def database(folder: Path) -> Path:
    """Return the file in which a session service keeps the session of a folder."""
    return folder / "sessions.db"


def runner_of(app: App, folder: Path) -> Runner:
    """Return a runner over the session of a folder, as each process would build it."""
    service = SqliteSessionService(str(database(folder)))
    artifacts = InMemoryArtifactService()
    return Runner(app=app, session_service=service, artifact_service=artifacts, auto_create_session=True)


async def text_of(events: AsyncGenerator[Event, None]) -> str:
    """Run to the end, and return the last text."""
    text = ""
    async with aclosing(events):
        async for event in events:
            if not event.partial:
                text = "".join(part.text or "" for part in (event.content and event.content.parts) or ()) or text
    return text


async def events_of(runner: Runner) -> list[Event]:
    """Return the events of the session."""
    session = await runner.session_service.get_session(app_name=runner.app_name, user_id=USER, session_id=SESSION)
    return session.events if session is not None else []


async def yes_to_all(runner: Runner, response: Any = None) -> types.Content:
    """Return an answer to every confirmation of a session, as a front end gives it."""
    calls = [call for event in await events_of(runner) for call in event.get_function_calls() if call.name == CONFIRM]
    answers = [
        types.FunctionResponse(id=each.id, name=CONFIRM, response=response or {"confirmed": True}) for each in calls
    ]
    return types.Content(role="user", parts=[types.Part(function_response=each) for each in answers])


async def seen(runner: Runner, model: ScriptedModel, folder: Path) -> Seen:
    """Return what came of a run."""
    events = await events_of(runner)
    told = {each.id or "": str(each.response) for event in events for each in event.get_function_responses()}
    last = [event for event in events if event.author != "user"][-1]
    text = "".join(part.text or "" for part in (last.content and last.content.parts) or ())
    return Seen(
        text=text or None,
        told=told,
        shown=model.shown,
        pause=None if text else folder,
    )
