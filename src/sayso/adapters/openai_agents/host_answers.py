"""Answers from front ends of the SDK, given by `state.approve` and `state.reject`, where the host says whose they are.

Tests: tests/adapters/openai_agents/test_run_states.py
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agents import RunContextWrapper

from sayso.adapters.kit import Gate, WebUser, give_answer
from sayso.adapters.openai_agents.run_record import find_run
from sayso.core.model import ApprovalDecision, ApprovalRequest
from sayso.errors import ConfigurationError

AnsweredBy = Callable[[RunContextWrapper[Any]], WebUser | None]


class HostAnswers:
    """Takes the decisions in the SDK's state of a run as answers of the person that the host names, if it names one."""

    def __init__(self, gate: Gate, answered_by: AnsweredBy | None) -> None:
        if answered_by is not None and not callable(answered_by):
            raise ConfigurationError(f"answered_by is {answered_by!r}; pass a function of the run's context")
        self._gate = gate
        self._answered_by = answered_by

    async def take_all(self, context: RunContextWrapper[Any]) -> None:
        """Take the answers to all open questions of a run: the SDK runs nothing for a call that it has rejected."""
        run = find_run(context) if self._answered_by is not None else None
        if run is None or run.began_here:
            return
        for each in run.record.asked:
            request = await self._gate.controller.store.get(each)
            if request is not None:
                await self.take(request, context)

    async def take(self, request: ApprovalRequest, context: RunContextWrapper[Any]) -> None:
        """Take the answer to a question, if it is open and the state has one."""
        if self._answered_by is None or request.status != "open":
            return
        tool, call_id = request.tool_name, request.tool_call_id
        said = context.is_tool_approved(tool, call_id)
        user = None if said is None else self._answered_by(context)
        if said is None or user is None:
            return
        note = None if said else context.get_rejection_message(tool, call_id)
        await give_answer(self._gate.controller, request, ApprovalDecision(approved=said, note=note), user)
