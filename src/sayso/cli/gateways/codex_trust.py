"""Trust in hooks: Codex skips a hook silently until its settings have the hash that Codex itself computes of it.

Tests: tests/cli/gateways/test_codex_trust.py
"""

from __future__ import annotations

import json
import re
import subprocess
import threading
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

_SECONDS = 30.0
_HELLO = {"clientInfo": {"name": "sayso", "title": "sayso", "version": "0"}}


def current_hashes(program: str, hooks_file: Path, command: str) -> dict[str, str]:
    """Ask Codex for the hashes of a command's hooks, by the keys under which it trusts them; none if it cannot say."""
    requests = (("initialize", _HELLO), ("initialized", None), ("hooks/list", {"cwds": [str(hooks_file.parent)]}))
    lines = [_message(number, method, params) for number, (method, params) in enumerate(requests)]
    try:
        answer = _ask(program, lines, wanted=len(lines) - 1)
    except (OSError, ValueError):
        return {}
    hooks = [hook for place in answer.get("data", []) for hook in place.get("hooks", [])]
    place = (str(hooks_file), command)
    own = [
        each
        for each in cast("list[dict[str, Any]]", hooks)
        if (each.get("sourcePath"), each.get("command")) == place and {"key", "currentHash"} <= each.keys()
    ]
    return {str(each["key"]): str(each["currentHash"]) for each in own}


def with_trust(config: str, hashes: Mapping[str, str]) -> str:
    """Return the text of Codex' settings in which these hooks are trusted.

    Raises:
        ValueError: the settings are no TOML, before or after.
    """
    tomllib.loads(config)
    for key, current in hashes.items():
        head = f"[hooks.state.{json.dumps(key)}]"
        config = re.sub(re.escape(head) + r"\n(?:(?!\[).*\n?)*", "", config)
        config = f"{config.rstrip()}\n\n{head}\ntrusted_hash = {json.dumps(current)}\n".lstrip()
    found = tomllib.loads(config).get("hooks", {}).get("state", {})
    if any(found.get(key) != {"trusted_hash": current} for key, current in hashes.items()):
        raise ValueError("its part about trusted hooks is written in another way; trust the hook in Codex")
    return config


def _message(number: int, method: str, params: object) -> str:
    known = {} if params is None else {"id": number, "params": params}
    return json.dumps({"jsonrpc": "2.0", "method": method, **known}) + "\n"


def _ask(program: str, lines: Sequence[str], *, wanted: int) -> dict[str, Any]:
    """Send messages to Codex' own server, and return the result of the last one."""
    with subprocess.Popen(  # noqa: S603 - the client that is set up
        [program, "app-server"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as server:
        limit = threading.Timer(_SECONDS, server.kill)
        limit.start()
        try:
            return _converse(server, lines, wanted)
        finally:
            limit.cancel()
            server.kill()


def _converse(server: subprocess.Popen[str], lines: Sequence[str], wanted: int) -> dict[str, Any]:
    if server.stdin is None or server.stdout is None:
        raise ValueError("Codex has no pipes")
    server.stdin.write("".join(lines))
    server.stdin.flush()
    for line in server.stdout:
        message = json.loads(line)
        if message.get("id") == wanted:
            return cast("dict[str, Any]", message.get("result") or {})
    return {}
