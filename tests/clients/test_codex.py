"""Codex itself, offline: it runs a call unless its hook refuses it in so many words."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.clients.bare_hooks import BROKEN, SAY
from tests.clients.client_lab import PACKAGES
from tests.clients.codex_lab import CodexLab
from tests.clients.loopback_model import LoopbackModel

from sayso import ApprovalDecision

pytestmark = pytest.mark.timeout(300)
RAN = "echo ran >> ran.txt"
WORDS = {
    "deny without a reason": {"permissionDecision": "deny"},
    "ask": {"permissionDecision": "ask", "permissionDecisionReason": "x"},
    "defer": {"permissionDecision": "defer", "permissionDecisionReason": "x"},
    "deny with a field that it does not know": {
        "permissionDecision": "deny",
        "permissionDecisionReason": "x",
        "note": "x",
    },
}


@pytest.fixture
def lab(tmp_path: Path, model: LoopbackModel) -> CodexLab:
    lab = CodexLab(tmp_path, model)
    lab.script([lab.shell(RAN)])
    return lab


# The client alone: nothing of this can be closed by settings.


@pytest.mark.parametrize("broken", BROKEN)
async def test_a_hook_that_fails_lets_the_call_run(lab: CodexLab, broken: str) -> None:
    lab.set_hook(lab.hook_file(BROKEN[broken]), seconds=1)
    await lab.run()
    assert lab.ran == ["ran"]


@pytest.mark.parametrize("word", WORDS)
async def test_a_decision_that_it_does_not_understand_lets_the_call_run(lab: CodexLab, word: str) -> None:
    said = {"hookSpecificOutput": {"hookEventName": "PreToolUse", **WORDS[word]}}
    lab.set_hook(lab.hook_file(f"{SAY}'{json.dumps(said)}'"))
    await lab.run()
    assert lab.ran == ["ran"]


async def test_a_hook_that_nobody_has_trusted_is_not_called(lab: CodexLab) -> None:
    lab.set_hook(lab.hook_file("touch called; exit 2"))
    await lab.run("--untrusted")
    assert (lab.ran, (lab.project / "called").exists()) == (["ran"], False)


# Behind sayso.


async def test_a_call_waits_for_a_person_and_its_result_is_recorded(lab: CodexLab) -> None:
    lab.set_hook(lab.sayso())
    running = asyncio.create_task(lab.run())
    asked = await lab.answer()
    await running
    assert (lab.ran, asked.tool_name, dict(asked.args)) == (["ran"], "shell", {"command": RAN})
    assert await lab.state(asked) == "used, returned"


async def test_a_refusal_reaches_the_model_with_its_note(lab: CodexLab) -> None:
    lab.set_hook(lab.sayso())
    running = asyncio.create_task(lab.run())
    await lab.answer(ApprovalDecision(approved=False, note="not today", who="ann"))
    await running
    assert (lab.ran, "not today" in lab.told()[0]) == ([], True)


async def test_an_edit_runs_in_the_place_of_the_call(lab: CodexLab) -> None:
    lab.set_hook(lab.sayso())
    running = asyncio.create_task(lab.run())
    edited = {"command": "echo edited >> ran.txt"}
    await lab.answer(ApprovalDecision(approved=True, override_args=edited, who="ann"))
    await running
    assert lab.ran == ["edited"]


async def test_an_unanswered_call_does_not_run(lab: CodexLab) -> None:
    lab.set_hook(lab.sayso("--hold", "1s"))
    await lab.run()
    assert (lab.ran, "make exactly this call again" in lab.told()[0]) == ([], True)


@pytest.mark.parametrize("broken", ["the policy", "the store", "the command"])
async def test_nothing_runs_when_sayso_cannot_decide(lab: CodexLab, broken: str) -> None:
    lab.set_hook(
        lab.sayso(
            *(["--hodl"] if broken == "the command" else []), store="/nowhere/x.db" if broken == "the store" else ""
        )
    )
    if broken == "the policy":
        lab.policy.write_text("tools: {shell: noone}")
    await lab.run()
    assert lab.ran == []


async def test_what_setup_writes_is_trusted_and_gates_the_client(lab: CodexLab) -> None:
    lab.command()  # writes the settings that point it at the model
    where = ["--policy", str(lab.policy), "--store", str(lab.store), "--hold", "1s"]
    command = [sys.executable, "-P", "-m", "sayso", "setup", "codex", *where, "--anyway", "--yes"]
    path = f"{PACKAGES / '.bin'}:{os.environ['PATH']}"
    subprocess.run(command, env={**os.environ, "HOME": str(lab.home), "PATH": path}, check=True, timeout=90)
    await lab.run("--untrusted")
    assert (lab.ran, "make exactly this call again" in lab.told()[0]) == ([], True)
