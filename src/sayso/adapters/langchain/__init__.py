"""LangChain and LangGraph behind a controller: a middleware for agents, a wrapper for `ToolNode`, and `resume`."""

try:
    import langchain.agents as _langchain
    import langgraph.prebuilt as _langgraph
except ImportError as error:
    raise ImportError("LangChain is not installed; run `pip install sayso[langchain]`") from error

from sayso.adapters.kit import WebUser
from sayso.adapters.langchain.agent_middleware import Approvals
from sayso.adapters.langchain.interrupts import resume, resume_sync
from sayso.adapters.langchain.subagents import guarded_subagents

del _langchain, _langgraph

__all__ = ["Approvals", "WebUser", "guarded_subagents", "resume", "resume_sync"]
