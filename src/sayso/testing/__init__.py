"""Test doubles and the store contract suite, for users of the library as much as for its own tests.

pytest_plugins = ["sayso.testing"]      # in conftest.py: gives the fixture `approver`

Tests: tests/testing/test_testing.py
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Collection, Generator
from contextlib import asynccontextmanager
from typing import Any

try:
    import pytest
except ImportError as error:
    raise ImportError("sayso.testing needs pytest: install `sayso[testing]`") from error

pytest.register_assert_rewrite("sayso.testing.store_contract", "sayso.testing.parking_contract")

from sayso.core.model import ApprovalDecision, ApprovalRequest, Remember  # noqa: E402
from sayso.engine.controller import ApprovalController  # noqa: E402
from sayso.policy import tool_names  # noqa: E402
from sayso.policy.policy import Policy  # noqa: E402
from sayso.testing.store_contract import StoreContract  # noqa: E402 - after the line above, so that its assertions explain themselves

__all__ = ["Approver", "FixedClock", "ScriptedChannel", "StoreContract", "approver", "idle_rules"]


class FixedClock:
    """Fake clock that a test advances."""

    def __init__(self, now: float = 1_000_000.0) -> None:
        self._now = now
        self._elapsed = 0.0
        self._waits: dict[asyncio.Timeout, tuple[float, asyncio.AbstractEventLoop]] = {}

    def now(self) -> float:
        """Return the fake time."""
        return self._now

    def monotonic(self) -> float:
        """Return the fake seconds that have passed."""
        return self._elapsed

    def advance(self, seconds: float) -> None:
        """Advance the clock, and end the waits that are due."""
        self._now += seconds
        self._elapsed += seconds
        for wait, (ends, loop) in list(self._waits.items()):
            if ends <= self._elapsed:
                loop.call_soon_threadsafe(self._end, wait, loop)

    def set_back(self, seconds: float) -> None:
        """Set the clock back, as an administrator may: no time passes, and waits go on."""
        self._now -= seconds

    @asynccontextmanager
    async def until(self, when: float) -> AsyncGenerator[None]:
        """Raise TimeoutError inside the body at that time."""
        is_due = when <= self._now
        async with asyncio.timeout(0 if is_due else None) as wait:
            if not is_due:  # else it ends by itself, and cannot be ended a second time
                self._waits[wait] = (self._elapsed + when - self._now, asyncio.get_running_loop())
            try:
                yield
            finally:
                self._waits.pop(wait, None)

    def _end(self, wait: asyncio.Timeout, loop: asyncio.AbstractEventLoop) -> None:
        if self._waits.pop(wait, None):
            wait.reschedule(loop.time())


class ScriptedChannel:
    """Fake approver with scripted answers; a question that is not in the script is denied."""

    def __init__(self, *decisions: ApprovalDecision) -> None:
        """Begin with these answers, in order, for any tool."""
        self.asked: list[ApprovalRequest] = []
        self.unforeseen: list[ApprovalRequest] = []
        self._answers: deque[tuple[str | None, ApprovalDecision]] = deque((None, each) for each in decisions)

    def approve(
        self,
        tool: str | None = None,
        *,
        override_args: dict[str, Any] | None = None,
        note: str | None = None,
        remember: Remember = "none",
    ) -> None:
        """Script an approval of the next question (of this tool), with edited arguments if given."""
        decision = ApprovalDecision(
            approved=True, note=note, override_args=override_args, remember=remember, who="the scripted approver"
        )
        self._answers.append((tool, decision))

    def deny(self, tool: str | None = None, *, note: str | None = None, remember: Remember = "none") -> None:
        """Script a denial of the next question (of this tool)."""
        decision = ApprovalDecision(approved=False, note=note, remember=remember, who="the scripted approver")
        self._answers.append((tool, decision))

    async def announce(self, request: ApprovalRequest) -> ApprovalDecision:
        """Answer with the first scripted decision that fits."""
        self.asked.append(request)
        for index, (tool, decision) in enumerate(self._answers):
            if tool in {None, request.tool_name}:
                del self._answers[index]
                return decision
        self.unforeseen.append(request)
        return ApprovalDecision(approved=False, note="the test did not foresee this question")

    @property
    def unused(self) -> list[tuple[str | None, ApprovalDecision]]:
        """The scripted answers that no question used, each with its tool."""
        return list(self._answers)


class Approver(ScriptedChannel):
    """Scripted approver with a controller of its own."""

    def __init__(self, policy: Policy | None = None) -> None:
        """Build the controller, with a store in memory and this policy."""
        super().__init__()
        self.controller = ApprovalController(channels=[self], policy=policy, store="memory:")


@pytest.fixture
def approver() -> Generator[Approver]:
    """Fixture: a scripted approver that code marked with `@requires_approval` asks.

    At the end of the test, a question that was not foreseen, or an answer that nobody asked for, fails the test.
    """
    scripted = Approver()
    with scripted.controller.activated(everywhere=True):  # an async test may run in a task that began earlier
        yield scripted
    answers = [(tool or "any tool", "yes" if decision.approved else "no") for tool, decision in scripted.unused]
    waiting = ", ".join(f"{word} to {tool}" for tool, word in answers)
    if scripted.unforeseen:
        question = f"nobody foresaw the question about {scripted.unforeseen[0]}"
        pytest.fail(f"{question}; left in the script: {waiting or 'nothing'}", pytrace=False)
    if waiting:
        pytest.fail(f"nobody asked for the answer: {waiting}", pytrace=False)


def idle_rules(policy: Policy, tools: Collection[str]) -> list[str]:
    """Return a sentence for each rule that is about none of these tools, with the nearest name, if there is one."""
    return [sentence for _, _, sentence in tool_names.idle_rules(policy, tools)]
