"""CrewAI behind `Approvals`, under the cases of all adapters."""

from tests.adapters.conformance import Conformance
from tests.adapters.crewai.driver import CrewAIDriver


class TestCrewAI(Conformance):
    driver = CrewAIDriver()
