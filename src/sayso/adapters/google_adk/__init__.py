"""Google ADK behind a controller: a plugin for apps and runners, and `resume`."""

try:
    import google.adk as _adk
except ImportError as error:
    raise ImportError("Google ADK is not installed; run `pip install sayso[google-adk]`") from error

from sayso.adapters.google_adk.app_plugin import Approvals
from sayso.adapters.google_adk.confirmations import resume, resume_sync
from sayso.adapters.kit import WebUser

del _adk

__all__ = ["Approvals", "WebUser", "resume", "resume_sync"]
