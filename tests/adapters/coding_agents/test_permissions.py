"""Permissions of Claude Code, translated: nothing becomes looser, and what has no equal is named."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from sayso import ToolCall, load_policy
from sayso.adapters.coding_agents.permissions import policy_from_permissions


def translated(folder: Path, **permissions: list[str]) -> tuple[Callable[..., str], list[str]]:
    text, left = policy_from_permissions(json.dumps({"permissions": permissions}))
    (folder / "policy.yaml").write_text(text)
    policy = load_policy(folder / "policy.yaml")

    def approval(tool: str, **args: str) -> str:
        return policy.judge(ToolCall(tool=tool, args=args)).approval

    return approval, left


def test_names_and_beginnings_of_lines_become_rules(tmp_path: Path) -> None:
    approval, left = translated(
        tmp_path,
        allow=["WebFetch", "Read", "mcp__github", "mcp__files__read", "Bash(npm run test:*)"],
        ask=["Bash(git push:*)"],
        deny=["Bash(rm -rf *)", "WebSearch"],
    )
    assert left == []
    names = ("WebFetch", "read_file", "github.search", "files.read", "WebSearch", "Task")
    assert [approval(name) for name in names] == ["none", "none", "none", "none", "blocked", "required"]
    lines = ("npm run test", "git push", "rm -rf build", "ls")
    assert [approval("shell", command=each) for each in lines] == ["none", "required", "blocked", "required"]


@pytest.mark.parametrize("rule", ["Bash", "Bash(*)", "Bash(cat README.md)", "Bash(npm * test)", "Read(./x/**)", "?"])
def test_what_would_be_wider_or_has_no_equal_is_named_and_asks(tmp_path: Path, rule: str) -> None:
    approval, left = translated(tmp_path, allow=[rule])
    assert left == [f"allow {rule}"]
    assert approval("shell", command="cat README.md") == "required"


def test_a_restriction_that_cannot_be_translated_makes_its_tool_ask(tmp_path: Path) -> None:
    approval, left = translated(
        tmp_path, allow=["WebFetch", "Bash(git log:*)"], deny=["WebFetch(domain:x)", "Bash(* --force)"]
    )
    assert left == ["deny WebFetch(domain:x)", "deny Bash(* --force)"]
    assert (approval("WebFetch"), approval("shell", command="git log")) == ("required", "required")


def test_no_permissions_are_a_policy_that_asks(tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text(policy_from_permissions("")[0])
    assert load_policy(tmp_path / "policy.yaml").default.approval == "required"


@pytest.mark.parametrize("given", [[], {"allow": "Bash"}, {"deny": [1]}, {"ask": None}])
def test_permissions_of_another_form_are_not_translated(given: object) -> None:
    with pytest.raises(ValueError, match="are no lists of texts"):
        policy_from_permissions(json.dumps({"permissions": given}))
