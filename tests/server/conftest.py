"""Every test of the hub has one of its own, on a port of its own."""

from collections.abc import Generator
from pathlib import Path

import pytest
from tests.server.served import Served

# For what has to hold on every store that a hub can stand on.
ON_EACH_STORE = pytest.mark.parametrize("served", ["file", "database"], indirect=True)


@pytest.fixture
def served(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[Served]:
    on_database = getattr(request, "param", "file") == "database"
    hub = Served(request.getfixturevalue("database") if on_database else tmp_path)
    hub.start()
    yield hub
    hub.stop()
