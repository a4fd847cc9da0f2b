"""Events of coding agents, read strictly, and their calls in the words of policies."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sayso.adapters.coding_agents.client_calls import EFFECTS, read_call
from sayso.adapters.coding_agents.clients import CLAUDE, CLIENTS, COPILOT, GEMINI, Client
from sayso.adapters.coding_agents.hook_events import read_event
from sayso.cli.gateways.decision_pipe import FAREWELL_SECONDS


def event(client: Client, tool: str, args: Any, **others: Any) -> str:
    fields = client.fields
    kind = next((name for name, kind in client.kinds.items() if kind == "before"), None)
    own = {fields.session: "s", fields.folder: "/work", fields.tool: tool, fields.args: args}
    return json.dumps({**own, **({} if fields.kind is None else {fields.kind: kind}), **others})


def named(client: Client, tool: str, args: Any, **others: Any) -> tuple[str, dict[str, Any]]:
    call = read_call(read_event(event(client, tool, args, **others), client), client).call
    return call.tool, dict(call.args)


@pytest.mark.parametrize("client", CLIENTS.values(), ids=list(CLIENTS))
def test_every_client_has_a_shell_and_its_tools_are_named_as_the_effects_are(client: Client) -> None:
    names = {tool.name for tool in client.tools.values()}
    assert "shell" in names
    assert names <= set(EFFECTS)


@pytest.mark.parametrize("client", CLIENTS.values(), ids=list(CLIENTS))
def test_a_hook_ends_before_its_client_gives_it_up(client: Client) -> None:
    assert 0 < client.hold + 2 * FAREWELL_SECONDS < client.limit


def test_a_sub_agent_is_named_behind_its_client() -> None:
    text = event(CLAUDE, "Bash", {"command": "ls"}, agent_type="reviewer")
    assert read_call(read_event(text, CLAUDE), CLAUDE).call.agent_path == ("claude", "reviewer")


def test_words_of_the_agent_and_names_of_arguments_are_put_right() -> None:
    assert named(CLAUDE, "Bash", {"command": "ls", "description": "x"}) == ("shell", {"command": "ls"})
    assert named(CLAUDE, "Edit", {"file_path": "/a", "old_string": "b"}) == (
        "edit_file",
        {"path": "/a", "old_string": "b"},
    )
    assert named(GEMINI, "list_directory", {"dir_path": "a"}) == ("list_files", {"path": "/work/a"})
    assert named(GEMINI, "list_directory", {}) == ("list_files", {"path": "/work"})
    assert named(COPILOT, "bash", '{"command": "ls"}') == ("shell", {"command": "ls"})


def test_a_tool_of_an_mcp_server_is_named_by_the_server_as_the_client_knows_it() -> None:
    assert named(CLAUDE, "mcp__files__read_text", {}) == ("files.read_text", {})
    assert named(CLAUDE, "mcp__a__b__c", {}, mcp_server={"name": "a__b"}) == ("a__b.c", {})


def test_a_tool_that_only_has_the_name_of_one_of_ours_is_not_taken_for_it() -> None:
    assert named(CLAUDE, "shell", {"command": "ls"}) == ("claude.shell", {"command": "ls"})


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "not valid JSON"),
        ("[]", "must be a JSON object"),
        ('{"hook_event_name": "PreToolUse", "hook_event_name": "PermissionRequest"}', "twice"),
        (event(CLAUDE, "Bash", {}, hook_event_name="PreToolUse2"), "does not know"),
        (event(CLAUDE, "Bash", {}, session_id=""), "no 'session_id'"),
        (event(CLAUDE, "Bash", {}, cwd="work"), "absolute"),
        (event(CLAUDE, "Bash", {}, tool_name=7), "no 'tool_name'"),
        (event(CLAUDE, "Bash", ["ls"]), "no arguments"),
        (event(CLAUDE, "Bash", {"command": "\ud800"}), "half a character|surrogate"),
        (event(COPILOT, "bash", '{"command": "ls", "command": "rm"}'), "twice"),
    ],
)
def test_what_is_no_event_is_refused(text: str, problem: str) -> None:
    client = COPILOT if "sessionId" in text else CLAUDE
    with pytest.raises(ValueError, match=problem):
        read_event(text, client)


def test_an_argument_under_two_names_is_refused() -> None:
    with pytest.raises(ValueError, match="'path' under two names"):
        named(CLAUDE, "Read", {"file_path": "/work/a", "path": "/etc/passwd"})
