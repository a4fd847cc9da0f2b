"""Options of the Claude Agent SDK under which every call passes a hook, and runs as it has passed.

Tests: tests/adapters/claude_agent/test_holes.py
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from claude_agent_sdk import (
    CanUseTool,
    ClaudeAgentOptions,
    PermissionResult,
    PermissionResultAllow,
    PermissionResultDeny,
    ToolPermissionContext,
)

from sayso.errors import ConfigurationError

_DECIDING = ("PreToolUse", "PermissionRequest")  # of two hooks that change a call, Claude takes either change
_SWITCHES = ("CLAUDE_CODE_SIMPLE", "CLAUDE_CODE_SAFE_MODE")  # where one is set, Claude runs no hooks, or not all
_FLAGS = {
    "bare": "switches the hooks off",
    "settings": "can switch the hooks off; use `settings` of the options",
    "permission-prompt-tool": "can change a call after it was decided about",
}
_CHANGED = "Not executed: `can_use_tool` changed a call after it had been decided about."


def hooked_options(options: ClaudeAgentOptions) -> ClaudeAgentOptions:
    """Return options under which no call goes past the hooks, and none is changed behind them.

    Raises:
        ConfigurationError: they have something that would do so.
    """
    for flag in options.extra_args.keys() & _FLAGS.keys():
        raise ConfigurationError(f"extra_args has {flag!r}, which {_FLAGS[flag]}")
    if options.permission_prompt_tool_name is not None:
        raise ConfigurationError(
            "permission_prompt_tool_name can change a call after it was decided about; leave it out"
        )
    for event in _DECIDING:
        if (options.hooks or {}).get(cast("Any", event)):
            raise ConfigurationError(
                f"the options have a hook for {event}, which could change a call after it was decided about; leave it "
                "out, and say what it says in the policy"
            )
    theirs = options.can_use_tool
    return replace(
        options,
        settings=json.dumps(_with_closed_ways(_read_settings(options))),
        env={**options.env, **dict.fromkeys(_SWITCHES, "")},
        can_use_tool=None if theirs is None else _unchanging(theirs),
    )


def _with_closed_ways(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings in which the hooks of files and plugins are off, which leaves those of the SDK on.

    Skills may not run lines either: no hook is called for these.
    """
    env = cast("Mapping[str, Any]", settings.get("env") or {})
    closed = {"disableAllHooks": True, "disableSkillShellExecution": True}
    return {**settings, **closed, "env": {**env, **dict.fromkeys(_SWITCHES, "")}}


def _read_settings(options: ClaudeAgentOptions) -> Mapping[str, Any]:
    """Return the settings of the options, which are JSON, or the name of a file with some."""
    given = (options.settings or "").strip()
    if not given:
        return {}
    try:
        text = given if given.startswith("{") else (Path(options.cwd or ".") / given).read_text(encoding="utf-8")
        found: object = json.loads(text)
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"the settings {given[:80]!r} cannot be read: {error}") from None
    if not isinstance(found, dict):
        raise ConfigurationError(f"the settings {given[:80]!r} are no JSON object")
    return cast("dict[str, Any]", found)


def _unchanging(theirs: CanUseTool) -> CanUseTool:
    """Return the callback without the way to change a call."""

    async def checked(tool: str, given: dict[str, Any], asked: ToolPermissionContext) -> PermissionResult:
        decided = copy.deepcopy(given)  # which `theirs` cannot change
        result = await theirs(tool, given, asked)
        if not isinstance(result, PermissionResultAllow):
            return result
        if result.updated_input not in (None, decided):
            return PermissionResultDeny(message=_CHANGED)
        return replace(result, updated_input=decided)

    return checked
