"""Started calls: approved calls that another program runs, whose results a later process records by the program's id.

Tests: tests/adapters/kit/test_started_calls.py
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import msgspec

from sayso.core.canonical import thaw
from sayso.core.model import Approved
from sayso.errors import ToolError

if TYPE_CHECKING:
    from sayso.adapters.kit.gate import Gate
    from sayso.core.model import ToolCall


class _Started(msgspec.Struct, frozen=True):
    """What the later process needs to know of an approval."""

    request_id: str
    args: dict[str, Any]


class StartedCalls:
    """The calls of one session that run elsewhere, for one gate; only those that a person has answered are noted."""

    def __init__(self, gate: Gate, session: str) -> None:
        self._gate = gate
        self._session = session

    async def begin(self, program_id: str, outcome: Approved) -> None:
        """Note that a call begins, under the id that its program has for it."""
        if outcome.request_id is not None:
            note = msgspec.json.encode(_Started(outcome.request_id, thaw(outcome.args)))
            await self._gate.controller.store.park(self._name(program_id), note)

    async def end(self, program_id: str, call: ToolCall, result: object, error: str, seconds: float | None) -> bool:
        """Record the end of a call; false if it is not one that was noted, or if it has ended before."""
        noted = await self._gate.controller.store.unpark(self._name(program_id))
        if noted is None:
            return False
        started = msgspec.json.decode(noted, type=_Started)
        outcome = Approved(args=started.args, by="answer", reason="", request_id=started.request_id)
        failure = ToolError(error) if error else None
        self._gate.controller.adapter.record_result(call, outcome, result, failure, seconds)
        return True

    def _name(self, program_id: str) -> str:
        return "started/" + hashlib.sha256(f"{self._session}\0{program_id}".encode()).hexdigest()
