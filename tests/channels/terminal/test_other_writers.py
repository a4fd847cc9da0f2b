"""Which other programs can draw on a terminal."""

import os
import pty
import subprocess
from collections.abc import Generator
from pathlib import Path

import pytest

from sayso.channels.terminal import other_writers as module
from sayso.channels.terminal.other_writers import other_writers


@pytest.fixture(params=["/proc", "ps"])
def system(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A system with /proc, and one without it."""
    if request.param == "ps":
        monkeypatch.setattr(module, "_PROC", tmp_path / "no such folder")
    return request.param


@pytest.fixture
def terminal() -> Generator[int]:
    """A terminal that nobody uses."""
    master, slave = pty.openpty()
    yield slave
    os.close(slave)
    os.close(master)


def start(terminal: int, *, stdout: int) -> "subprocess.Popen[bytes]":
    """Start a program whose controlling terminal this is."""
    command = ["setsid", "--ctty", "cat"]
    return subprocess.Popen(command, stdin=terminal, stdout=stdout, stderr=subprocess.DEVNULL)


def until_it_is_cat(process: "subprocess.Popen[bytes]") -> None:
    while Path(f"/proc/{process.pid}/comm").read_text() != "cat\n":
        pass


def test_a_program_on_the_terminal_is_named(system: str, terminal: int) -> None:
    assert other_writers(terminal) == []
    with start(terminal, stdout=terminal) as process:
        until_it_is_cat(process)
        assert other_writers(terminal) == [f"cat ({process.pid})"]
        process.kill()
    assert other_writers(terminal) == []


def test_a_program_that_only_reads_there_is_not_named(terminal: int) -> None:
    with start(terminal, stdout=subprocess.DEVNULL) as process:
        until_it_is_cat(process)
        assert other_writers(terminal) == []
        process.kill()


def test_where_neither_is_there_it_is_said_to_be_unknown(
    terminal: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_PROC", tmp_path / "no such folder")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert other_writers(terminal) is None
