"""No hook of one test is left for the next: CrewAI keeps them for the process."""

from collections.abc import Generator

import pytest
from crewai.hooks import clear_all_hooks


@pytest.fixture(autouse=True)
def no_hooks_are_left_behind() -> Generator[None]:
    yield
    clear_all_hooks()
