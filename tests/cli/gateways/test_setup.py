"""`sayso setup`: the change is shown and asked about, kept beside the old settings, and can be undone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from sayso.adapters.coding_agents.hook_settings import own_commands
from sayso.cli.main import commands

OLD = {"permissions": {"allow": ["WebFetch", "Read(./x/**)"]}}


class Home:
    """A home with Claude Code in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.settings = folder / ".claude" / "settings.json"
        self.settings.parent.mkdir()
        self.settings.write_text(json.dumps(OLD))
        self.policy = folder / "sayso.yaml"
        self.policy.write_text("default: required\n")

    def install(self, version: str, name: str = "claude") -> None:
        """Put a client of that release on the path."""
        program = self.folder / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(f"#!/bin/sh\necho '{version} (Claude Code)'\n")
        program.chmod(0o755)

    def setup(self, *options: str, client: str = "claude", answer: str = "") -> Result:
        where = ["--policy", str(self.policy), "--store", str(self.folder / "sayso.db")]
        return CliRunner().invoke(commands, ["setup", client, *where, *options], input=answer)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    return Home(tmp_path)


def test_the_change_is_shown_and_written_after_a_yes(home: Home) -> None:
    home.install("2.1.325")
    assert home.setup(answer="n\n").exit_code != 0
    assert json.loads(home.settings.read_text()) == OLD
    done = home.setup(answer="y\n")
    assert (done.exit_code, '+            "onFailure": "block"' in done.output) == (0, True)
    found = own_commands(home.settings.read_text(), "claude")
    assert len(found) == 3
    assert all(f"--policy {home.policy}" in hook["command"] for _, hook in found)
    assert json.loads(home.settings.with_name("settings.json.before-sayso").read_text()) == OLD


def test_it_can_be_undone(home: Home) -> None:
    home.install("2.1.325")
    home.setup("--yes")
    assert home.setup("--remove", "--yes").exit_code == 0
    assert json.loads(home.settings.read_text()) == OLD
    assert "stays as it is" in home.setup("--remove").output


@pytest.mark.parametrize(("version", "problem"), [("2.1.294", "2.1.294 here"), ("", "not found here")])
def test_a_release_that_cannot_be_closed_is_refused_unless_that_is_wanted(
    home: Home, version: str, problem: str
) -> None:
    if version:
        home.install(version)
    done = home.setup("--yes")
    assert (done.exit_code, problem in done.output) == (1, True)
    assert json.loads(home.settings.read_text()) == OLD
    assert home.setup("--yes", "--anyway").exit_code == 0


def test_a_client_that_cannot_be_closed_is_refused_unless_that_is_wanted(home: Home) -> None:
    done = home.setup("--yes", client="codex")
    assert (done.exit_code, "Codex cannot be closed" in done.output) == (1, True)
    done = home.setup("--yes", "--anyway", client="codex")
    assert (done.exit_code, "What stays open" in done.output) == (0, True)
    assert own_commands((home.folder / ".codex" / "hooks.json").read_text(), "codex")


def test_a_policy_with_mistakes_is_not_set_up(home: Home) -> None:
    home.install("2.1.325")
    home.policy.write_text("default: noone\n")
    assert home.setup("--yes").exit_code == 1
    assert json.loads(home.settings.read_text()) == OLD


def test_settings_that_cannot_be_read_are_left_alone(home: Home) -> None:
    home.install("2.1.325")
    home.settings.write_text("{ // mine\n}")
    done = home.setup("--yes")
    assert (done.exit_code, "no plain JSON" in done.output) == (1, True)


def test_permissions_are_translated_and_the_rest_is_named(home: Home) -> None:
    home.install("2.1.325")
    target = home.folder / "new.yaml"
    done = home.setup("--import", str(target), "--yes")
    assert (done.exit_code, "not translated: allow Read(./x/**)" in done.output) == (0, True)
    assert '"WebFetch": none' in target.read_text()
    assert home.setup("--import", str(target), "--yes").exit_code == 1, "it exists already"
