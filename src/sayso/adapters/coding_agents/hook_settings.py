"""Settings of coding agents: the hook put in, with the switches that close it, found again, and taken out.

Tests: tests/adapters/coding_agents/test_hook_settings.py
"""

from __future__ import annotations

import copy
import json
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import resources
from typing import Any, cast

import msgspec

Settings = dict[str, Any]
_SWITCHES = ("CLAUDE_CODE_SIMPLE", "CLAUDE_CODE_SAFE_MODE")  # variables: where one is set, Claude Code calls no hooks
_SKILLS = "disableSkillShellExecution"  # else skills run lines for which no hook is called
_CLAUDE_EVENTS = ("PreToolUse", "PostToolUse", "PostToolUseFailure")
_PLUGIN_LINE = re.compile(r"^const COMMAND = (\[.*\])$", re.MULTILINE)
_PLUGIN_COMMAND = 'const COMMAND = ["sayso", "hook", "opencode"]'


class HookPlace(msgspec.Struct, frozen=True, kw_only=True):
    """Where a client keeps its hooks, how an entry is written, and what stays open whatever is written."""

    file: str  # in the home of the user
    events: tuple[str, ...]
    entry: Callable[[str, float], Settings]
    extra: Mapping[str, Any] = {}  # settings that keep hooks switched on
    whole_file: bool = False  # the file is sayso's own
    closed_since: tuple[int, ...] | None = None  # the first release in which a hook that fails stops the call
    open: str = ""


def _claude_entry(command: str, seconds: float) -> Settings:
    hook = {"type": "command", "command": command, "timeout": round(seconds), "onFailure": "block"}
    return {"matcher": "*", "hooks": [hook]}


def _codex_entry(command: str, seconds: float) -> Settings:
    return {"matcher": "*", "hooks": [{"type": "command", "command": command, "timeout": round(seconds)}]}


def _gemini_entry(command: str, seconds: float) -> Settings:
    hook = {"type": "command", "name": "sayso", "command": command, "timeout": round(seconds * 1000)}
    return {"matcher": ".*", "hooks": [hook]}


def _qwen_entry(command: str, seconds: float) -> Settings:
    return {**_gemini_entry(command, seconds), "matcher": "*"}


def _copilot_entry(command: str, seconds: float) -> Settings:
    return {"type": "command", "bash": command, "timeoutSec": round(seconds)}


_DIES = "it runs the call if the hook dies, is too late, or is switched off"
PLACES: Mapping[str, HookPlace] = {
    "claude": HookPlace(
        file=".claude/settings.json",
        events=_CLAUDE_EVENTS,
        entry=_claude_entry,
        extra={"env": dict.fromkeys(_SWITCHES, ""), _SKILLS: True},
        closed_since=(2, 1, 295),
        open="older releases run the call if the hook fails",
    ),
    "codex": HookPlace(
        file=".codex/hooks.json",
        events=_CLAUDE_EVENTS[:2],
        entry=_codex_entry,
        open=f"{_DIES}, and calls only a hook that it trusts",
    ),
    "gemini": HookPlace(
        file=".gemini/settings.json",
        events=("BeforeTool", "AfterTool"),
        entry=_gemini_entry,
        extra={"hooksConfig": {"enabled": True}},
        open=_DIES,
    ),
    "qwen": HookPlace(file=".qwen/settings.json", events=_CLAUDE_EVENTS[:2], entry=_qwen_entry, open=_DIES),
    "copilot": HookPlace(
        file=".copilot/hooks/sayso.json",
        events=("preToolUse",),
        entry=_copilot_entry,
        extra={"version": 1},
        whole_file=True,
        open="it runs the call if the hook is too late",
    ),
    "opencode": HookPlace(
        file=".config/opencode/plugin/sayso.js",
        events=(),
        entry=_copilot_entry,
        whole_file=True,
        open="it runs every call if the plugin does not load",
    ),
}


def with_hook(text: str, client: str, command: Sequence[str], seconds: float) -> str:
    """Return the text of a settings file with sayso's hook, in the place of an earlier one.

    Raises:
        ValueError: the file has another form than plain JSON.
    """
    place = PLACES[client]
    if client == "opencode":
        plugin = (resources.files("sayso.adapters.coding_agents") / "opencode_plugin.js").read_text(encoding="utf-8")
        return plugin.replace(_PLUGIN_COMMAND, f"const COMMAND = {json.dumps([*command])}")
    settings = _read("" if place.whole_file else without_hook(text, client))
    for name, value in place.extra.items():
        settings[name] = {**settings.get(name, {}), **value} if isinstance(value, dict) else value
    hooks = settings.setdefault("hooks", {})
    for event in place.events:
        entries = hooks.setdefault(event, [])
        if not isinstance(entries, list):
            raise ValueError(f"`hooks.{event}` in it is no list; correct that first")  # noqa: TRY004 - as in `_read`
        cast("list[Any]", entries).append(place.entry(shlex.join(command), seconds))
    return _write(settings)


