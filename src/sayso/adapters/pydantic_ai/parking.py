"""Parked runs: suspended PydanticAI runs, serialised and sealed in the store, and resumed later, by any process."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar, cast

import msgspec
from pydantic import TypeAdapter
from pydantic_ai import Agent, ApprovalRequired
from pydantic_ai.capabilities import AbstractCapability, CapabilityOrdering
from pydantic_ai.messages import ModelMessagesTypeAdapter
from pydantic_ai.run import AgentRunResult
from pydantic_ai.tools import DeferredToolRequests, DeferredToolResults, RunContext

from sayso.adapters import kit
from sayso.adapters.kit import Pause, resuming
from sayso.adapters.pydantic_ai.capability import Approvals, with_approvals
from sayso.adapters.pydantic_ai.deferrals import METADATA_KEY, all_request_ids, nested_run_name, waiting_mark_name
from sayso.engine import context
from sayso.engine.controller import ApprovalController
from sayso.engine.parked_runs import seal, unseal
from sayso.errors import ConfigurationError

OutputT = TypeVar("OutputT")

FRAMEWORK = "pydantic-ai"
_MARK = b"\x01"
_PARKED_AS = "_sayso_parked_as"  # attribute of a result that `resume` has parked again
_REQUESTS = TypeAdapter(DeferredToolRequests)
_BROKEN_OFF = "the run that asked broke off, and goes on from an earlier point"


class _State(msgspec.Struct, kw_only=True):
    """PydanticAI's part of a pause: the history, and the deferred calls."""

    history: msgspec.Raw
    requests: msgspec.Raw  # none at a checkpoint, from which the run resumes with the next request to the model


async def delegate(
    agent: Agent[Any, OutputT],
    prompt: str | Sequence[Any] | None = None,
    **settings: Any,  # noqa: ANN401 - those of `Agent.run`
) -> OutputT:
    """Run another agent from inside a tool, under the same controller, and return its output.

    Where the controller defers and the other agent has to ask, both are suspended, and resume together. The code of the
    tool before this call then runs once more.
    """
    running = context.current_call()
    if running is None or running.call is None:
        raise ConfigurationError("`delegate` is for tools of an agent that has `Approvals`")
    if running.delegated:
        raise ConfigurationError("a tool calls `delegate` once: nobody could say which agent a run goes on with")
    running.delegated.append(agent.name)
    controller, name = running.controller, nested_run_name(running.call)
    given = with_approvals(agent, Approvals(), settings)
    if not running.state:
        result = await agent.run(cast("Any", prompt), **given)
    else:
        pause = msgspec.json.decode(unseal(name, running.state.pop()), type=Pause)
        with context.resumed_session(pause.session):
            result = await _resume_run(agent, pause, given)
    if not isinstance(result.output, DeferredToolRequests):
        return cast("OutputT", result.output)
    asked = all_request_ids(result.output)
    if not asked:
        return cast("OutputT", result.output)  # only external calls are open
    await controller.store.park(name, seal(name, msgspec.json.encode(await _pause_of(result, controller))))
    await controller.store.park(waiting_mark_name(running.call.key), _MARK)
    raise ApprovalRequired(metadata={METADATA_KEY: {"requests": asked}})


async def park(result: AgentRunResult[Any], controller: ApprovalController) -> str:
    """Store a run that ended with `DeferredToolRequests`; return the id to resume it by.

    History and requests are stored together, so that they cannot be combined with those of another run. A run that
    `resume` has parked again keeps its id.
    """
    if not isinstance(result, AgentRunResult):  # pyright: ignore[reportUnnecessaryIsInstance] - the user's code
        raise ConfigurationError(f"`park` takes what `agent.run` returns, not a {type(result).__name__}")
    if not isinstance(result.output, DeferredToolRequests):
        raise ConfigurationError("this run is over: it ended with an output, and nobody has to be asked")
    if _PARKED_AS in vars(result):
        return vars(result)[_PARKED_AS]  # it may have gone on since, so it is not written again
    return await kit.park(await _pause_of(result, controller), controller, framework=FRAMEWORK)


