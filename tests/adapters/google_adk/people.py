"""People who answer, and runs of apps, in the tests of the adapter for Google ADK."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from google.adk.agents import BaseAgent
from google.adk.apps import App
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.runners import Runner
from google.genai import types
from tests.adapters.conformance import Call, Response, Tool
from tests.adapters.conformance.toolbox import YES
from tests.adapters.google_adk.driver import (
    APP,
    GO,
    SESSION,
    USER,
    ScriptedModel,
    agent_of,
    events_of,
    runner_of,
    text_of,
    yes_to_all,
)

from sayso import ApprovalController, ApprovalDecision, Policy
from sayso.adapters.google_adk import resume
from sayso.core.model import ApprovalRequest

PAY: list[Response] = [[Call("pay", {"amount": 5})], "done"]
WHO: dict[str, Any] = {"user_id": USER, "session_id": SESSION}
NO_TO_ALL = {"confirmed": False}


def person(
    decision: ApprovalDecision = YES, policy: Policy | None = None
) -> tuple[ApprovalController, list[ApprovalRequest]]:
    """Return a controller whose person always gives this answer, and what they were asked."""
    asked: list[ApprovalRequest] = []
    return ApprovalController(approval_callback=lambda each: asked.append(each) or decision, policy=policy), asked


def running(
    folder: Path, responses: Sequence[Response], tools: Sequence[Tool], *plugins: BasePlugin, **settings: Any
) -> Runner:
    """Return a runner of one agent with a scripted model."""
    return runner_for(agent_of(ScriptedModel(responses), tools, **settings), folder, *plugins)


def runner_for(agent: BaseAgent, folder: Path, *plugins: BasePlugin) -> Runner:
    """Return a runner of an agent."""
    return runner_of(App(name=APP, root_agent=agent, plugins=list(plugins)), folder)


async def go(runner: Runner, message: types.Content = GO, **settings: Any) -> str:
    """Run, and return the last text."""
    return await text_of(runner.run_async(**WHO, new_message=message, **settings))


async def confirm(runner: Runner, response: Any = None) -> str:
    """Answer all confirmations as a front end does, and go on."""
    return await go(runner, await yes_to_all(runner, response))


async def resumed(runner: Runner, controller: ApprovalController) -> str:
    """Go on, and return the last text."""
    return await text_of(resume(runner, controller=controller, **WHO))


async def answer(controller: ApprovalController, decision: ApprovalDecision) -> None:
    """Answer all open questions."""
    for request in await controller.pending():
        await controller.answer(request.id, decision)


async def told(runner: Runner) -> str:
    """Return all that the model was told about its calls."""
    events = await events_of(runner)
    return " ".join(str(each.response) for event in events for each in event.get_function_responses())
