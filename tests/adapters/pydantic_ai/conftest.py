"""What the tests of the PydanticAI adapter share."""

import pytest
from tests.adapters.pydantic_ai.scripted import Till


@pytest.fixture
def till() -> Till:
    return Till()
