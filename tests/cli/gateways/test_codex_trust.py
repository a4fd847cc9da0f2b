"""Trust of Codex in a hook: asked for by its own server, and written beside what is in its settings."""

from __future__ import annotations

import json
import sys
import tomllib
from pathlib import Path

import pytest

from sayso.cli.gateways.codex_trust import current_hashes, with_trust

KEY = '/home/ann/"x"/.codex/hooks.json:pre_tool_use:0:0'


def server(folder: Path, *hooks: dict[str, str]) -> str:
    """Write a program that answers as Codex' server does."""
    program = folder / "codex"
    answer = {"id": 2, "result": {"data": [{"hooks": hooks}]}}
    program.write_text(
        f"#!/bin/sh\nread a\nread b\nread c\necho '{json.dumps({'id': 0})}'\necho '{json.dumps(answer)}'\n"
    )
    program.chmod(0o755)
    return str(program)


def test_only_the_hashes_of_the_own_command_are_taken(tmp_path: Path) -> None:
    file = tmp_path / "hooks.json"
    own = {"sourcePath": str(file), "command": "sayso hook codex", "key": "a", "currentHash": "sha256:1"}
    other = {**own, "command": "other", "key": "b"}
    elsewhere = {**own, "sourcePath": "/elsewhere", "key": "c"}
    program = server(tmp_path, own, other, elsewhere)
    assert current_hashes(program, file, "sayso hook codex") == {"a": "sha256:1"}


@pytest.mark.parametrize("program", ["/nowhere/codex", sys.executable, "/bin/true"])
def test_a_codex_that_cannot_say_has_no_hashes(tmp_path: Path, program: str) -> None:
    assert current_hashes(program, tmp_path / "hooks.json", "sayso hook codex") == {}


def test_trust_is_written_beside_what_is_there_and_anew_for_a_new_hash() -> None:
    before = 'model = "x"\n\n[features]\nhooks = true\n'
    once = with_trust(before, {KEY: "sha256:1"})
    assert once.startswith(before.rstrip())
    twice = with_trust(once + "\n[other]\na = 1\n", {KEY: "sha256:2"})
    read = tomllib.loads(twice)
    assert (read["hooks"]["state"][KEY], read["other"]) == ({"trusted_hash": "sha256:2"}, {"a": 1})
    assert with_trust(before, {}) == before


@pytest.mark.parametrize(
    ("config", "problem"), [("model =", "Invalid value"), ('[hooks]\nstate = {"x" = {trusted_hash = "1"}}\n', "state")]
)
def test_settings_that_are_written_in_another_way_are_left_alone(config: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        with_trust(config, {KEY: "sha256:1"})
