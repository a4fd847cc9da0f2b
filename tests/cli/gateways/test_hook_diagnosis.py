"""`sayso doctor` on hooks: set up or not, working or not, and asked or not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sayso.adapters.coding_agents.clients import CLIENTS
from sayso.adapters.coding_agents.hook_settings import PLACES, own_command, with_hook
from sayso.cli.gateways.hook_diagnosis import diagnose_hooks


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "sayso.yaml").write_text("default: required\ntools: {look: none}\n")
    return tmp_path


def put(home: Path, client: str = "claude", **changes: Any) -> list[str]:
    """Write the settings of a client, with changes, and return the hook's command."""
    own = ["--policy", str(home / "sayso.yaml"), "--store", str(home / "sayso.db")]
    text = with_hook("", client, [sys.executable, "-P", "-m", "sayso", "hook", client, *own], 100)
    file = home / PLACES[client].file
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({**json.loads(text), **changes}) if changes else text)
    return own_command(text, client)


def test_an_agent_that_is_not_set_up_is_not_mentioned(home: Path) -> None:
    assert list(diagnose_hooks()) == []


@pytest.mark.parametrize("client", CLIENTS)
def test_a_hook_that_was_never_asked_is_a_warning_and_one_that_was_is_well(home: Path, client: str) -> None:
    command = put(home, client)
    ((state, what, told),) = diagnose_hooks()
    assert (state, what) == ("warning", f"hook of {CLIENTS[client].title}")
    assert "never asked" in told
    fields = CLIENTS[client].fields
    kind = next((name for name, kind in CLIENTS[client].kinds.items() if kind == "before"), "")
    event: dict[str, Any] = {fields.session: "s", fields.folder: str(home), fields.tool: "look", fields.args: {}}
    given = json.dumps({**event, **({fields.kind: kind} if fields.kind else {})})
    subprocess.run(command, input=given, text=True, capture_output=True, timeout=60, check=True)
    ((state, _, told),) = diagnose_hooks()
    assert (state, "was asked" in told) == ("ok", True)


def test_a_hook_that_would_refuse_everything_is_a_problem(home: Path) -> None:
    put(home)
    (home / "sayso.yaml").write_text("default: noone\n")
    ((state, _, told),) = diagnose_hooks()
    assert (state, "would refuse every call" in told) == ("problem", True)


def test_switches_that_leave_the_client_open_are_problems(home: Path) -> None:
    put(home, disableAllHooks=True)
    assert [state for state, _, told in diagnose_hooks() if "disableAllHooks" in told] == ["problem"]
    file = home / PLACES["claude"].file
    file.write_text(file.read_text().replace('"block"', '"allow"').replace("PreToolUse", "Stop"))
    told = [told for state, _, told in diagnose_hooks() if state == "problem"]
    assert any("onFailure" in each for each in told)
    assert any("not called before a tool" in each for each in told)


def test_what_would_go_past_the_hook_is_a_problem(home: Path) -> None:
    put(home, env={"CLAUDE_CODE_SIMPLE": "1"}, disableSkillShellExecution=False)
    problems = [told for state, _, told in diagnose_hooks() if state == "problem"]
    for name in ("CLAUDE_CODE_SIMPLE", "CLAUDE_CODE_SAFE_MODE", "disableSkillShellExecution"):
        assert any(name in each for each in problems)


def test_another_hook_before_tools_is_a_warning(home: Path) -> None:
    put(home)
    file = home / PLACES["claude"].file
    settings = json.loads(file.read_text())
    settings["hooks"]["PreToolUse"].append({"matcher": "*", "hooks": [{"type": "command", "command": "mine"}]})
    settings["hooks"]["PostToolUse"].append({"matcher": "*", "hooks": [{"type": "command", "command": "format"}]})
    file.write_text(json.dumps(settings))
    told = [told for state, _, told in diagnose_hooks() if state == "warning" and "could change" in told]
    assert told == ["mine is asked before a tool, too, and could change what was decided"]


def test_a_command_that_is_gone_is_a_problem(home: Path) -> None:
    put(home)
    file = home / PLACES["claude"].file
    file.write_text(file.read_text().replace(sys.executable, f"{os.sep}nowhere/python"))
    assert [state for state, _, told in diagnose_hooks() if "cannot be run" in told] == ["problem"]


def test_settings_that_cannot_be_read_are_a_warning(home: Path) -> None:
    put(home)
    (home / PLACES["claude"].file).write_text("{ // mine")
    assert [state for state, *_ in diagnose_hooks()] == ["warning"]
