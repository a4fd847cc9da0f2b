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
from sayso.core.model import ApprovalDecision, ApprovalRequest, ScopeKind, new_id

Callback = Callable[["PermissionRequest"], "Answer | Awaitable[Answer]"]


class ApprovalOutcome(Enum):
    """What a person may say to a permission request."""

    PROCEED_ONCE = "proceed_once"
    PROCEED_ALWAYS = "proceed_always"
    CANCEL = "cancel"
    MODIFY = "modify"


class ApprovalResponse(msgspec.Struct, frozen=True):
    """An outcome with what belongs to it: a note for the model, and the arguments that MODIFY puts in place.

    `args` are those by position, `kwargs` those by name; what is left out stays as the model gave it.
    """

    outcome: ApprovalOutcome
    response_data: str | None = None
    args: Sequence[Any] | None = None
    kwargs: Mapping[str, Any] | None = None


Answer = ApprovalOutcome | ApprovalResponse | ApprovalDecision


class PermissionRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a callback is asked: the tool, its arguments as the model gave them, and a sentence to show.

    `always` says what PROCEED_ALWAYS would cover for the rest of the session; it depends on the policy.
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
        """Freeze the arguments: whoever is asked can only answer."""
        frozen = freeze({"args": list(self.tool_args), "kwargs": dict(self.tool_kwargs)})
        force_setattr(self, "tool_args", frozen["args"])
        force_setattr(self, "tool_kwargs", frozen["kwargs"])

    @property
    def tool(self) -> Function:
        """A copy of the function, by the name under which AdalFlow's own callbacks look for it."""
        given = thaw({"args": self.tool_args, "kwargs": self.tool_kwargs})
        return Function(id=self.id, name=self.tool_name, args=given["args"], kwargs=given["kwargs"])


def to_permission_request(request: ApprovalRequest, function_call: FunctionCall | None) -> PermissionRequest:
    """Return a request as AdalFlow's record; without the call at hand, all arguments go by name."""
    return PermissionRequest(
        tool_name=request.tool_name,
        tool_args=() if function_call is None else function_call.func.args or (),
        tool_kwargs=request.args if function_call is None else function_call.func.kwargs or {},
        confirmation_message=f"Allow {request.tool_name} to run? {request.reason}".strip(),
        id=request.tool_call_id,
        always=always_label(request) or "this call only: its rule lets no answer be remembered",
        confirmation_details=(request.metadata or {}).get("confirmation_details"),
        request=request,
    )


def always_label(request: ApprovalRequest) -> str | None:
    """Say what PROCEED_ALWAYS covers: the whole tool where its rule offers that, else the narrowest that is offered."""
    kind = _always_scope(request)
    return next((scope.label for scope in request.scopes if scope.kind == kind), None)


def _always_scope(request: ApprovalRequest) -> ScopeKind | None:
    if any(scope.kind == "tool" for scope in request.scopes):
        return "tool"
    return request.scopes[0].kind if request.scopes else None


def to_decision(answer: object, request: ApprovalRequest, function_call: FunctionCall | None) -> ApprovalDecision:
    """Return what an answer means.

    Raises:
        TypeError: it is none, or its arguments are none of the tool; the question is withdrawn.
    """
    if isinstance(answer, ApprovalDecision):
        return answer
    outcome = getattr(answer, "outcome", answer)  # AdalFlow has enums and responses of its own, with the same words
    if isinstance(outcome, Enum):
        outcome = outcome.value
    note = cast("str | None", getattr(answer, "response_data", None))
    match outcome:
        case "proceed_once":
            return ApprovalDecision(approved=True, note=note)
        case "proceed_always":
            scope = _always_scope(request)
            return ApprovalDecision(
                approved=True, note=note, remember="none" if scope is None else "session", scope=scope
            )
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
