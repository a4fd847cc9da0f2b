"""AdalFlow under the conformance suite: an agent that makes one call a step, run by `ApprovalRunner`."""

# AdalFlow has no types of its own.
# pyright: basic

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, ClassVar

from adalflow.components.agent.runner import Runner
from adalflow.core.func_tool import FunctionTool
from adalflow.core.types import ToolOutput
from tests.adapters.adalflow.scripted import agent_of, streamed
from tests.adapters.conformance import Call, Driver, Response, Seen, Tool
from tests.adapters.conformance.pausing import Pausing

from sayso import ApprovalController
from sayso.adapters.adalflow import ApprovalRunner, PermissionManager

_ONE = "a step of AdalFlow makes one call, which has no id of a model"
_NO_PAUSE = "a run of AdalFlow cannot stop and go on later"
_NO_HOOK = "AdalFlow has no hook round a tool but the permission manager"


class AdalFlowDriver(Driver):
    """Agents of AdalFlow behind a permission manager."""

    name = "AdalFlow"
    cannot: ClassVar = {
        "a_refusal_can_end_the_run": "a refusal is always reported to the model",
        "a_blocked_tool_is_hidden": "the tools stand in the prompt that AdalFlow writes when the agent is built",
        "calls_of_one_response_are_asked_at_once_and_answered_in_any_order": _ONE,
        "two_calls_with_one_id_need_two_answers": _ONE,
        "a_late_hook_cannot_change_what_was_approved": _NO_HOOK,
        "a_late_hook_does_what_it_likes_without_sayso": _NO_HOOK,
        "a_tool_of_an_mcp_server_is_asked_about": "its MCP tools are functions of its own, which need no other way",
        **dict.fromkeys((name.removeprefix("test_") for name in vars(Pausing) if name.startswith("test_")), _NO_PAUSE),
        **dict.fromkeys(
            (
                "a_nested_agent_stops_and_goes_on_with_the_outer_one",
                "outer_and_nested_call_are_both_asked_about_and_both_run_once",
                "a_refused_nested_call_stays_refused",
            ),
            _NO_PAUSE,
        ),
        "a_nested_agent_that_nobody_guards_cannot_run_what_asks": (
            "no hook reaches an agent that a plain runner runs inside a tool"
        ),
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
        runner, calls = _runner(responses, tools, PermissionManager(controller=controller), name)
        if how == "sync":
            await asyncio.to_thread(runner.call, {"input_str": "go"})
        elif how == "stream":
            await streamed(runner)
        else:
            await runner.acall({"input_str": "go"})
        return _seen(runner, calls, responses)

    async def bare(self, responses: Sequence[Response], tools: Sequence[Tool], **options: Any) -> Seen:
        runner, calls = _runner(responses, tools, None, "agent")
        await runner.acall({"input_str": "go"})
        return _seen(runner, calls, responses)

    def tool(self, function: Any, *, asks: bool = False) -> Tool:
        return FunctionTool(function, require_approval=asks)

    def agent_tool(
        self,
        name: str,
        responses: Sequence[Response],
        tools: Sequence[Tool],
        controller: ApprovalController | None = None,
        *,
        guarded: bool = True,
    ) -> Tool:
        manager = PermissionManager(controller=controller or ApprovalController(mode="auto_deny")) if guarded else None

        async def helper(prompt: str) -> str:
            """Ask the helper."""
            runner, _ = _runner(responses, tools, manager, name)
            await runner.acall({"input_str": prompt})
            return "inner done"

        return self.tool(helper)


def _runner(
    responses: Sequence[Response], tools: Sequence[Tool], manager: PermissionManager | None, name: str
) -> tuple[Any, list[Call]]:
    calls = [each for response in responses if not isinstance(response, str) for each in response]
    made = [each if isinstance(each, FunctionTool) else FunctionTool(each, require_approval=False) for each in tools]
    agent, _ = agent_of(made, *((each.tool, dict(each.args)) for each in calls))
    agent.name = name
    return (ApprovalRunner if manager else Runner)(agent=agent, permission_manager=manager), calls


def _seen(runner: Any, calls: list[Call], responses: Sequence[Response]) -> Seen:
    """Return what came of a run; AdalFlow's model says the last text in its own form."""
    told = {call.id: _text(step.observation) for call, step in zip(calls, runner.step_history, strict=False)}
    return Seen(text=str(responses[-1]), told=told)


def _text(observation: Any) -> str:
    return str(observation.observation if isinstance(observation, ToolOutput) else observation)
