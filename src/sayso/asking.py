"""Putting a question to people: the request as a row, and the channels that tell of it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING

from sayso.errors import CanonicalError
from sayso.model import ApprovalDecision, ApprovalRequest, ToolCall, Verdict, new_id
from sayso.policy import scopes

if TYPE_CHECKING:
    from sayso.model import Scope
    from sayso.ports import Channel

_LOG = logging.getLogger("sayso")


def question(call: ToolCall, verdict: Verdict, *, now: float, timeout: float | None) -> ApprovalRequest:
    """Return the request to open for a call; raises `CanonicalError` if nothing can be bound to it."""
    spans = [span for span in (verdict.expires, timeout) if span is not None]
    return ApprovalRequest(
        id=new_id(),
        tool_name=call.tool,
        args=call.args,
        description=verdict.description or f"Run {call.tool}",
        payload=verdict.payload,
        presentation=verdict.presentation,
        metadata=verdict.metadata,
        summary=_summary(verdict),
        tool_call_id=call.call_id,
        session=call.session,
        agent_path=call.agent_path,
        schema_hash=call.schema_hash,
        digest=call.digest(),
        reason=verdict.reason,
        rule=verdict.rule,
        approval=verdict.approval,
        scopes=_offered(call, verdict),
        asked_at=now,
        expires_at=now + min(spans) if spans else None,
    )


def _summary(verdict: Verdict) -> str | None:
    """Return the short form that the tool itself gave, in the order that seed 000 looks for it."""
    given = verdict.metadata or {}
    return next((str(given[key]) for key in ("summary", "reason", "path") if given.get(key)), verdict.description)


def _offered(call: ToolCall, verdict: Verdict) -> tuple[Scope, ...]:
    try:
        return scopes.offered(call, verdict)
    except CanonicalError:
        return ()  # a payload that cannot be canonicalised cannot be remembered; the call can still be asked about


class Announcer:
    """Tells the channels of open requests and takes their answers; a turn ends when somebody else answered."""

    def __init__(
        self,
        channels: Iterable[Channel],
        *,
        answer: Callable[[str, ApprovalDecision], Awaitable[object]],
        withdraw: Callable[[str, str], Awaitable[object]],
    ) -> None:
        """Take the channels, and the two things that can come of them."""
        self.channels = tuple(channels)
        self._answer = answer
        self._withdraw = withdraw
        self._turns: dict[str, set[asyncio.Task[None]]] = {}

    def announce(self, request: ApprovalRequest) -> None:
        """Start every channel's turn."""
        turns = {asyncio.create_task(self._turn(channel, request)) for channel in self.channels}
        if turns:
            self._turns[request.id] = turns

    def stop(self, request_id: str) -> None:
        """End the turns that still go on about a request that is closed."""
        for turn in self._turns.pop(request_id, ()):
            turn.get_loop().call_soon_threadsafe(turn.cancel)

    async def _turn(self, channel: Channel, request: ApprovalRequest) -> None:
        try:
            decision = await channel.announce(request)
        except Exception as error:  # noqa: BLE001 - a channel is other people's code; no error of it may approve
            await self._failed(channel, request, f"raised {type(error).__name__}: {error}")
            return
        if decision is None:
            self._leave(request.id)
        elif isinstance(decision, ApprovalDecision):  # pyright: ignore[reportUnnecessaryIsInstance] - other people's code
            await self._answered(channel, request, decision)
        else:
            await self._failed(channel, request, f"returned {decision!r} instead of an ApprovalDecision")

    async def _answered(self, channel: Channel, request: ApprovalRequest, decision: ApprovalDecision) -> None:
        self._leave(request.id)
        try:
            await self._answer(request.id, decision)
        except (ValueError, PermissionError) as error:
            await self._failed(channel, request, f"gave an answer that cannot stand: {error}")

    async def _failed(self, channel: Channel, request: ApprovalRequest, problem: str) -> None:
        self._leave(request.id)
        _LOG.warning("%s %s", type(channel).__name__, problem)
        if not self._turns.get(request.id):
            await self._withdraw(request.id, f"the approval callback {problem}")

    def _leave(self, request_id: str) -> None:
        turns = self._turns.get(request_id, set())
        turns.discard(asyncio.current_task())  # pyright: ignore[reportArgumentType] - always called in a task
        if not turns:
            self._turns.pop(request_id, None)
