"""CrewAI under the conformance suite: a crew of one agent with a scripted model; an inner agent is a crew in a tool."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from crewai import Agent, BaseLLM, Crew, Task
from crewai.hooks import clear_all_hooks, register_before_tool_call_hook
from crewai.mcp import MCPServerStdio
from crewai.tools import BaseTool, tool
from tests.adapters.conformance import Call, Driver, Response, Seen, Tool
from tests.adapters.conformance.pausing import Pausing

from sayso import ApprovalController
from sayso.adapters.crewai import Approvals

_NO_PAUSE = "a run of CrewAI cannot stop at a tool call and go on later"


class ScriptedModel(BaseLLM):
    """A model that gives the responses of a script, as native calls or as text; it notes what it was shown and told."""

    script: list[Any]
    native: bool = True
    renamed: bool = False  # calls the first tool: CrewAI makes a name of its own for those of MCP servers
    builtin_tools: list[str] | None = None  # as a model of OpenAI has them, which run at the provider
    shown: list[list[str]]
    told: dict[str, str]
    observed: list[str]

    def supports_function_calling(self) -> bool:
        return self.native

    def get_input_tokens_count(self, *_: Any, **__: Any) -> int:
        return 1

    def call(self, messages: Any, tools: Any = None, *_: Any, **__: Any) -> Any:
        names = [each["function"]["name"] for each in tools or []]
        self.shown.append(names)
        for each in messages:
            if each.get("role") == "tool":
                self.told[each["tool_call_id"]] = each["content"]
        self.observed.append(" ".join(str(each.get("content")) for each in messages))
        response = self.script.pop(0)
        if isinstance(response, str):
            return response if self.native else f"Thought: I know it\nFinal Answer: {response}"
        if not self.native:
            return _as_text(response[0])
        return [_native(names[0] if self.renamed else each.tool, each) for each in response]


def _native(name: str, call: Call) -> dict[str, Any]:
    return {"id": call.id, "type": "function", "function": {"name": name, "arguments": json.dumps(call.args)}}


def _as_text(call: Call) -> str:
    return f"Thought: I must\nAction: {call.tool}\nAction Input: {json.dumps(call.args)}"


def model_of(responses: Sequence[Response], *, native: bool = True) -> ScriptedModel:
    """Return a model that gives these responses."""
    return ScriptedModel(model="scripted", script=list(responses), native=native, shown=[], told={}, observed=[])


def as_tool(given: Tool) -> BaseTool:
    """Return a function as a tool of its own, so that two tests share none."""
    return given if isinstance(given, BaseTool) else tool(given)


def crew_of(model: ScriptedModel, tools: Sequence[Tool], *, name: str = "agent", **settings: Any) -> Crew:
    """Return a crew of one agent with these tools."""
    agent = Agent(
        role=name,
        goal="do it",
        backstory="one who does",
        llm=model,
        tools=[as_tool(each) for each in tools],
        **settings,
    )
    return Crew(agents=[agent], tasks=[Task(description="go", expected_output="it is done", agent=agent)])


class CrewAIDriver(Driver):
    """Crews of CrewAI, which wait in place."""

    name = "CrewAI"
    guards_nested: ClassVar = True
    cannot: ClassVar = {
        **dict.fromkeys((name.removeprefix("test_") for name in vars(Pausing) if name.startswith("test_")), _NO_PAUSE),
        **dict.fromkeys(
            (
                "a_nested_agent_stops_and_goes_on_with_the_outer_one",
                "outer_and_nested_call_are_both_asked_about_and_both_run_once",
                "a_refused_nested_call_stays_refused",
            ),
            _NO_PAUSE,
        ),
        "a_framework_s_own_mark_asks_once": "a tool of CrewAI has no mark; human_input is about a task's answer",
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
        model = model_of(responses)
        servers = {} if mcp is None else {"mcps": [MCPServerStdio(command=mcp[0], args=mcp[1])]}
        model.renamed = mcp is not None
        crew = Approvals(controller, **options).guard(crew_of(model, tools, name=name, **servers))
        try:
            if after is not None:
                register_before_tool_call_hook(after)
            return await self._run(crew, model, how)
        finally:
            clear_all_hooks()

    async def bare(self, responses: Sequence[Response], tools: Sequence[Tool], **options: Any) -> Seen:
        model = model_of(responses)
        try:
            if "after" in options:
                register_before_tool_call_hook(options["after"])
            return await self._run(crew_of(model, tools), model, "async")
        finally:
            clear_all_hooks()

    async def _run(self, crew: Crew, model: ScriptedModel, how: str) -> Seen:
        if how == "sync":
            result: Any = await asyncio.to_thread(crew.kickoff)
        elif how == "stream":
            crew.stream = True
            result = await crew.kickoff_async()
            async for _ in result:
                pass
            result = result.result
        else:
            result = await crew.akickoff()
        return Seen(text=result.raw, told=model.told, shown=model.shown)

    def agent_tool(
        self,
        name: str,
        responses: Sequence[Response],
        tools: Sequence[Tool],
        controller: ApprovalController | None = None,
        *,
        guarded: bool = True,
    ) -> Tool:
        crew = crew_of(model_of(responses), tools, name=name)
        if guarded:
            Approvals(controller).guard(crew)

        def helper(prompt: str) -> str:
            """Ask the helper."""
            return str(crew.kickoff())

        helper.__name__ = name
        return as_tool(helper)

    def late_hook(self, change: Callable[[dict[str, Any]], None]) -> Any:
        return lambda asked: change(asked.tool_input)
