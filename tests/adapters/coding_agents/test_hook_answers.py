"""Answers of hooks, in the form of each client."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sayso.adapters.coding_agents.clients import CLAUDE, CLIENTS, CODEX, COPILOT, GEMINI, OPENCODE, Client
from sayso.adapters.coding_agents.hook_answers import RECORDED, HookAnswer, answer_text, deny

ALLOW = HookAnswer(decision="allow", reason="because")
EDIT = HookAnswer(decision="allow", reason="because", args={"command": "ls"}, feedback="a person changed it")


def said(client: Client, answer: HookAnswer) -> dict[str, Any]:
    return json.loads(answer_text(answer, client))


@pytest.mark.parametrize("client", CLIENTS.values(), ids=list(CLIENTS))
def test_a_refusal_always_has_a_reason(client: Client) -> None:
    assert "sayso refuses it" in answer_text(deny(""), client)
    assert "\n" not in answer_text(deny("two\nlines"), client)


def test_claude_is_told_of_an_edit_beside_it() -> None:
    assert said(CLAUDE, EDIT)["hookSpecificOutput"] == {
        "hookEventName": "PreToolUse",
        "permissionDecision": "allow",
        "permissionDecisionReason": "because",
        "updatedInput": {"command": "ls"},
        "additionalContext": "a person changed it",
    }


def test_codex_gets_no_field_that_would_make_it_ignore_the_whole() -> None:
    assert said(CODEX, ALLOW) == {}
    assert set(said(CODEX, EDIT)["hookSpecificOutput"]) == {"hookEventName", "permissionDecision", "updatedInput"}
    refused = {"hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": "no"}
    assert said(CODEX, deny("no")) == {"hookSpecificOutput": refused}


def test_the_others_get_their_own_form() -> None:
    assert said(GEMINI, deny("no")) == {"decision": "deny", "reason": "no"}
    assert said(GEMINI, EDIT)["hookSpecificOutput"]["tool_input"] == {"command": "ls"}
    assert said(COPILOT, EDIT)["modifiedArgs"] == {"command": "ls"}
    assert said(OPENCODE, EDIT)["args"] == {"command": "ls"}


def test_an_event_that_wants_no_decision_gets_none() -> None:
    assert said(CLAUDE, RECORDED) == {}