async def _pause_of(result: AgentRunResult[Any], controller: ApprovalController, agent: str = "") -> Pause:
    asked = all_request_ids(result.output)
    rows = [row for row in [await controller.store.get(each) for each in asked] if row is not None]
    return Pause(
        # The run may have been resumed before, in another session.
        session=rows[0].session if rows else controller.session,
        requests=tuple(asked),
        calls=tuple(part.tool_call_id for part in result.output.calls),
        agent=agent or (rows[0].agent_path[0] if rows and rows[0].agent_path else ""),
        state=_encode(result.all_messages_json(), result.output),
    )


def _encode(history: bytes, requests: DeferredToolRequests) -> msgspec.Raw:
    state = _State(history=msgspec.Raw(history), requests=msgspec.Raw(_REQUESTS.dump_json(requests)))
    return msgspec.Raw(msgspec.json.encode(state))


async def resume(
    agent: Agent[Any, Any],
    parked_id: str,
    *,
    controller: ApprovalController,
    calls: Mapping[str, Any] | None = None,
    **settings: Any,  # noqa: ANN401 - those of `Agent.run`
) -> AgentRunResult[Any]:
    """Resume a parked run whose requests have been answered.

    If the run asks again, it is parked again under the same id, before this returns. Before each request to the model
    its state is saved: after a crash, or an error, it resumes from there. Its state is deleted when it has ended.

    Args:
        agent: built as the one that was suspended, with the same tools.
        parked_id: the id that `park` returned.
        controller: one on the store in which the run is parked.
        calls: results of the external calls, by their ids.
        **settings: those of `Agent.run`.

    Raises:
        ApprovalPending: one of its requests is still open.
        AlreadyResuming: another process is resuming it.
        UnknownRequest: no run is parked under this id, or no longer.
        StoreError: the state is of another version, or was changed.
    """
    async with resuming(parked_id, controller, framework=FRAMEWORK) as held:
        pause = held.pause
        await _withdraw_leftovers(pause, controller)
        given = with_approvals(agent, Approvals(controller), settings)
        given["capabilities"] = [*given.get("capabilities", ()), _Checkpoints(pause, held.save)]
        result = await _resume_run(agent, pause, given, calls)
        if isinstance(result.output, DeferredToolRequests):
            await held.save(await _pause_of(result, controller, agent=pause.agent))
            vars(result)[_PARKED_AS] = parked_id
        else:
            await held.end()
        return result


async def _withdraw_leftovers(pause: Pause, controller: ApprovalController) -> None:
    """Withdraw what the run asked after this checkpoint, before its process died: nobody waits for the answers."""
    for row in await controller.pending() if pause.run else ():
        same_run = row.run == pause.run or row.run.startswith(f"{pause.run}#")
        if row.session == pause.session and same_run:
            await controller.withdraw(row.id, _BROKEN_OFF)


class _Checkpoints(AbstractCapability[Any]):
    """Saves the state of a resumed run before each request to the model."""

    def __init__(self, resumed: Pause, save: Callable[[Pause], Awaitable[None]]) -> None:
        self._resumed = resumed
        self._save = save

    def get_ordering(self) -> CapabilityOrdering:
        """Be the outermost capability: `Approvals` stays the innermost."""
        return CapabilityOrdering(position="outermost")

    @classmethod
    def get_serialization_name(cls) -> None:
        """Return None: it belongs to one run."""
        return

    async def before_model_request(self, ctx: RunContext[Any], request_context: Any) -> Any:  # noqa: ANN401 - PydanticAI's own type
        """Save the history up to this request, with the results of all tools that have run."""
        history = ModelMessagesTypeAdapter.dump_json(ctx.messages)
        state = _encode(history, DeferredToolRequests())
        at_checkpoint = msgspec.structs.replace(self._resumed, state=state, requests=(), calls=(), run=ctx.run_id or "")
        await self._save(at_checkpoint)
        return request_context


async def _resume_run(
    agent: Agent[Any, Any], pause: Pause, settings: Mapping[str, Any], calls: Mapping[str, Any] | None = None
) -> AgentRunResult[Any]:
    state = msgspec.json.decode(pause.state, type=_State)
    requests = _REQUESTS.validate_json(bytes(state.requests))
    results = DeferredToolResults(
        approvals={part.tool_call_id: True for part in requests.approvals},  # the guard knows the answers
        calls=dict(calls or {}),
    )
    history = ModelMessagesTypeAdapter.validate_json(bytes(state.history))
    waited = results if requests.approvals or requests.calls else None  # else it resumes from a checkpoint
    return await agent.run(message_history=history, deferred_tool_results=waited, **settings)
