"""CrewAI behind a controller: `Approvals.guard` puts every tool call of a crew or an agent behind it."""

try:
    import crewai.hooks as _crewai
except ImportError as error:
    raise ImportError("CrewAI is not installed; run `pip install sayso[crewai]`") from error

from sayso.adapters.crewai.crew_guard import Approvals

del _crewai

__all__ = ["Approvals"]
