"""sayso: nothing runs without your say-so.

The consent layer for Python agents. Every name below is public; each is loaded when it is first used, so that
`import sayso` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sayso.adapters.function import guard as guard
    from sayso.adapters.function import requires_approval as requires_approval
    from sayso.adapters.function import resume as resume
    from sayso.config.load_policy import load_policy as load_policy
    from sayso.core.conversation import ConversationMessage as ConversationMessage
    from sayso.core.model import ApprovalDecision as ApprovalDecision
    from sayso.core.model import ApprovalPresentation as ApprovalPresentation
    from sayso.core.model import ApprovalRequest as ApprovalRequest
    from sayso.core.model import Approved as Approved
    from sayso.core.model import AuditEntry as AuditEntry
    from sayso.core.model import Denied as Denied
    from sayso.core.model import Pending as Pending
    from sayso.core.model import Preview as Preview
    from sayso.core.model import ToolCall as ToolCall
    from sayso.core.model import Verdict as Verdict
    from sayso.core.ports import Channel as Channel
    from sayso.core.ports import Store as Store
    from sayso.engine.context import conversation as conversation
    from sayso.engine.controller import ApprovalController as ApprovalController
    from sayso.engine.remembered import ApprovalMemory as ApprovalMemory
    from sayso.errors import ApprovalBlocked as ApprovalBlocked
    from sayso.errors import ApprovalDenied as ApprovalDenied
    from sayso.errors import ApprovalError as ApprovalError
    from sayso.errors import ApprovalPending as ApprovalPending
    from sayso.errors import ApprovalTimeout as ApprovalTimeout
    from sayso.errors import BlockedError as BlockedError
    from sayso.policy.policy import Policy as Policy

_HOMES = {
    "ApprovalBlocked": "sayso.errors",
    "ApprovalController": "sayso.engine.controller",
    "ApprovalDecision": "sayso.core.model",
    "ApprovalDenied": "sayso.errors",
    "ApprovalError": "sayso.errors",
    "ApprovalMemory": "sayso.engine.remembered",
    "ApprovalPending": "sayso.errors",
    "ApprovalPresentation": "sayso.core.model",
    "ApprovalRequest": "sayso.core.model",
    "ApprovalTimeout": "sayso.errors",
    "Approved": "sayso.core.model",
    "AuditEntry": "sayso.core.model",
    "BlockedError": "sayso.errors",
    "Channel": "sayso.core.ports",
    "ConversationMessage": "sayso.core.conversation",
    "Denied": "sayso.core.model",
    "Pending": "sayso.core.model",
    "Policy": "sayso.policy.policy",
    "Preview": "sayso.core.model",
    "Store": "sayso.core.ports",
    "ToolCall": "sayso.core.model",
    "Verdict": "sayso.core.model",
    "conversation": "sayso.engine.context",
    "guard": "sayso.adapters.function",
    "load_policy": "sayso.config.load_policy",
    "requires_approval": "sayso.adapters.function",
    "resume": "sayso.adapters.function",
}

__all__ = list(_HOMES)  # pyright: ignore[reportUnsupportedDunderAll] - the imports above say it to type checkers


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'sayso' has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
