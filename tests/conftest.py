"""What all tests share."""

from collections.abc import Generator

import pytest

from tests.postgres import Postgres, running

pytest_plugins = ["sayso.testing"]


@pytest.fixture
def anyio_backend() -> str:
    """The core is at home on asyncio."""
    return "asyncio"


@pytest.fixture(scope="session")
def postgres() -> Generator[Postgres]:
    """A PostgreSQL server, for all tests of this process."""
    with running() as server:
        server.make_template()
        yield server


@pytest.fixture
def database(postgres: Postgres) -> Generator[str]:
    """The address of a database of one's own, with sayso's tables in it."""
    url = postgres.database()
    yield url
    postgres.drop(url)
