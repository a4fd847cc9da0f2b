"""What the running code is under: a controller, and perhaps a tool that was approved at an adapter's edge."""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sayso.controller import ApprovalController

_CONTROLLER: ContextVar[ApprovalController | None] = ContextVar("sayso_controller", default=None)
_APPROVED: ContextVar[str | None] = ContextVar("sayso_approved", default=None)


class _Everywhere:
    """The controller of code that is under no other: threads and tasks that began elsewhere see it too."""

    controller: ApprovalController | None = None


def current_controller() -> ApprovalController | None:
    """Return the controller that the running code is under, if any."""
    return _CONTROLLER.get() or _Everywhere.controller


@contextlib.contextmanager
def under(controller: ApprovalController, *, everywhere: bool) -> Generator[None]:
    """Put the code inside under this controller."""
    token, before = _CONTROLLER.set(controller), _Everywhere.controller
    if everywhere:
        _Everywhere.controller = controller
    try:
        yield
    finally:
        _Everywhere.controller = before
        _CONTROLLER.reset(token)


def approved_outside(tool: str) -> bool:
    """Whether this very tool was approved at the edge that is about to call it, so that its mark need not ask again."""
    return _APPROVED.get() == tool


class approved:  # noqa: N801 - reads as a statement: `with approved("pay"):`
    """Say which tool the code inside has been approved for; None takes that back, so that what it calls asks."""

    __slots__ = ("_token", "_tool")

    def __init__(self, tool: str | None) -> None:
        """Name the tool."""
        self._tool = tool

    def __enter__(self) -> None:
        """Begin."""
        self._token = _APPROVED.set(self._tool)

    def __exit__(self, *_: object) -> None:
        """End."""
        _APPROVED.reset(self._token)
