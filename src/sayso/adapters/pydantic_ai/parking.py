"""Parked runs: suspended PydanticAI runs, serialised and sealed in the store, and resumed later, by any process."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, cast

import msgspec
from pydantic import TypeAdapter
from pydantic_ai import Agent, ApprovalRequired
from pydantic_ai.messages import ModelMessagesTypeAdapter
from pydantic_ai.run import AgentRunResult
from pydantic_ai.tools import DeferredToolRequests, DeferredToolResults

from sayso.adapters.pydantic_ai.capability import Approvals, with_approvals
from sayso.adapters.pydantic_ai.toolset import METADATA_KEY, all_request_ids, nested_run_name, waiting_mark_name
from sayso.core.model import new_id
from sayso.engine import context
from sayso.engine.controller import ApprovalController
from sayso.errors import ApprovalPending, ConfigurationError, StoreError, UnknownRequest

OutputT = TypeVar("OutputT")

_VERSION = b"\x01"
_SEAL = hashlib.sha256().digest_size
_REQUESTS = TypeAdapter(DeferredToolRequests)


class _State(msgspec.Struct, kw_only=True):
    """State of a suspended run: its history, its open requests, and the session in which they were opened."""

    session: str
    history: msgspec.Raw
    requests: msgspec.Raw


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
        result = await _resume_run(agent, _unpack_state(name, running.state.pop()), given)
    if not isinstance(result.output, DeferredToolRequests):
        return cast("OutputT", result.output)
    asked = all_request_ids(result.output)
    if not asked:
        return cast("OutputT", result.output)  # only external calls are open
    await controller.store.park(name, await _pack_state(name, result, controller))
    await controller.store.park(waiting_mark_name(running.call.key), _VERSION)
    raise ApprovalRequired(metadata={METADATA_KEY: {"requests": asked}})


async def park(result: AgentRunResult[Any], controller: ApprovalController) -> str:
    """Store a run that ended with `DeferredToolRequests`; return the id to resume it by.

    History and requests are stored together, so that they cannot be combined with those of another run.
    """
    if not isinstance(result.output, DeferredToolRequests):
        raise ConfigurationError("this run is over: it ended with an output, and nobody has to be asked")
    name = new_id()
    await controller.store.park(name, await _pack_state(name, result, controller))
    return name


async def _pack_state(name: str, result: AgentRunResult[Any], controller: ApprovalController) -> bytes:
    asked = all_request_ids(result.output)
    rows = [row for row in [await controller.store.get(each) for each in asked] if row is not None]
    state = _State(
        session=rows[0].session
        if rows
        else controller.session,  # the run may have been resumed before, in another session
        history=msgspec.Raw(result.all_messages_json()),
        requests=msgspec.Raw(_REQUESTS.dump_json(result.output)),
    )
    body = msgspec.json.encode(state)
    return _VERSION + _seal(name, body) + body


async def resume(
    agent: Agent[Any, Any],
    parked_id: str,
    *,
    controller: ApprovalController,
    calls: Mapping[str, Any] | None = None,
    **settings: Any,  # noqa: ANN401 - those of `Agent.run`
) -> AgentRunResult[Any]:
    """Resume a parked run whose requests have been answered; its state is deleted when it has ended.

    Args:
        agent: built as the one that was suspended, with the same tools.
        parked_id: the id that `park` returned.
        controller: one on the store in which the run is parked.
        calls: results of the external calls, by their ids.
        **settings: those of `Agent.run`.

    Raises:
        ApprovalPending: one of its requests is still open.
        UnknownRequest: no run is parked under this id, or no longer.
        StoreError: the state is of another version, or was changed.
    """
    packed = await controller.store.parked(parked_id)
    if packed is None:
        raise UnknownRequest(f"no run is parked as {parked_id!r}; perhaps it has gone on already")
    state = _unpack_state(parked_id, packed)
    requests = _REQUESTS.validate_json(bytes(state.requests))
    for each in all_request_ids(requests):
        row = await controller.store.get(each)
        if row is not None and row.status == "open":
            raise ApprovalPending.for_request(row)
    given = with_approvals(agent, Approvals(controller), settings)
    with context.activate_unless_nested(controller):
        result = await _resume_run(agent, state, given, calls)
    await controller.store.unpark(parked_id)
    return result


async def _resume_run(
    agent: Agent[Any, Any], state: _State, settings: Mapping[str, Any], calls: Mapping[str, Any] | None = None
) -> AgentRunResult[Any]:
    requests = _REQUESTS.validate_json(bytes(state.requests))
    results = DeferredToolResults(
        approvals={part.tool_call_id: True for part in requests.approvals},  # the guard knows the answers
        calls=dict(calls or {}),
    )
    history = ModelMessagesTypeAdapter.validate_json(bytes(state.history))
    with context.resumed_session(state.session):
        return await agent.run(message_history=history, deferred_tool_results=results, **settings)


def _seal(name: str, body: bytes) -> bytes:
    return hashlib.sha256(b"sayso/parked/1\0" + name.encode() + b"\0" + body).digest()


def _unpack_state(name: str, packed: bytes) -> _State:
    if packed[:1] != _VERSION:
        raise StoreError(f"the run {name!r} was parked by another version of sayso ({packed[:1]!r}); resume it there")
    seal, body = packed[1 : 1 + _SEAL], packed[1 + _SEAL :]
    if seal != _seal(name, body):
        raise StoreError(f"the run {name!r} is not as it was parked; it is not resumed")
    return msgspec.json.decode(body, type=_State)
