"""Permissions of Claude Code, translated into a policy file; what has no equal there is named, and asks.

Tests: tests/adapters/coding_agents/test_permissions.py
"""

from __future__ import annotations

import json
import re
import shlex
from typing import Any, cast

from sayso.adapters.coding_agents.clients import CLAUDE
from sayso.core.model import Approval

_RULE = re.compile(r"([\w-]+)(?:\((.*)\))?", re.DOTALL)
_WORDS: dict[str, Approval] = {"allow": "none", "ask": "required", "deny": "blocked"}  # the strictest last
_BEGIN = "# Translated from the permissions of Claude Code. A tool that is not named here asks.\ndefault: required\n"


class _Rules:
    """The rules that are translated so far, by name and by the beginning of a line."""

    def __init__(self) -> None:
        self.tools: dict[str, Approval] = {}
        self.lines: dict[str, Approval] = {}

    def add(self, rule: str, approval: Approval) -> bool:
        """Translate a permission; false if it has no equal."""
        found = _RULE.fullmatch(rule)
        if found is None:
            return False
        tool, inside = found[1], found[2]
        if inside in {None, "", "*"}:
            self.tools[_tool_name(tool)] = approval
            return tool != "Bash" or approval != "none"  # every line unasked is nothing that a policy should say
        words = _prefix(inside, approval) if tool == "Bash" else None
        if words is not None:
            self.lines[words] = approval
        return words is not None

    def loosen_nothing(self, left: str) -> None:
        """Let a tool ask about which a restriction could not be translated."""
        tool = _tool_name(left.partition("(")[0])
        if self.tools.get(tool) == "none":
            self.tools[tool] = "required"
        if tool == "shell":
            self.lines = {line: "required" if word == "none" else word for line, word in self.lines.items()}

    def text(self) -> str:
        """Return the policy file."""
        tools = "".join(f"  {json.dumps(name)}: {word}\n" for name, word in self.tools.items())
        lines = "".join(
            f"    - {{pattern: {json.dumps(line)}, approval: {word}}}\n" for line, word in self.lines.items()
        )
        shell = "shell:\n  default: required\n" + (f"  rules:\n{lines}" if lines else "")
        return _BEGIN + (f"tools:\n{tools}" if tools else "") + shell


def policy_from_permissions(settings: str) -> tuple[str, list[str]]:
    """Return the text of a policy, and the permissions that could not be translated.

    A permission for the beginning of a command covers less here: behind its words, only harmless options and plain
    operands run unasked. One for a whole command has no equal, since a rule would cover more.

    Raises:
        ValueError: the settings are no JSON, or their permissions have another form.
    """
    given: Any = json.loads(settings) if settings.strip() else {}
    permissions: Any = cast("dict[str, Any]", given).get("permissions", {}) if isinstance(given, dict) else {}
    lists = (
        [cast("dict[str, Any]", permissions).get(kind, []) for kind in _WORDS] if isinstance(permissions, dict) else [0]
    )
    if not all(_is_texts(each) for each in lists):
        raise ValueError("its `permissions` are no lists of texts; correct that first")
    rules, left = _Rules(), list[str]()
    for kind, approval in _WORDS.items():
        for rule in cast("dict[str, list[str]]", permissions).get(kind, []):
            if not rules.add(rule, approval):
                left.append(f"{kind} {rule}")
    for each in left:
        kind, _, rule = each.partition(" ")
        if kind != "allow" or rule in {"Bash", "Bash()", "Bash(*)"}:
            rules.loosen_nothing(rule)
    return rules.text(), left


def _is_texts(given: object) -> bool:
    return isinstance(given, list) and all(isinstance(each, str) for each in cast("list[object]", given))


def _prefix(pattern: str, approval: Approval) -> str | None:
    """Return the words at the beginning of a command; None for a pattern that is more than that."""
    words = re.sub(r"(:\*| \*)$", "", pattern)
    if words == pattern and approval == "none":
        return None
    try:
        plain = shlex.split(words)
    except ValueError:
        return None
    if not plain or set(words) & set("*?[]{}$`;&|<>()'\"\\\n"):
        return None
    return shlex.join(plain)


def _tool_name(tool: str) -> str:
    """Return the name that policies have for a tool."""
    if tool.startswith("mcp__"):
        server, _, name = tool.removeprefix("mcp__").partition("__")
        return f"{server}.{name or '*'}"
    known = CLAUDE.tools.get(tool)
    return tool if known is None else known.name
