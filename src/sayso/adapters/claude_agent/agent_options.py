"""Options of the Claude Agent SDK under which every call passes a hook, and runs as it has passed.

Tests: tests/adapters/claude_agent/test_holes.py
"""

from __future__ import annotations

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
_SIMPLE = "CLAUDE_CODE_SIMPLE"  # where it is set, Claude runs no hooks
_CHANGED = "Not executed: `can_use_tool` changed a call after it had been decided about."


def hooked_options(options: ClaudeAgentOptions) -> ClaudeAgentOptions:
    """Return options under which no call goes past the hooks, and none is changed behind them.

    Raises:
        ConfigurationError: they have something that would do so.
    """
    for flag in ("bare", "settings"):
        if flag in options.extra_args:
            raise ConfigurationError(
                f"extra_args has {flag!r}, which can switch the hooks off; "
                + ("leave it out" if flag == "bare" else "use `settings` of the options")
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
        env={**options.env, _SIMPLE: ""},
        can_use_tool=None if theirs is None else _unchanging(theirs),
    )


def _with_closed_ways(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings in which the hooks of files and plugins are off: this leaves those of the SDK on."""
    env = cast("Mapping[str, Any]", settings.get("env") or {})
    return {**settings, "disableAllHooks": True, "env": {**env, _SIMPLE: ""}}


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
        result = await theirs(tool, given, asked)
        if isinstance(result, PermissionResultAllow) and result.updated_input not in (None, given):
            return PermissionResultDeny(message=_CHANGED)
        return result

    return checked
