"""Claude Agent SDK behind a controller: hooks that decide about every call that Claude makes."""

try:
    import claude_agent_sdk as _sdk
except ImportError as error:
    raise ImportError("the Claude Agent SDK is not installed; run `pip install sayso[claude-agent]`") from error

from sayso.adapters.claude_agent.agent_hooks import Approvals

del _sdk

__all__ = ["Approvals"]
