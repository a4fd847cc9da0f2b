"""PydanticAI behind a controller: a capability for agents, a wrapper for a toolset, helpers for deferred calls."""

try:
    import pydantic_ai as _pydantic_ai
except ImportError as error:
    raise ImportError("PydanticAI is not installed; run `pip install sayso[pydantic-ai]`") from error

from sayso.adapters.kit import WebUser
from sayso.adapters.pydantic_ai.browser_answers import accept_answers
from sayso.adapters.pydantic_ai.capability import Approvals
from sayso.adapters.pydantic_ai.deferred import (
    build_approval_requests,
    collect_approvals_async,
    collect_approvals_sync,
    run_with_approval,
    run_with_approval_async,
)
from sayso.adapters.pydantic_ai.parking import delegate, park, resume
from sayso.adapters.pydantic_ai.resume_loop import Resumed, keep_resuming, resume_answered
from sayso.adapters.pydantic_ai.toolset import ApprovalToolset

del _pydantic_ai

__all__ = [
    "ApprovalToolset",
    "Approvals",
    "Resumed",
    "WebUser",
    "accept_answers",
    "build_approval_requests",
    "collect_approvals_async",
    "collect_approvals_sync",
    "delegate",
    "keep_resuming",
    "park",
    "resume",
    "resume_answered",
    "run_with_approval",
    "run_with_approval_async",
]
