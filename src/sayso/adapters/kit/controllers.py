"""Controller construction: the arguments that `Approvals(controller | policy, …)` of every adapter takes.

Tests: tests/adapters/kit/test_kit.py
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal, TypedDict, cast

from sayso.engine.controller import ApprovalController
from sayso.engine.settings import check_policy
from sayso.errors import ConfigurationError
from sayso.policy.policy import Policy

if TYPE_CHECKING:
    from sayso.channels.callback import Callback
    from sayso.core.ports import ApprovalUI, Channel, Clock, Hook
    from sayso.engine.remembered import ApprovalMemory
    from sayso.engine.settings import StoreLike


class SharedSettings(TypedDict, total=False):
    """Settings of a controller that mean the same in every adapter; see `ApprovalController`."""

    mode: str
    memory: ApprovalMemory
    store: StoreLike
    channels: Iterable[Channel]
    session: str
    timeout: float | None
    clock: Clock
    hooks: Iterable[Hook]
    audit: Literal["queued", "strict"]


class ControllerSettings(SharedSettings, total=False):
    """Settings of the controller that is built for a policy; see `ApprovalController`."""

    approval_callback: Callback | ApprovalUI


OnDenied = Literal["model", "raise"]


def check_on_denied(given: str) -> OnDenied:
    """Return how a refusal is told: to the model, or by an exception that ends the run."""
    if given not in {"model", "raise"}:
        raise ConfigurationError(f"on_denied is {given!r}; use 'model' or 'raise'")
    return cast("OnDenied", given)


def build_controller(
    given: ApprovalController | Policy | None, settings: ControllerSettings, *, stops: str = ""
) -> ApprovalController | None:
    """Return the controller, or one that is built from a policy and its settings; None for the active one.

    A policy alone defers. `stops` names a framework whose runs cannot stop and go on later: there, nothing defers.
    """
    if isinstance(given, ApprovalController) and settings:
        raise ConfigurationError(f"the controller has its own {next(iter(settings))}; pass a policy instead")
    if given is None and not settings:
        return None
    controller = given
    if not isinstance(controller, ApprovalController):
        policy = None if given is None else check_policy(given, prefix="")
        asks = bool({"approval_callback", "channels", "store"} & settings.keys()) or bool(stops)
        made = {"mode": "interactive" if asks else "defer"}
        controller = ApprovalController(policy=policy, **cast("Any", made | cast("dict[str, Any]", settings)))
    if stops:
        refuse_defer(controller, stops)
    return controller


def refuse_defer(controller: ApprovalController, framework: str) -> None:
    """Refuse a controller that defers, for a framework whose runs cannot stop and go on later."""
    if controller.mode == "defer":
        raise ConfigurationError(
            f"a run of {framework} cannot stop and go on later, as the mode 'defer' wants; use the mode 'interactive', "
            "'auto_deny' or 'approve_all'"
        )
