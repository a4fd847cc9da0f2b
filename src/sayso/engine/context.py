"""Context variables: the active controller, the call being executed and the approval that it runs under.

Tests: tests/adapters/test_function.py
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Mapping, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, cast

from sayso.core.canonical import canonical, freeze
from sayso.errors import CanonicalError

if TYPE_CHECKING:
    from sayso.core.model import Approved, By, Deed, ToolCall
    from sayso.engine.controller import ApprovalController
    from sayso.policy.policy import Policy

_CONTROLLER: ContextVar[ApprovalController | None] = ContextVar("sayso_controller", default=None)
_PRE_APPROVED: ContextVar[list[_PreApproval]] = ContextVar("sayso_approved")


class _ProcessWide:
    """The controllers of code that is under no other: threads and tasks that began elsewhere see the last one."""

    controllers: ClassVar[list[ApprovalController]] = []


def current_controller() -> ApprovalController | None:
    """Return the controller that the running code is under, if any."""
    here = _CONTROLLER.get()
    if here is None and _ProcessWide.controllers:
        return _ProcessWide.controllers[-1]
    return here


@contextlib.contextmanager
def activate(controller: ApprovalController, *, everywhere: bool) -> Generator[None]:
    """Put the code inside under this controller."""
    token = _CONTROLLER.set(controller)
    if everywhere:
        _ProcessWide.controllers.append(controller)
    try:
        yield
    finally:
        if everywhere:
            _ProcessWide.controllers.remove(controller)
        _CONTROLLER.reset(token)


class _CurrentCall(NamedTuple):
    """The call that is running: whom its agents ask, what it is, and what it left behind if it goes on."""

    controller: ApprovalController
    call: ToolCall | None
    by: By
    state: list[bytes]  # what it left behind, until somebody takes it
    tightening: tuple[Policy, ...]
    delegated: list[str | None]  # the agents that its tool has called


_CURRENT_CALL: ContextVar[_CurrentCall | None] = ContextVar("sayso_nesting", default=None)


def current_call() -> _CurrentCall | None:
    """Return the call that is running, if one is."""
    return _CURRENT_CALL.get()


def outer_controller() -> ApprovalController | None:
    """Return the controller of the agent whose tool is running, which a nested agent asks too."""
    nesting = _CURRENT_CALL.get()
    return None if nesting is None else nesting.controller


def agent_path() -> tuple[str, ...]:
    """Return the names of the agents whose tool is running, the outermost first."""
    nesting = _CURRENT_CALL.get()
    return () if nesting is None or nesting.call is None else nesting.call.agent_path


class nested_call:  # noqa: N801 - reads as a statement: `with within(controller, call):`
    """Say that the code inside is the tool of this call or, without one, that it asks this controller and no other."""

    __slots__ = ("_current", "_tokens")

    def __init__(
        self,
        controller: ApprovalController,
        call: ToolCall | None = None,
        *,
        by: By = "policy",
        state: bytes | None = None,
        tightening: tuple[Policy, ...] = (),
    ) -> None:
        """Name the controller, the call, who let it run, what it left behind, and the policies of its agents."""
        self._current = _CurrentCall(controller, call, by, [] if state is None else [state], tightening, [])

    def __enter__(self) -> None:
        """Begin."""
        self._tokens = _CURRENT_CALL.set(self._current), _CONTROLLER.set(self._current.controller)

    def __exit__(self, *_: object) -> None:
        """End."""
        nesting, controller = self._tokens
        _CURRENT_CALL.reset(nesting)
        _CONTROLLER.reset(controller)


def activate_unless_nested(controller: ApprovalController) -> contextlib.AbstractContextManager[None]:
    """Say that the code inside asks this controller, unless it is inside a call: whose agents then stay above it."""
    return nested_call(controller) if _CURRENT_CALL.get() is None else contextlib.nullcontext()


class Grant(NamedTuple):
    """On which terms a tool runs: what was decided, and which files are sayso's own."""

    outcome: Approved
    own_files: tuple[str, ...]

    def rest_on(self, basis: str) -> bool:
        """Whether this is what was found when it was decided, if that matters."""
        return self.outcome.basis in {None, basis}


CURRENT_GRANT: ContextVar[Grant | None] = ContextVar("sayso_terms", default=None)


def current_grant(deed: Deed | None = None, /, **args: object) -> Grant | None:
    """Return the terms of the tool that is running, if they are about this deed and these arguments."""
    found = CURRENT_GRANT.get()
    if found is None or (deed is not None and deed not in found.outcome.deeds):
        return None
    given = found.outcome.args
    same = all(_is_same_value(freeze({"": value})[""], given.get(name)) for name, value in args.items())
    return found if same else None


_SESSION: ContextVar[str] = ContextVar("sayso_session", default="")


def current_session() -> str:
    """Return the session that the running code goes on with, if it does."""
    return _SESSION.get()


@contextlib.contextmanager
def resumed_session(session: str) -> Generator[None]:
    """Say that the code inside goes on with a session that began elsewhere."""
    token = _SESSION.set(session)
    try:
        yield
    finally:
        _SESSION.reset(token)


class _PreApproval(NamedTuple):
    """What was approved at an adapter's edge, which is about to call a function that may be marked itself."""

    controller: ApprovalController
    tool: str
    args: Mapping[str, Any]


class pre_approve:  # noqa: N801 - reads as a statement: `with approved(controller, "pay", args):`
    """Say what the code inside has been approved for: the first call that is exactly this need not ask again."""

    __slots__ = ("_approval", "_token")

    def __init__(self, controller: ApprovalController, tool: str, args: Mapping[str, Any]) -> None:
        """Name the call."""
        self._approval = [_PreApproval(controller, tool, args)]

    def __enter__(self) -> None:
        """Begin."""
        self._token = _PRE_APPROVED.set(self._approval)

    def __exit__(self, *_: object) -> None:
        """End, also for what the tool has started and left running."""
        self._approval.clear()
        _PRE_APPROVED.reset(self._token)


def consume_pre_approval(controller: ApprovalController, call: ToolCall, defaults: Mapping[str, Any]) -> bool:
    """Whether this very call was approved at the edge that is about to make it; true once.

    What the edge approved may leave out arguments that have a default; everything else must be the same.
    """
    waiting = _PRE_APPROVED.get([])
    try:
        approval = waiting[0]
        if approval.controller is not controller or approval.tool != call.tool:
            return False
        return _is_same_value(freeze({**defaults, **approval.args}), call.args) and bool(waiting.pop())
    except IndexError:  # nothing there, or another thread was faster
        return False


def _is_same_value(left: object, right: object) -> bool:
    """Whether two arguments are one and the same: the same object, or equal data of the same type."""
    if left is right:
        return True
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        ours, theirs = cast("Mapping[str, object]", left), cast("Mapping[str, object]", right)
        return ours.keys() == theirs.keys() and all(_is_same_value(ours[name], theirs[name]) for name in ours)
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        mine, others = cast("Sequence[object]", left), cast("Sequence[object]", right)
        return type(mine) is type(others) and len(mine) == len(others) and all(map(_is_same_value, mine, others))
    try:
        return canonical(freeze({"": left})) == canonical(freeze({"": right}))
    except CanonicalError:  # nothing to compare by
        return False
