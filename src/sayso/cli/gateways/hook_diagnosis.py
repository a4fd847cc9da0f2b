"""Diagnosis of hooks: whether coding agents are set up to ask sayso, whether the hook works, when it was asked last.

Tests: tests/cli/gateways/test_hook_diagnosis.py
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from sayso.adapters.coding_agents.clients import CLIENTS
from sayso.adapters.coding_agents.hook_settings import PLACES, other_hooks, own_command, weaknesses
from sayso.channels.display.durations import format_rough_duration
from sayso.cli.screen import short_path, visible

Found = tuple[Literal["ok", "warning", "problem"], str, str]
_SECONDS = 60.0


def diagnose_hooks() -> Iterator[Found]:
    """Yield a diagnosis for each coding agent whose settings name sayso's hook."""
    for client, place in PLACES.items():
        file = Path.home() / place.file
        what = f"hook of {CLIENTS[client].title}"
        try:
            text = file.read_text(encoding="utf-8") if file.exists() else ""
            command = own_command(text, client)
            for each in other_hooks(text, client) if command else ():
                yield "warning", what, f"{visible(each)} is asked before a tool, too, and could change what was decided"
            if command:
                yield from _diagnose(what, command, weaknesses(text, client))
        except (OSError, ValueError) as error:
            yield "warning", what, f"{short_path(str(file))} cannot be read: {error}"


def _diagnose(what: str, command: list[str], weak: list[str]) -> Iterator[Found]:
    for each in weak:
        yield "problem", what, each
    try:
        done = subprocess.run([*command, "--check"], capture_output=True, text=True, timeout=_SECONDS, check=False)  # noqa: S603 - sayso's own command
    except (OSError, subprocess.TimeoutExpired) as error:
        yield "problem", what, f"its command cannot be run: {error}"
        return
    if done.returncode != 0:
        last = (done.stderr.strip() or "it says nothing").splitlines()[-1]
        yield "problem", what, f"it would refuse every call: {last}"
        return
    asked_at = json.loads(done.stdout)["asked_at"]
    if asked_at is None:
        yield "warning", what, "it works, and was never asked: start the agent anew, and see that it trusts the hook"
    else:
        yield "ok", what, f"it works, and was asked {format_rough_duration(time.time() - asked_at)} ago"
