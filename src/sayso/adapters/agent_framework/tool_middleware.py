"""The middleware round the tools: decides about each call, and runs it once, as it was decided.

Tests: tests/adapters/agent_framework/test_conformance.py
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, cast

from agent_framework import (
    Content,
    FunctionInvocationContext,
    FunctionMiddleware,
    MiddlewareFailure,
)

from sayso.adapters.agent_framework.agents_as_tools import check_agent_tool
from sayso.adapters.agent_framework.function_calls import AgentRun, InvokedCall, identify
from sayso.adapters.agent_framework.function_starts import check_own_start, guard_starts, permit_start
from sayso.adapters.kit import GuardedRun, OnDenied, add_feedback, call_text, has_feedback
from sayso.core.model import Approved, Denied
from sayso.engine import context as running
from sayso.errors import ApprovalPending, ConfigurationError, StoreError

if TYPE_CHECKING:
    from sayso.adapters.agent_framework.approval_contents import ApprovalFlow


class ToolMiddleware(FunctionMiddleware):
    """The framework's middleware round each tool, of one run."""

    def __init__(self, run: AgentRun, flow: ApprovalFlow, on_denied: OnDenied) -> None:
        self.run = run
        self._flow = flow
        self._on_denied = on_denied

    async def process(self, context: FunctionInvocationContext, call_next: Callable[[], Awaitable[None]]) -> None:
        """Decide about a call, and run it if it is approved."""
        asked, outcome = await self._decide(context)
        if isinstance(asked, Denied) or isinstance(outcome, Denied):
            context.result = self._words(context.function.name, cast("Denied", outcome))
            return
        values = asked.arguments.values(outcome.args)
        run = GuardedRun(
            self.run.gate, asked.call, outcome, marked_as=asked.marked_as, passed=values, messages=asked.messages
        )
        with run, permit_start(asked, values) as permit:
            await call_next()
            run.result = text_of(context.result)
        if permit.is_taken:  # else another middleware has answered in the place of the tool
            context.result = _told(context.result, asked, outcome)

    async def _decide(self, context: FunctionInvocationContext) -> tuple[InvokedCall | Denied, Approved | Denied]:
        """Decide about a call; what is wrong with the gate ends the run, and is not told to the model as a failure."""
        try:
            guard_starts([context.function, *(context.tools or ())])
            asked = identify(context, self.run)
            if isinstance(asked, Denied):
                return asked, asked
            check_agent_tool(asked.tool)
            check_own_start(asked.tool)
            with running.messages_from(asked.messages):
                return asked, await self._flow.decide(asked, self.run)
        except (ApprovalPending, ConfigurationError, StoreError) as error:
            raise MiddlewareFailure(str(error)) from error

    def _words(self, tool: str, outcome: Denied) -> str:
        """Return the words for the model in the place of the result."""
        if self._on_denied == "raise" and outcome.cause != "failed":
            error = outcome.error(tool)
            raise MiddlewareFailure(str(error)) from error
        return outcome.message


def text_of(result: object) -> str:
    """Return the text of a tool's result."""
    if not isinstance(result, list):
        return str(result)
    return "\n".join(each.text for each in cast("list[Content]", result) if each.text)


def _told(result: Any, asked: InvokedCall, outcome: Approved) -> Any:  # noqa: ANN401 - what a tool returns
    """Return the result with what a person has edited and noted."""
    if not has_feedback(outcome):
        return result
    told = add_feedback(text_of(result), outcome, call_text(asked.call.tool, outcome.args))
    others = [each for each in cast("list[Content]", result) if not each.text] if isinstance(result, list) else []
    return [Content.from_text(told), *others]
