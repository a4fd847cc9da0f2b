"""The OpenAI Agents SDK behind `Approvals`, under the cases of all adapters."""

from tests.adapters.conformance import Conformance
from tests.adapters.openai_agents.driver import OpenAIAgentsDriver


class TestOpenAIAgents(Conformance):
    driver = OpenAIAgentsDriver()
