"""Waiting for an answer by the means of the client: progress messages, rounds of `input_required`, or "not yet".

Tests: tests/adapters/mcp/test_relay.py
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sayso.adapters.mcp.messages import PROTOCOL
from sayso.core.model import Approved, Denied, Pending

if TYPE_CHECKING:
    from sayso.adapters.kit import Gate
    from sayso.core.model import ApprovalRequest, ToolCall
    from sayso.policy.policy import ToolRules

_MODERN = "2026-07-28"
_STATE = re.compile(r"sayso\.([1-9])")  # it has no authority: the question is found by the call itself
_MOST_ROUNDS = 8  # of ten that clients make
_BEAT_SECONDS = 5.0
_WITHDRAWN = "the client has cancelled the call"


@dataclass(frozen=True, kw_only=True)
class Waiting:
    """How a client waits: until when, in which round, and how it is told that the relay is still there."""

    seconds: float
    round: int
    more_rounds: bool
    tell_progress: Callable[[int], Coroutine[Any, Any, None]] | None

    @classmethod
    def of(
        cls,
        params: Mapping[str, Any],
        seconds: float,
        send: Callable[[object], Coroutine[Any, Any, None]],
    ) -> Waiting:
        """Read from a call how its client waits."""
        meta: Mapping[str, Any] = params.get("_meta") or {}
        token, number = meta.get("progressToken"), own_round(params.get("requestState")) or 0
        is_modern = str(meta.get(f"{PROTOCOL}protocolVersion", "")) >= _MODERN

        async def tell(beat: int) -> None:
            told = {"progressToken": token, "progress": beat, "message": "waiting for a person's answer"}
            await send({"jsonrpc": "2.0", "method": "notifications/progress", "params": told})

        return cls(
            seconds=seconds,
            round=number + 1,
            more_rounds=is_modern and number < _MOST_ROUNDS,
            tell_progress=None if token is None else tell,
        )

    async def decide(self, gate: Gate, call: ToolCall, rules: ToolRules) -> Approved | Denied | Pending:
        """Review a call; return `Pending` if nobody has answered in time. A cancelled wait withdraws its question."""
        adapter = gate.controller.adapter
        outcome = await adapter.review(call, rules, asked=None)
        end = time.monotonic() + self.seconds
        try:
            while isinstance(outcome, Pending) and await self._answered(gate, outcome.request, end):
                outcome = await adapter.review(call, rules, asked=True)
        except asyncio.CancelledError:
            if isinstance(outcome, Pending):
                await asyncio.shield(adapter.withdraw_if_open(outcome.request.id, _WITHDRAWN))
            raise
        return outcome

    async def _answered(self, gate: Gate, request: ApprovalRequest, end: float) -> bool:
        """Wait for the answer until that time; meanwhile tell the client now and then."""
        beat = 0
        while (left := end - time.monotonic()) > 0:
            found = await gate.controller.wait(request.id, timeout=min(left, _BEAT_SECONDS))
            if found.status != "open":
                return True
            beat += 1
            if self.tell_progress is not None:
                await self.tell_progress(beat)
        return False

    def not_yet(self, request: ApprovalRequest) -> dict[str, Any]:
        """Return the result of a call that nobody has answered so far: the client comes back, or its model does."""
        if self.more_rounds:
            return {"resultType": "input_required", "requestState": f"sayso.{self.round}"}
        text = (
            f"Not executed yet: a person has to say yes, and has not answered so far (request {request.id[-6:]}). "
            "The question stays open. Go on with other work, then make exactly this call again to learn the answer."
        )
        return {"resultType": "complete", "content": [{"type": "text", "text": text}], "isError": True}


def own_round(state: object) -> int | None:
    """Return the number of the round in a state that the relay has given; None for another state, or none."""
    found = _STATE.fullmatch(state) if isinstance(state, str) else None
    return None if found is None else int(found[1])
