"""Guarded copies of an agent's tools: one for each way in which a run can wait, as long as the tool stays as it is.

Within a turn, the SDK compares tools by identity.

Tests: tests/adapters/openai_agents/test_functions.py
"""

from __future__ import annotations

import copy
import inspect
from abc import ABC, abstractmethod
from typing import Any, Generic, TypeVar

from sayso.adapters.openai_agents.call_guard import CallGuard, GuardFacts, GuardTerms, can_stop

ToolT = TypeVar("ToolT")


class GuardedCopies(ABC, Generic[ToolT]):
    """The guarded copies of one tool in one agent."""

    def __init__(self, tool: ToolT, facts: GuardFacts, agent: Any, terms: GuardTerms) -> None:  # noqa: ANN401 - the SDK's own
        self._tool = tool
        self._guard = CallGuard(facts, agent, terms)
        self._gate = terms.gate
        self._made_from = dict(vars(tool))
        self._copies: dict[bool, ToolT] = {}

    def are_of(self, tool: object) -> bool:
        """Whether these are the copies of a tool as it is now."""
        now = vars(tool)
        return (
            tool is self._tool
            and now.keys() == self._made_from.keys()
            and all(now[name] is each for name, each in self._made_from.items())
        )

    def current(self) -> ToolT:
        """Return the copy for a run that stops for a question here, or for one that waits in place."""
        stops = can_stop(self._gate)
        if stops not in self._copies:
            self._copies[stops] = copy.copy(self._tool)
            self._put_guard(self._copies[stops], stops=stops)
        return self._copies[stops]

    @abstractmethod
    def _put_guard(self, copied: ToolT, *, stops: bool) -> None:
        """Put the guard into the hooks of a copy."""


async def answer_of(setting: Any, *args: object) -> bool:  # noqa: ANN401 - the SDK's own
    """Return what a setting of a tool says, which is a truth or a function that may be async."""
    answer = setting(*args) if callable(setting) else setting
    return bool(await answer if inspect.isawaitable(answer) else answer)
