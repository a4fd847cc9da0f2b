"""A test of a hub's client has a hub of its own, on a port of its own."""

from collections.abc import Generator
from pathlib import Path

import pytest
from tests.server.served import Served


@pytest.fixture
def served(tmp_path: Path) -> Generator[Served]:
    hub = Served(tmp_path)
    hub.start()
    yield hub
    hub.stop()
