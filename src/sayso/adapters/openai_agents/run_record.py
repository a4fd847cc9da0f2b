"""Run record: what sayso keeps in the SDK's own state of a run, which takes it to other processes.

The SDK has no id of a run, and keeps nothing of ours with its state but decisions about tools. So the record is the
message of a rejected tool that does not exist. No decision rests on it: with another record, a call is another call.

Tests: tests/adapters/openai_agents/test_run_states.py
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec
from agents import RunContextWrapper
from agents.items import ToolApprovalItem

from sayso.core.model import new_id

_TOOL = "sayso:run"  # no tool of a model can have this name


class RunRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The id of a run, and the requests that it has opened, those of the agents inside its tools too."""

    run: str
    asked: tuple[str, ...] = ()


class CurrentRun(NamedTuple):
    """The record of a run, and whether it began in this process: nobody was asked about its new calls before."""

    record: RunRecord
    began_here: bool


class _LiveText(str):
    """The text of a record in a run that began here; a copy of it, as the state of the run has it, is plain text."""

    __slots__ = ("record",)
    record: RunRecord

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        return str, (str(self),)


def current_run(context: RunContextWrapper[Any], agent: Any) -> CurrentRun:  # noqa: ANN401 - the SDK's own type
    """Return the run of a context; the first time, begin its record."""
    found = find_run(context)
    if found is None:
        found = CurrentRun(RunRecord(run=new_id()), began_here=True)
        _keep(context, agent, found)
    return found


def find_run(context: RunContextWrapper[Any]) -> CurrentRun | None:
    """Return the run of a context, if it has a record."""
    text = context.get_rejection_message(_TOOL, _TOOL)
    if text is None:
        return None
    if isinstance(text, _LiveText):
        return CurrentRun(text.record, began_here=True)
    try:
        return CurrentRun(msgspec.json.decode(text, type=RunRecord), began_here=False)
    except msgspec.MsgspecError:  # somebody has changed it
        return None


def add_request(context: RunContextWrapper[Any], agent: Any, request_id: str) -> None:  # noqa: ANN401 - the SDK's own type
    """Note that a run has opened a request."""
    record, began_here = current_run(context, agent)
    if request_id not in record.asked:
        added = msgspec.structs.replace(record, asked=(*record.asked, request_id))
        _keep(context, agent, CurrentRun(added, began_here))


def _keep(context: RunContextWrapper[Any], agent: Any, run: CurrentRun) -> None:  # noqa: ANN401 - the SDK's own type
    text = msgspec.json.encode(run.record).decode()
    if run.began_here:
        text = _LiveText(text)
        text.record = run.record
    item = ToolApprovalItem(agent=agent, raw_item={"type": _TOOL}, tool_name=_TOOL)
    RunContextWrapper.reject_tool(context, item, always_reject=True, rejection_message=text)
