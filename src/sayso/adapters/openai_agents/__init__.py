"""OpenAI Agents behind a controller: `Approvals(…).guard(agent)`, `park`, `questions` and `resume`."""

try:
    import agents as _agents
except ImportError as error:
    raise ImportError("The OpenAI Agents SDK is not installed; run `pip install sayso[openai-agents]`") from error

from sayso.adapters.kit import WebUser
from sayso.adapters.openai_agents.agent_guard import Approvals
from sayso.adapters.openai_agents.run_states import park, questions, resume, resume_sync

del _agents

__all__ = ["Approvals", "WebUser", "park", "questions", "resume", "resume_sync"]
