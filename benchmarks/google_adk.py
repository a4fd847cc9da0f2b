"""P4 with Google ADK: a run of 20 calls, beside ADK's own confirmation."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.apps import App
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.adk.tools import FunctionTool
from google.genai import types

from benchmarks import report
from benchmarks.agent_runs import CALLS, Run, compare_runs, write_file
from benchmarks.rows import Row
from benchmarks.timing import Effort
from sayso import ApprovalController, Policy
from sayso.adapters.google_adk import Approvals

TOOL = "write_file"
USAGE = types.GenerateContentResponseUsageMetadata(prompt_token_count=1, candidates_token_count=1)
GO = types.Content(role="user", parts=[types.Part.from_text(text="go")])


class Script(BaseLlm):
    """A model that makes 20 calls, one in each response, then ends, and begins again."""

    turns: Any

    async def generate_content_async(self, *_: object, **__: object) -> AsyncGenerator[LlmResponse, None]:
        number = next(self.turns)
        call = types.FunctionCall(name=TOOL, args={"path": "a.txt"}, id=f"c{number}")
        part = types.Part.from_text(text="done") if number == CALLS else types.Part(function_call=call)
        yield LlmResponse(content=types.Content(role="model", parts=[part]), usage_metadata=USAGE)


class EmptyHooks(BasePlugin):
    """The callbacks that `Approvals` has for each step, doing nothing."""

    async def before_model_callback(self, **_: object) -> None:
        pass

    async def before_tool_callback(self, **_: object) -> None:
        pass

    async def after_tool_callback(self, **_: object) -> None:
        pass

    async def on_event_callback(self, **_: object) -> None:
        pass


def runs_of(*plugins: BasePlugin, **marks: Any) -> Run:  # noqa: ANN401 - ADK's settings
    model = Script(model="scripted", turns=itertools.cycle(range(CALLS + 1)))
    tool: Any = FunctionTool(write_file, **marks)
    app = App(name="app", root_agent=LlmAgent(name="writer", model=model, tools=[tool]), plugins=list(plugins))

    async def run() -> None:
        service = InMemorySessionService()
        session = await service.create_session(app_name="app", user_id="u")
        runner = Runner(app=app, session_service=service)
        async for _ in runner.run_async(user_id="u", session_id=session.id, new_message=GO):
            pass

    return lambda: asyncio.run(run())


async def run_of_calls(effort: Effort) -> list[Row]:
    with report.scratch() as folder:
        policy = Policy({TOOL: "none"})
        controller = ApprovalController(mode="auto_deny", policy=policy, store=Path(folder) / "sayso.db")
        rows = await compare_runs(
            "Google ADK",
            effort,
            ungated=runs_of(),
            ours=runs_of(Approvals(controller)),
            empty=runs_of(EmptyHooks("empty")),
            theirs=runs_of(require_confirmation=lambda path: False),  # noqa: ARG005 - ADK's predicate
            peer="require_confirmation",
        )
        await controller.aclose()
    return rows


MEASUREMENTS = (run_of_calls,)
