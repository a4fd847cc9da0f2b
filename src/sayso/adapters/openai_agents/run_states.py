"""Stop and go on: the SDK's state of a stopped run, sealed in the store, and resumed when its questions are answered.

Tests: tests/adapters/openai_agents/test_run_states.py
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from typing import Any, cast

import msgspec
from agents import Agent, Runner, RunResult, RunResultStreaming, RunState
from agents.items import ToolApprovalItem

from sayso.adapters import kit
from sayso.adapters.kit import Pause, resuming
from sayso.adapters.openai_agents.run_checks import GuardedMark
from sayso.adapters.openai_agents.run_record import current_run, find_run
from sayso.core.model import ApprovalRequest
from sayso.engine import blocking
from sayso.engine.controller import ApprovalController
from sayso.errors import ConfigurationError

Stopped = RunResult | RunResultStreaming
_FRAMEWORK = "openai-agents"
_GUARDED = {"function_call", "shell_call", "custom_tool_call"}


async def park(result: Stopped, controller: ApprovalController, **settings: Any) -> str:  # noqa: ANN401 - the SDK's own
    """Store a run that has stopped for its questions; return the id to resume it by, in this process or another.

    Args:
        result: what the run returned.
        controller: the one that was asked.
        **settings: those of `RunState.to_json`, such as `context_serializer`.

    Raises:
        ConfigurationError: the run has not stopped for a question.
    """
    return await kit.park(await _pause(result, controller, settings), controller, framework=_FRAMEWORK)


async def questions(result: Stopped, controller: ApprovalController) -> dict[ToolApprovalItem, ApprovalRequest]:
    """Return the request of each interruption of a stopped run; one that asks nobody, such as bad JSON, has none."""
    run = find_run(result.context_wrapper)
    rows = [await controller.store.get(each) for each in run.record.asked] if run else []
    waiting = [each for each in rows if each is not None]
    found: dict[ToolApprovalItem, ApprovalRequest] = {}
    for item in result.interruptions:
        request = next((each for each in waiting if _is_of(each, item)), None)
        if request is not None:
            waiting.remove(request)
            found[item] = request
    return found


async def resume(
    agent: Agent[Any],
    parked_id: str,
    *,
    controller: ApprovalController,
    restore: dict[str, Any] | None = None,
    **settings: Any,  # noqa: ANN401 - the SDK's own
) -> RunResult:
    """Go on with a parked run whose questions are answered; return what `Runner.run` returns.

    If it stops again, it is parked under the same id.

    Args:
        agent: the guarded agent that the run began with, built anew or not.
        parked_id: what `park` returned.
        controller: one on the store that holds the run.
        restore: settings of `RunState.from_json`, such as `context_deserializer`.
        **settings: those of `Runner.run`.

    Raises:
        ApprovalPending: one of the questions is still open.
        AlreadyResuming: another process is resuming it.
        UnknownRequest: no run is parked under this id, or no longer.
        ConfigurationError: the agent is not guarded.
    """
    if not isinstance(agent, GuardedMark):
        raise ConfigurationError(
            f"the agent {agent.name!r} has no `Approvals`, and would run what was refused; pass the guarded one"
        )
    async with resuming(parked_id, controller, framework=_FRAMEWORK) as held:
        state = await RunState.from_json(agent, msgspec.json.decode(held.pause.state), **(restore or {}))
        for each in filter(is_guarded_call, state.get_interruptions()):
            state.approve(each)  # which only lets the call get to its decision; the answer is in the store
        result = await Runner.run(agent, cast("Any", state), **settings)
        if result.interruptions:
            await held.save(await _pause(result, controller, {}))
        else:
            await held.end()
    return result


def resume_sync(
    agent: Agent[Any],
    parked_id: str,
    *,
    controller: ApprovalController,
    restore: dict[str, Any] | None = None,
    **settings: Any,  # noqa: ANN401 - the SDK's own
) -> RunResult:
    """Do what `resume` does, for synchronous callers."""
    return blocking.run(partial(resume, agent, parked_id, controller=controller, restore=restore, **settings))


async def _pause(result: Stopped, controller: ApprovalController, settings: dict[str, Any]) -> Pause:
    if not result.interruptions:
        raise ConfigurationError("this run has not stopped for a question; park one that has `interruptions`")
    run = current_run(result.context_wrapper, result.last_agent).record.run
    asked = (await questions(result, controller)).values()
    return Pause(
        session=next((each.session for each in asked), run),
        state=msgspec.Raw(json.dumps(result.to_state().to_json(**settings)).encode()),
        requests=tuple(each.id for each in asked),
        agent=result.last_agent.name,
        run=run,
    )


def is_guarded_call(item: ToolApprovalItem) -> bool:
    """Whether a guard decides about a call when the SDK goes on with it; others are none of ours."""
    raw: Any = item.raw_item
    kind = cast("Mapping[str, Any]", raw).get("type") if isinstance(raw, Mapping) else getattr(raw, "type", None)
    return kind in _GUARDED


def _is_of(request: ApprovalRequest, item: ToolApprovalItem) -> bool:
    return (request.tool_call_id, request.tool_name) == (item.call_id, item.qualified_name)
