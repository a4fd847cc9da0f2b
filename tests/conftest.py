"""What all tests share."""

import pytest

pytest_plugins = ["sayso.testing"]


@pytest.fixture
def anyio_backend() -> str:
    """The core is at home on asyncio."""
    return "asyncio"
