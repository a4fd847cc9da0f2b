"""Two web workers on one store, which all tests of deferred answers share, each with a chat of its own."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from tests.web.processes import Client, Front, Server

FRONTS: tuple[Front, ...] = ("vercel", "ag-ui")


@pytest.fixture(scope="package")
def anyio_backend() -> str:
    """One event loop for all these tests, in which the processes live."""
    return "asyncio"


@pytest.fixture(scope="package")
async def workers(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[tuple[Server, Server]]:
    folder = tmp_path_factory.mktemp("workers")
    async with Server(folder) as one, Server(folder) as two:
        yield one, two


@pytest.fixture(params=FRONTS)
async def client(request: pytest.FixtureRequest) -> AsyncGenerator[Client]:
    async with Client(request.param) as found:
        yield found


@pytest.fixture
async def vercel() -> AsyncGenerator[Client]:
    async with Client("vercel") as found:
        yield found


@pytest.fixture
async def ag_ui() -> AsyncGenerator[Client]:
    async with Client("ag-ui") as found:
        yield found


@pytest.fixture
def chat(request: pytest.FixtureRequest) -> str:
    """The id of a chat that no other test has."""
    return request.node.name


@pytest.fixture
def folder(workers: tuple[Server, Server]) -> Path:
    return workers[0].folder
