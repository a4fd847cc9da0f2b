"""What can go wrong between machines, done to real processes; the whole history of each run is checked.

`SAYSO_FAULT_SEED` gives another seed.
"""

import os
from collections.abc import Generator
from pathlib import Path

import pytest
from tests.faults.world import SECONDS, World
from tests.postgres import Postgres, Wire, running

SEED = int(os.environ.get("SAYSO_FAULT_SEED", "9"))


@pytest.fixture
def world(tmp_path: Path, database: str) -> Generator[World]:
    with World(tmp_path, database, seed=SEED) as world:
        yield world


@pytest.mark.proves("H3", "H6", "H16")
def test_a_server_that_is_killed_under_load_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    with running(durable=True) as server:
        server.make_template()
        with World(tmp_path, server.database(), seed=SEED) as world:
            agents = [world.agent(name, calls=40, patience=SECONDS) for name in ("a", "b")]
            world.person("ann", patience=SECONDS)
            for _ in range(2):
                world.until_ran(10)
                server.kill()
                server.start()
            for each in agents:
                each.finish()
            world.check()
            assert world.failed() == [], "a server that is back soon enough is waited for"
