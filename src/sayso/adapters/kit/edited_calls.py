"""Edited calls: an edit that a client cannot take becomes a refusal that names the new arguments, and can be redeemed.

The approval of the edited call stays unused. When the model makes exactly the call that the person made of it, that
call uses the approval, once.

Tests: tests/adapters/kit/test_edited_calls.py
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from msgspec.structs import replace

from sayso.adapters.kit.feedback import call_text
from sayso.core.canonical import is_same_value

if TYPE_CHECKING:
    from sayso.adapters.kit.gate import Gate
    from sayso.core.model import ApprovalRequest, ToolCall


class EditedCalls:
    """The edits that clients could not take, for one gate."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    async def refuse(self, request: ApprovalRequest) -> str:
        """Keep an approval with edited arguments for the call that it is about; return the refusal for the model."""
        edited = edited_call(request)
        if edited is None:
            raise ValueError(f"the request {request.id!r} is not approved with edited arguments")
        await self._gate.controller.store.park(_name(edited), request.id.encode())
        note = request.decision.note if request.decision else None
        words = f" Note of the person: {note}" if note else ""
        return (
            "Not executed: a person changed the arguments, and this client cannot take a change. "
            f"Make exactly this call instead: {call_text(edited.tool, edited.args)}.{words}"
        )

    async def original(self, call: ToolCall) -> ToolCall | None:
        """Return the call whose approval this call may use: a person changed that one into exactly this one."""
        store = self._gate.controller.store
        call = self._gate.controller.adapter.with_session(call)
        kept = await store.parked(_name(call))
        request = None if kept is None else await store.get(kept.decode())
        edited = None if request is None else edited_call(request)
        if request is not None and edited is not None and is_same_value(edited.args, call.args):
            return request.call()
        if kept is not None:
            await store.unpark(_name(call))  # it is used up
        return None


def edited_call(request: ApprovalRequest) -> ToolCall | None:
    """Return the call that a person has made of the one in a request, if its approval is not used yet."""
    decision = request.decision
    if request.status != "approved" or decision is None or decision.override_args is None:
        return None
    return replace(request.call(), args=decision.override_args)


def _name(call: ToolCall) -> str:
    """Return the name under which an edit is kept: session, run and digest of the edited call."""
    place = f"{call.session}\0{call.run}\0{call.digest()}"
    return f"edited/{hashlib.sha256(place.encode()).hexdigest()}"
