"""Settings of coding agents: the hook is put in once, beside what is there, and is taken out again."""

from __future__ import annotations

import json

import pytest

from sayso.adapters.coding_agents.clients import CLIENTS
from sayso.adapters.coding_agents.hook_settings import PLACES, own_commands, with_hook, without_hook

JSON_CLIENTS = sorted(CLIENTS.keys() - {"opencode"})
OTHER = {"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "other"}]}]}, "x": 1}


def command(client: str) -> list[str]:
    return ["/usr/bin/python", "-P", "-m", "sayso", "hook", client, "--policy", "/a b/sayso.yaml"]


@pytest.mark.parametrize("client", JSON_CLIENTS)
def test_the_hook_is_put_in_for_every_event_and_taken_out_whole(client: str) -> None:
    text = with_hook("", client, command(client), 100)
    assert [event for event, _ in own_commands(text, client)] == list(PLACES[client].events)
    assert "'/a b/sayso.yaml'" in text
    left = without_hook(text, client)
    assert own_commands(left, client) == []


def test_the_switch_that_closes_claude_is_set() -> None:
    found = own_commands(with_hook("", "claude", command("claude"), 100), "claude")
    assert {hook["onFailure"] for _, hook in found} == {"block"}
    assert {hook["timeout"] for _, hook in found} == {100}


def test_what_goes_past_claude_s_hooks_is_switched_off_and_given_back() -> None:
    before = json.dumps({"env": {"A": "1"}})
    text = with_hook(before, "claude", command("claude"), 100)
    assert json.loads(text)["env"] == {"A": "1", "CLAUDE_CODE_SIMPLE": "", "CLAUDE_CODE_SAFE_MODE": ""}
    assert json.loads(text)["disableSkillShellExecution"] is True
    assert json.loads(without_hook(text, "claude")) == {"env": {"A": "1"}}
    assert without_hook(with_hook("", "claude", command("claude"), 100), "claude") == ""


@pytest.mark.parametrize("client", ["claude", "codex", "qwen"])
def test_what_else_is_in_the_settings_stays(client: str) -> None:
    before = json.dumps(OTHER)
    text = with_hook(before, client, command(client), 100)
    assert json.loads(text)["hooks"]["PreToolUse"][0] == OTHER["hooks"]["PreToolUse"][0]  # type: ignore[index]
    assert json.loads(without_hook(text, client)) == OTHER
    assert without_hook(before, client) == before


def test_a_second_time_replaces_the_first() -> None:
    once = with_hook("", "claude", command("claude"), 100)
    twice = with_hook(once, "claude", [*command("claude"), "--hold", "5s"], 100)
    assert len(own_commands(twice, "claude")) == len(PLACES["claude"].events)
    assert "--hold 5s" in twice


@pytest.mark.parametrize(
    "text",
    [
        "{ // a comment\n}",
        "[]",
        "{",
        '{"env": ["A=1"]}',
        '{"hooks": []}',
        '{"hooks": null}',
        '{"hooks": {"PreToolUse": {}}}',
    ],
)
def test_settings_of_another_form_are_left_to_their_owner(text: str) -> None:
    with pytest.raises(ValueError, match=r"it is no |in it is no (JSON object|list)"):
        with_hook(text, "claude", command("claude"), 100)


def test_the_plugin_gets_its_command() -> None:
    text = with_hook("", "opencode", command("opencode"), 100)
    assert f"const COMMAND = {json.dumps(command('opencode'))}" in text
    assert without_hook(text, "opencode") == ""