def without_hook(text: str, client: str) -> str:
    """Return the text of a settings file without sayso's hook; an empty text if nothing else is in it."""
    if PLACES[client].whole_file or not text.strip():
        return ""
    settings = _read(text)
    hooks = settings.get("hooks")
    if not isinstance(hooks, dict):
        return text
    kept = copy.deepcopy(cast("dict[str, Any]", hooks))
    for event, entries in list(kept.items()):
        if isinstance(entries, list):
            kept[event] = [each for each in cast("list[Any]", entries) if not _is_ours(each, client)]
    if kept == hooks:
        return text
    settings["hooks"] = {event: entries for event, entries in kept.items() if entries or not hooks[event]}
    if client == "claude":
        env = cast("Settings", settings.get("env") or {}).items()
        settings["env"] = {name: value for name, value in env if name not in _SWITCHES or value}
        settings.pop(_SKILLS, None)
    settings = {name: value for name, value in settings.items() if value or name not in {"hooks", "env"}}
    return _write(settings) if settings else ""


def own_commands(text: str, client: str) -> list[tuple[str, Settings]]:
    """Return sayso's hooks in a settings file: the event of each, and its entry."""
    return [(event, hook) for event, hook in _all_hooks(text) if _is_own_command(hook, client)]


def _all_hooks(text: str) -> Iterator[tuple[str, Settings]]:
    hooks = _read(text).get("hooks")
    for event, entries in cast("dict[str, Any]", hooks).items() if isinstance(hooks, dict) else ():
        for entry in cast("list[Any]", entries) if isinstance(entries, list) else ():
            for hook in _hooks_of(entry):
                yield event, hook


def own_command(text: str, client: str) -> list[str]:
    """Return the command of sayso's hook in a settings file; nothing if there is none."""
    if client == "opencode":
        found = _PLUGIN_LINE.search(text)
        return json.loads(found[1]) if found else []
    hooks = own_commands(text, client)
    return shlex.split(hooks[0][1].get("command") or hooks[0][1]["bash"]) if hooks else []


def weaknesses(text: str, client: str) -> list[str]:
    """Return what in a settings file keeps sayso's hook from being asked before every call."""
    if client == "opencode":
        return []
    hooks, place, found = own_commands(text, client), PLACES[client], list[str]()
    if not any(event == place.events[0] for event, _ in hooks):
        found.append(f"it is not called before a tool ({place.events[0]})")
    if client == "claude" and any(hook.get("onFailure") != "block" for _, hook in hooks):
        found.append('`onFailure` is not "block", so a hook that fails lets the call run')
    if _read(text).get("disableAllHooks"):
        found.append("`disableAllHooks` switches it off")
    return [*found, *_claude_weaknesses(_read(text))] if client == "claude" else found


def _claude_weaknesses(settings: Settings) -> Iterator[str]:
    for name in _SWITCHES:
        if settings.get("env", {}).get(name) != "":
            yield f"`env` does not set `{name}` to nothing: where that variable is set, no hook is called"
    if settings.get(_SKILLS) is not True:
        yield f"`{_SKILLS}` is not true, so skills run lines for which no hook is called"


def other_hooks(text: str, client: str) -> list[str]:
    """Return the commands of other hooks before tools: of two that change a call, a client takes either change."""
    if client == "opencode":
        return []
    before = [hook for event, hook in _all_hooks(text) if event == PLACES[client].events[0]]
    return [
        str(each.get("command") or each.get("bash") or each) for each in before if not _is_own_command(each, client)
    ]


def _is_ours(entry: object, client: str) -> bool:
    return any(_is_own_command(hook, client) for hook in _hooks_of(entry))


def _hooks_of(entry: object) -> Iterator[Settings]:
    given = cast("Settings", entry) if isinstance(entry, dict) else {}
    inner = given.get("hooks")
    for each in cast("list[Any]", inner) if isinstance(inner, list) else [given]:
        if isinstance(each, dict):
            yield cast("Settings", each)


def _is_own_command(hook: Settings, client: str) -> bool:
    command = hook.get("command", hook.get("bash"))
    try:
        words = shlex.split(command) if isinstance(command, str) else []
    except ValueError:
        return False
    places = [at for at, word in enumerate(words) if word.rpartition("/")[2] == "sayso"]
    return any(words[at + 1 : at + 3] == ["hook", client] for at in places)


def _read(text: str) -> Settings:
    try:
        settings: Any = json.loads(text.strip() or "{}")
    except ValueError as error:
        raise ValueError(f"it is no plain JSON ({error}); put the hook in by hand") from None
    if not isinstance(settings, dict):
        raise ValueError("it is no JSON object")  # noqa: TRY004 - one error for all that is no settings file
    for name in ("hooks", "env"):
        if not isinstance(cast("Settings", settings).get(name, {}), dict):
            raise ValueError(f"`{name}` in it is no JSON object; correct that first")  # noqa: TRY004 - as above
    return cast("Settings", settings)


def _write(settings: Settings) -> str:
    return json.dumps(settings, indent=2, ensure_ascii=False) + "\n"
