"""Every test of the command line has a folder and a home of its own, where nothing is yet."""

from collections.abc import Generator
from pathlib import Path

import pytest
from tests.cli.places import KINDS, Place, opened_place


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "home"
    work = tmp_path / "work"
    home.mkdir()
    work.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("COLUMNS", "80")
    for name in ("XDG_CONFIG_HOME", "SAYSO_POLICY", "SAYSO_STORE", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(work)
    return work


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[Place]:
    """A file, a database and a hub in turn."""
    with opened_place(request.param, tmp_path, lambda: request.getfixturevalue("database")) as found:
        yield found
