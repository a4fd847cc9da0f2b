"""What all tests share."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from tests.postgres import Postgres

pytest_plugins = ["sayso.testing"]

# How long an example takes says something about the machine, and nothing about sayso.
settings.register_profile("sayso", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("sayso")


@pytest.fixture
def anyio_backend() -> str:
    """The core is at home on asyncio."""
    return "asyncio"


@pytest.fixture(scope="session")
def postgres() -> Generator[Postgres]:
    """A PostgreSQL server, for all tests of this process."""
    from tests.postgres import running  # noqa: PLC0415 - only who asks for a server needs what it needs

    with running() as server:
        server.make_template()
        yield server


@pytest.fixture
def database(postgres: Postgres) -> Generator[str]:
    """The address of a database of one's own, with sayso's tables in it."""
    url = postgres.database()
    yield url
    postgres.drop(url)
