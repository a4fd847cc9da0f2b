"""Strands Agents behind a controller: a plugin for agents, graphs and swarms, and `resume`."""

try:
    import strands as _strands
except ImportError as error:
    raise ImportError("Strands is not installed; run `pip install sayso[strands]`") from error

from sayso.adapters.kit import WebUser
from sayso.adapters.strands.plugin import Approvals
from sayso.adapters.strands.stopping import resume, resume_sync

del _strands

__all__ = ["Approvals", "WebUser", "resume", "resume_sync"]
