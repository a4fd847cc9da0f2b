"""Parked runs: suspended PydanticAI runs, serialised and sealed in the store, and resumed later, by any process."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar, cast

import msgspec
from pydantic import TypeAdapter
from pydantic_ai import Agent, ApprovalRequired
from pydantic_ai.capabilities import AbstractCapability, CapabilityOrdering
from pydantic_ai.messages import ModelMessagesTypeAdapter
from pydantic_ai.run import AgentRunResult
from pydantic_ai.tools import DeferredToolRequests, DeferredToolResults, RunContext

from sayso.adapters.pydantic_ai.capability import Approvals, with_approvals
from sayso.adapters.pydantic_ai.deferrals import METADATA_KEY, all_request_ids, nested_run_name, waiting_mark_name
from sayso.core.model import ParkedRun, new_id
from sayso.engine import context
from sayso.engine.controller import ApprovalController
from sayso.engine.parked_runs import HeldRun, seal, unseal
from sayso.errors import ApprovalPending, ConfigurationError

OutputT = TypeVar("OutputT")

FRAMEWORK = "pydantic-ai"
_MARK = b"\x01"
_PARKED_AS = "_sayso_parked_as"  # attribute of a result that `resume` has parked again
_REQUESTS = TypeAdapter(DeferredToolRequests)
_BROKEN_OFF = "the run that asked broke off, and goes on from an earlier point"


class _State(msgspec.Struct, kw_only=True, omit_defaults=True):
    """State of a suspended run: its history, its open requests, and the session in which they were opened."""

    session: str
    history: msgspec.Raw
    requests: msgspec.Raw  # none at a checkpoint, from which the run resumes with the next request to the model
    agent: str = ""  # the name of the agent
    attempt: str = ""  # the id that the run had since this checkpoint


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
        result = await _resume_run(agent, _decode(unseal(name, running.state.pop())), given)
    if not isinstance(result.output, DeferredToolRequests):
        return cast("OutputT", result.output)
    asked = all_request_ids(result.output)
    if not asked:
        return cast("OutputT", result.output)  # only external calls are open
    await controller.store.park(name, seal(name, msgspec.json.encode(await _state_of(result, controller))))
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
    parked_id = new_id()
    state = await _state_of(result, controller)
    await controller.adapter.runs.add(msgspec.json.encode(state), _listing(parked_id, state, controller))
    return parked_id


async def _state_of(result: AgentRunResult[Any], controller: ApprovalController) -> _State:
    asked = all_request_ids(result.output)
    rows = [row for row in [await controller.store.get(each) for each in asked] if row is not None]
    return _State(
        session=rows[0].session
        if rows
        else controller.session,  # the run may have been resumed before, in another session
        history=msgspec.Raw(result.all_messages_json()),
        requests=msgspec.Raw(_REQUESTS.dump_json(result.output)),
        agent=rows[0].agent_path[0] if rows and rows[0].agent_path else "",
    )


def _listing(parked_id: str, state: _State, controller: ApprovalController) -> ParkedRun:
    requests = _requests_in(state)
    return ParkedRun(
        id=parked_id,
        agent=state.agent,
        framework=FRAMEWORK,
        session=state.session,
        requests=tuple(all_request_ids(requests)),
        calls=tuple(part.tool_call_id for part in requests.calls),
        parked_at=controller.adapter.clock.now(),
    )


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
    runs = controller.adapter.runs
    await _require_answers(_decode(await runs.read(parked_id)), controller)
    async with runs.hold(parked_id) as held:
        state = _decode(held.state)
        await _require_answers(state, controller)
        await _withdraw_leftovers(state, controller)
        given = with_approvals(agent, Approvals(controller), settings)
        save = functools.partial(_save, held, parked_id, controller)
        given["capabilities"] = [*given.get("capabilities", ()), _Checkpoints(state, save)]
        with context.activate_unless_nested(controller):
            result = await _resume_run(agent, state, given, calls)
        if isinstance(result.output, DeferredToolRequests):
            await save(msgspec.structs.replace(await _state_of(result, controller), agent=state.agent))
            vars(result)[_PARKED_AS] = parked_id
        else:
            await held.end()
        return result


async def _save(held: HeldRun, parked_id: str, controller: ApprovalController, state: _State) -> None:
    await held.save(msgspec.json.encode(state), _listing(parked_id, state, controller))


async def _require_answers(state: _State, controller: ApprovalController) -> None:
    for each in all_request_ids(_requests_in(state)):
        row = await controller.store.get(each)
        if row is not None and row.status == "open":
            raise ApprovalPending.for_request(row)


async def _withdraw_leftovers(state: _State, controller: ApprovalController) -> None:
    """Withdraw what the run asked after this checkpoint, before its process died: nobody waits for the answers."""
    for row in await controller.pending() if state.attempt else ():
        same_run = row.run == state.attempt or row.run.startswith(f"{state.attempt}#")
        if row.session == state.session and same_run:
            await controller.withdraw(row.id, _BROKEN_OFF)


class _Checkpoints(AbstractCapability[Any]):
    """Saves the state of a resumed run before each request to the model."""

    def __init__(self, resumed: _State, save: Callable[[_State], Awaitable[None]]) -> None:
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
        state = _State(
            session=self._resumed.session,
            history=msgspec.Raw(ModelMessagesTypeAdapter.dump_json(ctx.messages)),
            requests=msgspec.Raw(_REQUESTS.dump_json(DeferredToolRequests())),
            agent=self._resumed.agent,
            attempt=ctx.run_id or "",
        )
        await self._save(state)
        return request_context


async def _resume_run(
    agent: Agent[Any, Any], state: _State, settings: Mapping[str, Any], calls: Mapping[str, Any] | None = None
) -> AgentRunResult[Any]:
    requests = _requests_in(state)
    results = DeferredToolResults(
        approvals={part.tool_call_id: True for part in requests.approvals},  # the guard knows the answers
        calls=dict(calls or {}),
    )
    history = ModelMessagesTypeAdapter.validate_json(bytes(state.history))
    waited = results if requests.approvals or requests.calls else None  # else it resumes from a checkpoint
    with context.resumed_session(state.session):
        return await agent.run(message_history=history, deferred_tool_results=waited, **settings)


def _requests_in(state: _State) -> DeferredToolRequests:
    return _REQUESTS.validate_json(bytes(state.requests))


def _decode(body: bytes) -> _State:
    return msgspec.json.decode(body, type=_State)
