"""Gemini CLI, Qwen Code, Copilot CLI and opencode themselves, offline: alone, and behind `sayso hook`."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.clients.bare_hooks import BROKEN, READ
from tests.clients.client_lab import ClientLab
from tests.clients.copilot_lab import CopilotLab
from tests.clients.gemini_lab import GeminiLab, QwenLab
from tests.clients.loopback_model import LoopbackModel
from tests.clients.opencode_lab import OpencodeLab

from sayso import ApprovalDecision

pytestmark = pytest.mark.timeout(400)
RAN = "echo ran >> ran.txt"
NEW = {"command": "echo edited >> ran.txt"}
EDIT = ApprovalDecision(approved=True, override_args=NEW, who="ann")
NO = ApprovalDecision(approved=False, note="not today", who="ann")
LABS: dict[str, type[ClientLab]] = {each.client: each for each in (GeminiLab, QwenLab, CopilotLab, OpencodeLab)}
# The failures of a hook that a client takes for a refusal; after any other, it runs the call.
CLOSED = {
    "gemini": {"does not exist"},
    "qwen": set[str](),
    "copilot": {"exits with 1", "exits with 2 and says nothing", "is killed", "does not exist"},
}
Build = Callable[[str], ClientLab]


@pytest.fixture
def build(tmp_path: Path, model: LoopbackModel) -> Build:
    def built(client: str) -> ClientLab:
        lab = LABS[client](tmp_path, model)
        lab.script([lab.shell(RAN)])
        return lab

    return built


# The clients alone.


@pytest.mark.parametrize("broken", BROKEN)
@pytest.mark.parametrize("client", CLOSED)
async def test_what_a_client_makes_of_a_hook_that_fails(build: Build, client: str, broken: str) -> None:
    lab = build(client)
    lab.set_hook(lab.hook_file(BROKEN[broken]), seconds=1)
    await lab.run()
    assert lab.ran == ([] if broken in CLOSED[client] else ["ran"])


async def test_opencode_runs_everything_if_its_plugin_does_not_load(build: Build) -> None:
    lab = build("opencode")
    assert isinstance(lab, OpencodeLab)
    lab.set_plugin("export const Gate = async () => ({")
    await lab.run()
    assert lab.ran == ["ran"]


# Behind sayso.


@pytest.mark.parametrize("client", LABS)
async def test_an_approved_call_runs_once_and_a_refused_one_does_not(build: Build, client: str) -> None:
    lab = build(client)
    lab.script([lab.shell(RAN)], [lab.shell("echo two >> ran.txt")])
    lab.set_hook(lab.sayso("--hold", "60s"))
    running = asyncio.create_task(lab.run())
    asked = await lab.answer()
    await lab.answer(NO)
    await running
    assert (lab.ran, asked.tool_name, asked.args["command"]) == (["ran"], "shell", RAN)
    assert "not today" in lab.told()[1]
    assert await lab.state(asked) == ("used, result unknown" if client == "copilot" else "used, returned")


@pytest.mark.parametrize("client", LABS)
async def test_an_edit_runs_or_is_refused_and_the_original_call_never_runs(build: Build, client: str) -> None:
    lab = build(client)
    lab.set_hook(lab.sayso("--hold", "60s"))
    running = asyncio.create_task(lab.run())
    await lab.answer(EDIT)
    await running
    if client == "qwen":
        assert (lab.ran, "Make exactly this call instead" in lab.told()[0]) == ([], True)
    else:
        assert lab.ran == ["edited"]


async def test_the_call_that_a_person_made_of_another_runs_where_the_client_takes_no_edit(build: Build) -> None:
    lab = build("qwen")
    lab.script([lab.shell(RAN)], [lab.shell(NEW["command"])])
    lab.set_hook(lab.sayso("--hold", "60s"))
    running = asyncio.create_task(lab.run())
    asked = (await lab.asked())[0]
    edit = ApprovalDecision(approved=True, override_args={**asked.args, **NEW}, who="ann")
    await lab.answer(edit)
    await running
    assert lab.ran == ["edited"]


@pytest.mark.parametrize("client", LABS)
@pytest.mark.parametrize("broken", ["the policy", "the store", "the command"])
async def test_nothing_runs_when_sayso_cannot_decide(build: Build, client: str, broken: str) -> None:
    lab = build(client)
    mistake = ["--hodl"] if broken == "the command" else []
    lab.set_hook(lab.sayso(*mistake, store="/nowhere/x.db" if broken == "the store" else ""))
    if broken == "the policy":
        lab.policy.write_text("tools: {shell: noone}")
    await lab.run()
    assert lab.ran == []


@pytest.mark.parametrize("broken", sorted(BROKEN.keys() - {"hangs"}))  # it waits for its plugin as long as it takes
async def test_the_plugin_of_opencode_stops_every_call_that_sayso_does_not_allow(build: Build, broken: str) -> None:
    lab = build("opencode")
    lab.set_hook(lab.hook_file(BROKEN[broken]))
    await lab.run()
    assert lab.ran == []


@pytest.mark.parametrize("client", LABS)
async def test_what_setup_writes_gates_the_client(build: Build, client: str) -> None:
    lab = build(client)
    if client != "opencode":
        lab.set_hook(lab.hook_file(READ + "echo '{}'"))  # one of the owner's own, which stays
    where = ["--policy", str(lab.policy), "--store", str(lab.store), "--hold", "1s"]
    command = [sys.executable, "-P", "-m", "sayso", "setup", client, *where, "--anyway", "--yes"]
    subprocess.run(command, env={**os.environ, "HOME": str(lab.home)}, check=True, timeout=90)
    await lab.run()
    assert (lab.ran, "make exactly this call again" in lab.told()[0]) == ([], True)
