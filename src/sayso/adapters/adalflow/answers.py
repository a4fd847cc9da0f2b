"""Codec of AdalFlow's callback: permission requests out, answers in, as sayso's decisions.

Tests: tests/adapters/adalflow/test_permission.py
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import Enum
from typing import Any, cast

import msgspec
from msgspec.structs import force_setattr

from sayso.adapters.adalflow.function_tools import FunctionCall
from sayso.adapters.adalflow.library import Function
from sayso.core.canonical import freeze, thaw
from sayso.core.model import ApprovalDecision, ApprovalRequest, Scope, new_id

Callback = Callable[["PermissionRequest"], "Answer | Awaitable[Answer]"]


class ApprovalOutcome(Enum):
    """The possible answers to a permission request."""

    PROCEED_ONCE = "proceed_once"
    PROCEED_ALWAYS = "proceed_always"
    CANCEL = "cancel"
    MODIFY = "modify"


class ApprovalResponse(msgspec.Struct, frozen=True):
    """An outcome with a note for the model, and with the edited arguments of MODIFY.

    `args` are those by position, `kwargs` those by name; None leaves the model's own.
    """

    outcome: ApprovalOutcome
    response_data: str | None = None
    args: Sequence[Any] | None = None
    kwargs: Mapping[str, Any] | None = None


Answer = ApprovalOutcome | ApprovalResponse | ApprovalDecision


class PermissionRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The argument of a callback: the tool, its arguments as the model gave them, and a sentence to show.

    `always` is the label of the scope that PROCEED_ALWAYS covers for the rest of the session; the policy defines it.
    """

    tool_name: str
    tool_args: Sequence[Any] = ()
    tool_kwargs: Mapping[str, Any] = {}
    confirmation_message: str = ""
    id: str = msgspec.field(default_factory=new_id)
    always: str = ""
    confirmation_details: Any = None
    request: ApprovalRequest | None = None

    def __post_init__(self) -> None:
        """Freeze the arguments: a callback can only answer."""
        frozen = freeze({"args": list(self.tool_args), "kwargs": dict(self.tool_kwargs)})
        force_setattr(self, "tool_args", frozen["args"])
        force_setattr(self, "tool_kwargs", frozen["kwargs"])

    @property
    def tool(self) -> Function:
        """A copy of the function, under the name that AdalFlow's own callbacks use."""
        given = thaw({"args": self.tool_args, "kwargs": self.tool_kwargs})
        return Function(id=self.id, name=self.tool_name, args=given["args"], kwargs=given["kwargs"])


def to_permission_request(request: ApprovalRequest, function_call: FunctionCall | None) -> PermissionRequest:
    """Return a request as AdalFlow's record; without the call, all arguments are passed by name."""
    scope = _always_scope(request)
    return PermissionRequest(
        tool_name=request.tool_name,
        tool_args=() if function_call is None else function_call.func.args or (),
        tool_kwargs=request.args if function_call is None else function_call.func.kwargs or {},
        confirmation_message=f"Allow {request.tool_name} to run? {request.reason}".strip(),
        id=request.tool_call_id,
        always="this call only: its rule lets no answer be remembered" if scope is None else scope.label,
        confirmation_details=(request.metadata or {}).get("confirmation_details"),
        request=request,
    )


def _always_scope(request: ApprovalRequest) -> Scope | None:
    """Return the scope of PROCEED_ALWAYS: the whole tool where its rule offers that, else the narrowest."""
    whole_tool = (scope for scope in request.scopes if scope.kind == "tool")
    return next(whole_tool, request.scopes[0] if request.scopes else None)


def to_decision(answer: object, request: ApprovalRequest, function_call: FunctionCall | None) -> ApprovalDecision:
    """Convert an answer to a decision.

    Raises:
        TypeError: the answer or its arguments are invalid; the request is withdrawn.
    """
    if isinstance(answer, ApprovalDecision):
        return answer
    outcome = getattr(answer, "outcome", answer)  # AdalFlow has enums and responses of its own, with the same values
    if isinstance(outcome, Enum):
        outcome = outcome.value
    note = cast("str | None", getattr(answer, "response_data", None))
    match outcome:
        case "proceed_once":
            return ApprovalDecision(approved=True, note=note)
        case "proceed_always":
            scope = _always_scope(request)
            if scope is None:
                return ApprovalDecision(approved=True, note=note)
            return ApprovalDecision(approved=True, note=note, remember="session", scope=scope.kind)
        case "modify":
            return ApprovalDecision(
                approved=True, note=note, override_args=_edited_arguments(answer, request, function_call)
            )
        case "cancel":
            return ApprovalDecision(approved=False, note=note)
        case _:
            raise TypeError(f"{answer!r} is no answer; return an ApprovalOutcome, with MODIFY in an ApprovalResponse")


def _edited_arguments(
    answer: object, request: ApprovalRequest, function_call: FunctionCall | None
) -> Mapping[str, Any]:
    args, kwargs = getattr(answer, "args", None), getattr(answer, "kwargs", None)
    if args is None and kwargs is None:
        raise TypeError("MODIFY needs the arguments: return ApprovalResponse(ApprovalOutcome.MODIFY, kwargs={…})")
    if function_call is not None:
        return function_call.edited_arguments(args, kwargs)
    if args:
        raise TypeError(f"{request.tool_name} was not called from here: give its arguments by name, as kwargs")
    return cast("Mapping[str, Any]", kwargs)
