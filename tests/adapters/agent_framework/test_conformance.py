"""Agent Framework behind `Approvals`, under the cases of all adapters."""

from tests.adapters.agent_framework.driver import AgentFrameworkDriver
from tests.adapters.conformance import Conformance


class TestAgentFramework(Conformance):
    driver = AgentFrameworkDriver()
