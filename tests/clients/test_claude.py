"""Claude Code itself, offline: what it runs when its hook fails, and what it runs behind `sayso hook`."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.clients.bare_hooks import BROKEN, READ, SAY
from tests.clients.claude_lab import ClaudeLab
from tests.clients.client_lab import native
from tests.clients.loopback_model import LoopbackModel

from sayso import ApprovalDecision

pytestmark = pytest.mark.timeout(300)
RAN = "echo ran >> ran.txt"
UNHEARD = {"says nothing", "says no JSON", "says half a decision"}  # which `onFailure` does not close


@pytest.fixture
def lab(tmp_path: Path, model: LoopbackModel) -> ClaudeLab:
    lab = ClaudeLab(tmp_path, model)
    lab.script([lab.shell(RAN)])
    return lab


# The client alone.


@pytest.mark.parametrize("broken", BROKEN)
async def test_a_hook_that_fails_lets_the_call_run(lab: ClaudeLab, broken: str) -> None:
    lab.set_hook(lab.hook_file(BROKEN[broken]), seconds=1)
    await lab.run()
    refused = broken == "exits with 2 and says nothing"
    assert lab.ran == ([] if refused else ["ran"])


@pytest.mark.parametrize("broken", BROKEN)
async def test_on_failure_closes_all_but_what_ends_well_without_a_decision(lab: ClaudeLab, broken: str) -> None:
    lab.set_hook(lab.hook_file(BROKEN[broken]), seconds=1, onFailure="block")
    await lab.run()
    assert lab.ran == (["ran"] if broken in UNHEARD else [])


async def test_a_word_that_it_does_not_know_is_refused_with_on_failure(lab: ClaudeLab) -> None:
    said = {"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "denied"}}
    lab.set_hook(lab.hook_file(f"{SAY}'{json.dumps(said)}'"), onFailure="block")
    await lab.run()
    assert lab.ran == []


SWITCHES = pytest.mark.parametrize("variable", ["CLAUDE_CODE_SIMPLE", "CLAUDE_CODE_SAFE_MODE"])


@SWITCHES
async def test_a_variable_switches_its_hooks_off(lab: ClaudeLab, variable: str) -> None:
    lab.set_hook(lab.hook_file(f"{READ}exit 2"), onFailure="block")
    lab.variables[variable] = "1"
    await lab.run()
    assert lab.ran == ["ran"]


async def test_another_hook_changes_what_one_has_allowed(lab: ClaudeLab) -> None:
    changed = {"hookEventName": "PreToolUse", "updatedInput": {"command": "echo changed >> ran.txt"}}
    allowed = {"hookEventName": "PreToolUse", "permissionDecision": "allow", "permissionDecisionReason": "fine"}
    commands = [f"{READ}printf '%s' '{json.dumps({'hookSpecificOutput': said})}'" for said in (allowed, changed)]
    lab.set_settings(
        PreToolUse=[{"matcher": "*", "hooks": [{"type": "command", "command": each}]} for each in commands]
    )
    await lab.run()
    assert lab.ran == ["changed"]


# Behind sayso.


def guard(lab: ClaudeLab, *options: str, seconds: int = 120, store: str = "") -> None:
    command = lab.sayso(*options, store=store)
    hook = {"type": "command", "command": command, "timeout": seconds, "onFailure": "block"}
    entry = [{"matcher": "*", "hooks": [hook]}]
    lab.set_settings(PreToolUse=entry, PostToolUse=entry, PostToolUseFailure=entry)


async def test_a_call_that_the_policy_allows_runs_and_one_that_it_blocks_does_not(lab: ClaudeLab) -> None:
    lab.policy.write_text(
        "default: required\nshell:\n  default: required\n  rules:\n"
        "    - {pattern: touch, approval: none}\n    - {pattern: rm, approval: blocked}\n"
    )
    lab.script([lab.shell("touch made")], [lab.shell("rm made")])
    guard(lab)
    await lab.run()
    assert (lab.project / "made").exists()
    assert "blocked by policy" in lab.told()[1]


async def test_a_call_waits_for_a_person_and_its_result_is_recorded(lab: ClaudeLab) -> None:
    guard(lab)
    running = asyncio.create_task(lab.run())
    asked = await lab.answer()
    await running
    assert lab.ran == ["ran"]
    assert dict(asked.args) == {"command": RAN}
    assert await lab.state(asked) == "used, returned"


async def test_a_failure_of_the_tool_is_recorded(lab: ClaudeLab) -> None:
    lab.script([lab.shell("exit 3")])
    guard(lab)
    running = asyncio.create_task(lab.run())
    asked = await lab.answer()
    await running
    assert await lab.state(asked) == "used, raised"


async def test_a_refusal_reaches_the_model_with_its_note(lab: ClaudeLab) -> None:
    guard(lab)
    running = asyncio.create_task(lab.run())
    await lab.answer(ApprovalDecision(approved=False, note="not today", who="ann"))
    await running
    assert lab.ran == []
    assert "not today" in lab.told()[0]


async def test_an_edit_runs_and_the_model_is_told_of_it(lab: ClaudeLab) -> None:
    guard(lab)
    running = asyncio.create_task(lab.run())
    edited = {"command": "echo edited >> ran.txt"}
    asked = await lab.answer(ApprovalDecision(approved=True, override_args=edited, note="rather this", who="ann"))
    await running
    assert lab.ran == ["edited"]
    assert "rather this" in json.dumps(lab.last_conversation("messages"))
    assert await lab.state(asked) == "used, returned"


async def test_a_deferred_call_runs_when_its_session_is_resumed_after_the_answer(lab: ClaudeLab) -> None:
    guard(lab, "--hold", "1s")
    first = json.loads(await lab.run())
    assert first["stop_reason"] == "tool_deferred"
    await lab.answer()
    await lab.run("--resume", first["session_id"], prompt="")
    assert lab.ran == ["ran"]


async def test_a_refusal_of_a_deferred_call_is_heard_when_its_session_is_resumed(lab: ClaudeLab) -> None:
    guard(lab, "--hold", "1s")
    first = json.loads(await lab.run())
    await lab.answer(ApprovalDecision(approved=False, note="not today", who="ann"))
    await lab.run("--resume", first["session_id"], prompt="")
    assert (lab.ran, "not today" in lab.told()[0]) == ([], True)


async def test_a_session_that_is_resumed_before_the_answer_defers_again(lab: ClaudeLab) -> None:
    guard(lab, "--hold", "1s")
    first = json.loads(await lab.run())
    again = json.loads(await lab.run("--resume", first["session_id"], prompt=""))
    assert again["stop_reason"] == "tool_deferred"
    await lab.answer()
    await lab.run("--resume", again["session_id"], prompt="")
    assert lab.ran == ["ran"]


async def test_of_two_calls_at_once_one_is_deferred_and_the_other_is_made_again(lab: ClaudeLab) -> None:
    two = lab.shell("echo two >> ran.txt")
    lab.script([lab.shell(RAN), two], [two])
    guard(lab, "--hold", "1s")
    first = json.loads(await lab.run())
    await lab.answer()
    await lab.answer()
    await lab.run("--resume", first["session_id"], prompt="")
    assert lab.ran == ["ran", "two"]


async def test_an_unanswered_call_is_made_again_for_its_answer(lab: ClaudeLab) -> None:
    guard(lab, "--hold", "1s", "--then", "deny")
    first = json.loads(await lab.run())
    assert "make exactly this call again" in lab.told()[0]
    await lab.answer()
    lab.script([lab.shell(RAN)], [lab.shell(RAN)])
    await lab.run("--resume", first["session_id"])
    assert lab.ran == ["ran"]


@pytest.mark.parametrize("broken", ["the policy", "the store", "the program", "the time"])
async def test_nothing_runs_when_sayso_cannot_decide(lab: ClaudeLab, broken: str) -> None:
    guard(lab, store="/nowhere/sayso.db" if broken == "the store" else "", seconds=1 if broken == "the time" else 60)
    if broken == "the policy":
        lab.policy.write_text("tools: {Bash: noone}")
    if broken == "the program":
        lab.set_hook("/nowhere/sayso hook claude", onFailure="block")
    await lab.run()
    assert lab.ran == []


async def test_a_hook_that_is_killed_while_it_waits_lets_nothing_run(lab: ClaudeLab) -> None:
    guard(lab)
    lab.set_hook(f"{lab.hook_file(f'echo $$ > pid; exec {lab.sayso()}')}", onFailure="block")
    running = asyncio.create_task(lab.run())
    await lab.asked()
    os.kill(int((lab.project / "pid").read_text()), signal.SIGKILL)
    await running
    assert lab.ran == []


@SWITCHES
async def test_what_setup_writes_gates_the_client_and_what_it_removes_does_not(lab: ClaudeLab, variable: str) -> None:
    def setup(*options: str) -> None:
        where = ["--policy", str(lab.policy), "--store", str(lab.store), "--hold", "1s"]
        command = [sys.executable, "-m", "sayso", "setup", "claude", *where, *options, "--yes"]
        path = f"{native('@anthropic-ai/claude-code')}:/usr/bin:/bin"
        subprocess.run(command, env={**os.environ, "HOME": str(lab.home), "PATH": path}, check=True, timeout=60)

    setup()
    lab.variables[variable] = "1"  # which switches hooks off
    await lab.run()
    assert (lab.ran, len(await lab.asked())) == ([], 1)
    setup("--remove")
    await lab.run()
    assert lab.ran == ["ran"]
