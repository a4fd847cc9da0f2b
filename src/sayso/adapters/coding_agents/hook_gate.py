"""Gate behind a hook: decides about one call of a coding agent, in a process that lives no longer than that.

What was asked before is found in the store, by the call itself: the client's ids do not outlive a retry of its model.

Tests: tests/adapters/coding_agents/test_hook_gate.py
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from typing import TYPE_CHECKING, Literal, NamedTuple

from msgspec.structs import replace

from sayso.adapters.coding_agents.client_calls import read_call
from sayso.adapters.coding_agents.hook_answers import HookAnswer, allow, deny
from sayso.adapters.kit import EditedCalls, RepeatedCalls, StartedCalls, edited_call
from sayso.core.canonical import is_same_value
from sayso.core.model import Approved, Denied, Pending
from sayso.errors import StoreError, ToolError

if TYPE_CHECKING:
    from sayso.adapters.coding_agents.client_calls import ClientCall
    from sayso.adapters.coding_agents.clients import Client
    from sayso.adapters.coding_agents.hook_events import HookEvent
    from sayso.adapters.kit import Gate
    from sayso.core.model import ApprovalRequest, ToolCall
    from sayso.policy.policy import ToolRules

_MOST_TRIES = 5  # of a call whose answer another process uses up first
_WITHDRAWN = "the coding agent does not wait for the call any more"
_DEFERRED = "Waits for a person's answer (request {id}): answer it, then resume this session."
_NOT_YET = (
    "Not executed yet: a person has to say yes, and has not answered so far (request {id}). The question stays open. "
    "Go on with other work, then make exactly this call again to learn the answer."
)


class _EditedApproval(NamedTuple):
    """An unused approval with edited arguments, which the client cannot take."""

    request: ApprovalRequest


Reviewed = Approved | Denied | Pending | _EditedApproval


class HookGate:
    """Decides about the calls of one client, and records their results."""

    def __init__(self, gate: Gate, client: Client, *, hold: float, unanswered: Literal["deny", "defer"]) -> None:
        """Prepare for one event.

        Args:
            gate: with the controller that decides.
            client: whose hook it is.
            hold: seconds that a call waits for its answer.
            unanswered: what the client is told then; `defer` only where it resumes.
        """
        self._gate = gate
        self._client = client
        self._hold = hold
        self._defers = unanswered == "defer" and client.defers
        self._repeated = RepeatedCalls(gate)
        self._edits = EditedCalls(gate)

    async def decide(self, event: HookEvent) -> HookAnswer:
        """Decide about a call before it runs; wait for a person for a while, where one has to answer.

        Raises:
            ValueError: no approval can be bound to the call; it must not run.
            StoreError: the store cannot say whether it may run; it must not.
        """
        asked = read_call(event, self._client)
        rules = self._gate.tighten(asked.rules(self._gate.controller.policy))
        original = await self._edits.original(asked.call)
        outcome = await (self._review_new(asked, rules) if original is None else self._redeem(asked, original, rules))
        if isinstance(outcome, _EditedApproval):
            return deny(await self._edits.refuse(outcome.request))
        if isinstance(outcome, Pending):
            return await self._later(outcome.request)
        if isinstance(outcome, Denied):
            return deny(outcome.message)
        return await self._start(asked, outcome)

    async def record(self, event: HookEvent) -> bool:
        """Record the result of a call; false if no person was asked about it."""
        call = read_call(event, self._client).call
        error = (event.error or "it failed") if event.kind == "raised" else ""
        return await self._started(event).end(_program_id(event, call), call, event.result, error, event.seconds)

    async def _redeem(self, asked: ClientCall, original: ToolCall, rules: ToolRules) -> Reviewed:
        """Use the approval of the call that a person has changed into this one."""
        outcome = await self._gate.controller.adapter.review(original, rules, asked=True)
        if isinstance(outcome, Approved) and not is_same_value(outcome.args, asked.call.args):
            raise StoreError("the approval has changed at the same moment")
        return outcome

    async def _review_new(self, asked: ClientCall, rules: ToolRules) -> Reviewed:
        end = time.monotonic() + self._hold
        for _ in range(_MOST_TRIES):
            async with self._repeated.numbered(asked.call) as named:
                outcome = await self._review_until(end, asked, named, rules)
            if not (isinstance(outcome, Denied) and outcome.cause == "replayed"):
                return outcome
        raise StoreError("other processes have used up its answers")

    async def _review_until(self, end: float, asked: ClientCall, named: ToolCall, rules: ToolRules) -> Reviewed:
        """Review a call, and again when its question is answered; a cancelled wait withdraws the question."""
        outcome = await self._review(asked, named, rules)
        try:
            while isinstance(outcome, Pending) and (left := end - time.monotonic()) > 0:
                closed = await self._gate.controller.wait(outcome.request.id, timeout=left)
                if closed.status != "open":
                    outcome = await self._review(asked, named, rules)
        except asyncio.CancelledError:
            if isinstance(outcome, Pending):
                adapter = self._gate.controller.adapter
                await asyncio.shield(adapter.withdraw_if_open(outcome.request.id, _WITHDRAWN))
            raise
        return outcome

    async def _review(self, asked: ClientCall, named: ToolCall, rules: ToolRules) -> Reviewed:
        """Review a call, but leave an approval unused whose edit the client would ignore."""
        adapter = self._gate.controller.adapter
        request = await adapter.find_request(named)
        edited = None if request is None else edited_call(request)
        if request is not None and edited is not None and not asked.can_take(edited.args):
            return _EditedApproval(request)
        return await adapter.review(named, rules, asked=None)

    async def _start(self, asked: ClientCall, outcome: Approved) -> HookAnswer:
        """Let an approved call run, if the client runs what was approved."""
        changed = not is_same_value(outcome.args, asked.call.args)
        if changed and not asked.can_take(outcome.args):  # edited at the last moment, or by a remembered answer
            refused = ToolError("the client cannot take edited arguments")
            self._gate.controller.adapter.record_result(asked.call, outcome, None, refused, None)
            return deny(f"Not executed: a person changed its arguments, and {self._client.title} cannot take a change.")
        ran = replace(asked.call, args=outcome.args)
        await self._started(asked.event).begin(_program_id(asked.event, ran), outcome)
        return allow(asked, outcome, changed=changed)

    async def _later(self, request: ApprovalRequest) -> HookAnswer:
        """Say that nobody has answered; the question stays open."""
        await self._repeated.expect_return(request)
        if self._defers and await self._takes_deferred_place(request):
            return HookAnswer(decision="defer", reason=_DEFERRED.format(id=request.id[-6:]))
        return deny(_NOT_YET.format(id=request.id[-6:]))

    async def _takes_deferred_place(self, request: ApprovalRequest) -> bool:
        """Whether no other call of the session is deferred: the client would forget that one."""
        store = self._gate.controller.store
        name = f"deferred/{hashlib.sha256(request.session.encode()).hexdigest()}"
        before = await store.parked(name)
        other = None if before is None or before.decode() == request.id else await store.get(before.decode())
        if other is not None and other.status in {"open", "approved"}:
            return False
        await store.park(name, request.id.encode())
        return True

    def _started(self, event: HookEvent) -> StartedCalls:
        return StartedCalls(self._gate, event.session)


def _program_id(event: HookEvent, ran: ToolCall) -> str:
    return event.call_id or ran.digest()
