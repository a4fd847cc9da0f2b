"""PydanticAI behind `Approvals`, under the cases of all adapters."""

from tests.adapters.conformance import Conformance
from tests.adapters.pydantic_ai.driver import PydanticAIDriver


class TestPydanticAI(Conformance):
    driver = PydanticAIDriver()
