"""Guarded run: one execution of an approved tool, published to nested agents, audited once, with one start.

Tests: tests/adapters/kit/test_kit.py
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

from msgspec.structs import replace

from sayso.engine import context
from sayso.errors import ApprovalBlocked

if TYPE_CHECKING:
    from types import TracebackType

    from sayso.adapters.kit.gate import Gate
    from sayso.core.model import Approved, ToolCall


class GuardedRun:
    """The execution of an approved call, as a context manager whose `result` is set before it is left.

    For hooks before and after a tool: `begin` in the one, and one of `returned`, `raised` and `suspend` in the other,
    which may be called in another task or thread. What ends first counts.
    """

    __slots__ = ("_answered", "_execution", "_nested", "_tool", "_unused", "outcome")

    def __init__(
        self,
        gate: Gate,
        call: ToolCall,
        outcome: Approved,
        *,
        marked_as: str | None = None,
        passed: Mapping[str, Any] | None = None,
        state: bytes | None = None,
        messages: context.Messages | None = None,
    ) -> None:
        """Prepare the run of a call.

        Args:
            gate: the gate that has approved it.
            call: the call, with the session in which it was decided about.
            outcome: the approval, whose arguments the tool gets, and no others.
            marked_as: the name under which the tool's function asks by itself (`@requires_approval`), so that it does
                not ask a second time.
            passed: the arguments as that function gets them, where they are no plain data.
            state: the parked state of an agent inside the call, with which that agent resumes.
            messages: the conversation before the call, for what the tool itself asks about.
        """
        self.outcome = outcome
        self._tool, self._unused = call.tool, [True]
        controller = gate.controller
        ran = call if call.args is outcome.args else replace(call, args=outcome.args)
        self._execution = controller.adapter.execution(call, outcome)
        self._nested = context.nested_call(
            controller, ran, by=outcome.by, state=state, tightening=gate.tightening, messages=messages
        )
        given = outcome.args if passed is None else passed
        self._answered = None if marked_as is None else context.pre_approve(controller, marked_as, given)

    @property
    def result(self) -> Any:  # noqa: ANN401 - what the tool returned
        """What the tool returned."""
        return self._execution.result

    @result.setter
    def result(self, value: object) -> None:
        self._execution.result = value

    def begin(self) -> Self:
        """Publish the approval to the tool and to the agents inside it.

        Raises:
            ApprovalBlocked: it has begun before; a call that runs again is decided about again.
        """
        try:
            self._unused.pop()
        except IndexError:
            raise ApprovalBlocked(self._tool, "its run has begun before", cause="replayed") from None
        self._execution.begin()
        self._nested.__enter__()
        if self._answered is not None:
            self._answered.__enter__()
        return self

    def returned(self, result: object) -> None:
        """End the run: the tool has returned."""
        self._leave(is_first=self._execution.returned(result))

    def raised(self, error: BaseException) -> None:
        """End the run: the tool has failed."""
        self._leave(is_first=self._execution.raised(error))

    def suspend(self) -> None:
        """End the run without a result: an agent inside the tool has to ask, and the call resumes later."""
        self._leave(is_first=self._execution.suspend())

    def _leave(self, *, is_first: bool) -> None:
        if is_first and self._answered is not None:
            self._answered.__exit__()
        if is_first:
            self._nested.__exit__()

    def __enter__(self) -> Self:
        return self.begin()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.returned(self.result)
        else:
            self.raised(error)
