"""Microsoft Agent Framework behind a controller: a middleware for agents, and `resume`."""

try:
    import agent_framework as _agent_framework
except ImportError as error:
    raise ImportError("Agent Framework is not installed; run `pip install sayso[agent-framework]`") from error

from sayso.adapters.agent_framework.approval_contents import resume
from sayso.adapters.agent_framework.run_middleware import Approvals
from sayso.adapters.kit import WebUser

del _agent_framework

__all__ = ["Approvals", "WebUser", "resume"]
