"""Durable engines: a call that may be asked about is one step of its DBOS workflow, or one task of its Prefect flow.

A recovered workflow gets what its steps have recorded, and runs the rest of its code again. Decision and run of a call
are therefore one step: a recorded call is neither decided about nor run again, and one that was cut short is reviewed
again, which refuses it if its approval is used. Each such call is one step whatever the decision, because an engine
gives up a workflow whose steps differ from the recorded ones.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Coroutine
from hashlib import sha256
from typing import Any

from pydantic_ai.exceptions import ApprovalRequired, CallDeferred, ModelRetry, SkipToolExecution, UserError

from sayso.core.model import Denied, ToolCall
from sayso.engine.controller import ApprovalController
from sayso.errors import CanonicalError

_Record = dict[str, Any]
_Recording = Callable[[], Coroutine[Any, Any, _Record]]
_Step = Callable[[ApprovalController, ToolCall, _Recording], Awaitable[_Record]]

_OTHER_CALL = (
    "the log of its workflow holds another call at this place, so nobody knows whether this one ran; the code of a "
    "durable workflow has to make the same calls in the same order each time"
)


_NO_TEMPORAL = (
    "`Approvals` cannot ask inside a Temporal workflow, which may neither read nor write: give the agent guarded "
    "functions instead, `tools=[guard(pay, controller, on_denied='return')]`; they run in activities, and ask there"
)


def check_engine() -> None:
    """Refuse to run in a workflow of Temporal, which would wait for ever for what it is not allowed to do."""
    temporal: Any = sys.modules.get("temporalio.workflow")
    if temporal is not None and temporal.in_workflow():
        raise UserError(_NO_TEMPORAL)  # this one ends the workflow; another error would have it tried for ever


def in_workflow() -> bool:
    """Whether this is code of a workflow that may be recovered, and not of one of its steps."""
    return _engine_step() is not None


def is_recoverable() -> bool:
    """Whether this is code of a workflow that may be recovered, or of one of its steps."""
    dbos, prefect = _dbos(), _prefect()
    if dbos is not None and dbos.workflow_id is not None:
        return True
    return prefect is not None and (prefect.FlowRunContext.get() or prefect.TaskRunContext.get()) is not None


async def as_step(controller: ApprovalController, call: ToolCall, body: Callable[[], Awaitable[Any]]) -> Any:  # noqa: ANN401 - what the tool returns
    """Run the body as one step of the workflow that this code belongs to, if it does; replay it if it is recorded.

    Returns `Denied` in place of the result if the record is one of another call.
    """
    step = _engine_step()
    if step is None:
        return await body()

    async def record() -> _Record:
        # What PydanticAI raises to tell of a call is recorded as data: not every engine records what is raised.
        try:
            return {"call": _digest(call), "result": await body()}
        except ApprovalRequired as raised:
            return {"call": _digest(call), "approval": raised.metadata}
        except CallDeferred as raised:
            return {"call": _digest(call), "external": raised.metadata}
        except ModelRetry as raised:
            return {"call": _digest(call), "retry": raised.message}
        except SkipToolExecution as raised:
            return {"call": _digest(call), "denied": raised.result}

    return _replay(call, await step(controller, call, record))


def _replay(call: ToolCall, record: _Record) -> Any:  # noqa: ANN401 - what the tool returns
    if record["call"] != _digest(call):
        return Denied(cause="changed", reason=_OTHER_CALL)
    if "approval" in record:
        raise ApprovalRequired(metadata=record["approval"])
    if "external" in record:
        raise CallDeferred(metadata=record["external"])
    if "retry" in record:
        raise ModelRetry(record["retry"])
    if "denied" in record:
        raise SkipToolExecution(record["denied"])
    return record["result"]


def _digest(call: ToolCall) -> str:
    try:
        return call.digest()
    except CanonicalError:
        return ""  # it is refused inside, because no approval can be bound to it


def _engine_step() -> _Step | None:
    """Return what runs a step, if this is code of a workflow."""
    dbos, prefect = _dbos(), _prefect()
    if dbos is not None and dbos.workflow_id is not None:
        return _dbos_step if dbos.step_id is None else None
    if prefect is not None and prefect.FlowRunContext.get() is not None:
        return _prefect_task if prefect.TaskRunContext.get() is None else None
    return None


# An engine that the host has not imported runs no workflow.


def _dbos() -> Any:  # noqa: ANN401 - the class of an optional package
    return getattr(sys.modules.get("dbos"), "DBOS", None)


def _prefect() -> Any:  # noqa: ANN401 - a module of an optional package
    return sys.modules.get("prefect.context")


async def _dbos_step(controller: ApprovalController, call: ToolCall, record: _Recording) -> _Record:
    from dbos import DBOS, error  # noqa: PLC0415 - the host has imported it

    try:
        # Preemptible: a workflow that is cancelled while a person thinks must not run the call when they say yes.
        return await DBOS.run_step_async({"name": f"sayso.{call.tool}", "preemptible": True}, record)
    except error.DBOSWorkflowCancelledError:
        for asked in await controller.adapter.find_requests(call.run, call.call_id):
            await controller.adapter.withdraw_if_open(asked.id)
        raise


async def _prefect_task(_: ApprovalController, call: ToolCall, record: _Recording) -> _Record:
    flow: Any = _prefect().FlowRunContext.get()
    made = "\0".join(("sayso", call.session, call.key, _digest(call)))
    times = flow.task_run_dynamic_keys.get(made, 0) + 1  # a call that was deferred is made again
    flow.task_run_dynamic_keys[made] = times
    key = sha256(f"{flow.flow_run.id}\0{made}\0{times}".encode()).hexdigest()

    def cache_key(*_: object) -> str:
        return key

    task: Any = sys.modules["prefect"].task
    return await task(record, name=f"sayso.{call.tool}", persist_result=True, cache_key_fn=cache_key, retries=0)()
