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


def current_controller() -> ApprovalController | None:
    """Return the controller that the running code is under, if any."""
    return _CONTROLLER.get()


@contextlib.contextmanager
def under(controller: ApprovalController) -> Generator[None]:
    """Put the code inside under this controller."""
    token = _CONTROLLER.set(controller)
    try:
        yield
    finally:
        _CONTROLLER.reset(token)


def approved_outside(tool: str) -> bool:
    """Whether this very tool was approved at the edge that is about to call it, so that its mark need not ask again."""
    return _APPROVED.get() == tool


@contextlib.contextmanager
def approved(tool: str | None) -> Generator[None]:
    """Say which tool the code inside has been approved for; None takes that back, so that what it calls asks."""
    token = _APPROVED.set(tool)
    try:
        yield
    finally:
        _APPROVED.reset(token)
