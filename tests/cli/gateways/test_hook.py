"""`sayso hook` as a process: one whole decision on its standard output, whatever happens to it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.adapters.coding_agents.desk import NO, HookDesk
from tests.children import bounded

POLICY = "default: none\ntools:\n  look: none\n  wipe: blocked\n"


@pytest.fixture
def desk(tmp_path: Path) -> HookDesk:
    (tmp_path / "sayso.yaml").write_text(POLICY)
    return HookDesk(tmp_path)


def start(desk: HookDesk, *options: str, client: str = "claude", **others: Any) -> subprocess.Popen[str]:
    where = ["--policy", str(desk.folder / "sayso.yaml"), "--store", str(desk.store)]
    command = [sys.executable, "-m", "sayso", "hook", client, *where, *options]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **others}
    return subprocess.Popen(command, text=True, cwd=desk.folder, **pipes)


def decide(desk: HookDesk, event: str, *options: str, client: str = "claude") -> tuple[str, str]:
    """Return the decision and the reason of a hook, which must be all that it prints."""
    with bounded(start(desk, *options, client=client)) as process:
        out, _ = process.communicate(event, timeout=60)
    assert process.returncode == 0
    said = json.loads(out)["hookSpecificOutput"]
    return said["permissionDecision"], said["permissionDecisionReason"]


def test_a_call_is_allowed_or_refused(desk: HookDesk) -> None:
    assert decide(desk, desk.event("look", {}))[0] == "allow"
    decision, reason = decide(desk, desk.event("wipe", {}))
    assert (decision, "blocked by policy" in reason) == ("deny", True)


def test_an_unanswered_call_is_refused_for_now_and_its_question_stays(desk: HookDesk) -> None:
    decision, reason = decide(desk, desk.event("pay", {"amount": 5}), "--hold", "1s")
    assert (decision, "Not executed yet" in reason) == ("deny", True)


@pytest.mark.parametrize("event", ["", "{", "[]", '{"hook_event_name": "PreToolUse"}', "\x00"])
def test_what_is_no_event_is_refused(desk: HookDesk, event: str) -> None:
    assert decide(desk, event)[0] == "deny"


def test_a_policy_that_cannot_be_read_refuses_everything(desk: HookDesk) -> None:
    (desk.folder / "sayso.yaml").write_text("tools: {look: noone}")
    decision, reason = decide(desk, desk.event("look", {}))
    assert (decision, "noone" in reason) == ("deny", True)
    (desk.folder / "sayso.yaml").unlink()
    assert decide(desk, desk.event("look", {}))[0] == "deny"


@pytest.mark.parametrize("store", ["memory:", "nowhere/sayso.db", "mysql://x"])
def test_a_store_that_cannot_be_used_refuses_everything(desk: HookDesk, store: str) -> None:
    assert decide(desk, desk.event("pay", {}), "--store", store, "--hold", "1s")[0] == "deny"


async def test_a_client_that_ends_the_hook_reads_a_refusal_and_the_question_is_withdrawn(desk: HookDesk) -> None:
    with bounded(start(desk)) as process:
        assert process.stdin is not None
        process.stdin.write(desk.event("pay", {}))
        process.stdin.close()
        (asked,) = await desk.asked()
        process.send_signal(signal.SIGTERM)
        assert process.stdout is not None
        said = json.loads(process.stdout.read())
        assert process.wait(60) == 0
    assert said["hookSpecificOutput"]["permissionDecision"] == "deny"
    assert (await desk.request(asked.id)).status == "withdrawn"


async def test_an_answer_ends_the_wait(desk: HookDesk) -> None:
    with bounded(start(desk)) as process:
        assert process.stdin is not None
        process.stdin.write(desk.event("pay", {}))
        process.stdin.close()
        await desk.answer(NO)
        assert process.stdout is not None
        assert "too much" in process.stdout.read()


def test_an_event_that_wants_no_decision_gets_none(desk: HookDesk) -> None:
    with bounded(start(desk)) as process:
        out, _ = process.communicate(desk.event("look", {}, hook_event_name="PermissionRequest"), timeout=60)
    assert (out, process.returncode) == ("{}\n", 0)


def test_a_result_that_cannot_be_recorded_is_no_decision(desk: HookDesk) -> None:
    with bounded(start(desk, "--store", "nowhere/sayso.db")) as process:
        out, err = process.communicate(desk.event("look", {}, hook_event_name="PostToolUse"), timeout=60)
    assert (out, process.returncode, "was not recorded" in err) == ("{}\n", 0, True)


def test_a_decision_that_nobody_can_read_is_a_refusal_by_exit_code(desk: HookDesk) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with bounded(start(desk, stdout=writer)) as process:
        os.close(writer)
        _, err = process.communicate(desk.event("look", {}), timeout=60)
    assert (process.returncode, "could not be written" in err) == (2, True)


@pytest.mark.parametrize("options", [("--hodl", "1s"), ("--policy",)])
def test_a_mistake_in_the_command_is_a_refusal_by_exit_code(desk: HookDesk, options: tuple[str, ...]) -> None:
    with bounded(start(desk, *options)) as process:
        out, err = process.communicate(desk.event("look", {}), timeout=60)
    assert (out, process.returncode) == ("", 2)
    assert err


def _pipe(code: str) -> subprocess.CompletedProcess[str]:
    """Run code that has a decision pipe as `pipe`."""
    begin = (
        "from sayso.cli.gateways.decision_pipe import DecisionPipe\n"
        "import os, signal, sys, threading\n"
        "pipe = DecisionPipe(lambda sentence: 'no: ' + sentence)\n"
    )
    return subprocess.run([sys.executable, "-c", begin + code], capture_output=True, text=True, timeout=60, check=False)


def test_what_else_is_printed_does_not_reach_the_client() -> None:
    done = _pipe("print('a warning')\nos.system('echo a child')\npipe.write('yes')\npipe.write('again')\nprint('more')")
    assert (done.stdout, "a warning" in done.stderr, "a child" in done.stderr) == ("yes\n", True, True)


def test_a_process_that_hangs_refuses_in_time() -> None:
    done = _pipe("pipe.limit(0.05)\nthreading.Event().wait()")
    assert ("in time" in done.stdout, done.returncode) == (True, 0)


def test_a_process_that_is_stopped_early_refuses() -> None:
    done = _pipe("os.kill(os.getpid(), signal.SIGTERM)\nthreading.Event().wait()")
    assert ("was stopped" in done.stdout, done.returncode) == (True, 0)


def test_a_hook_loads_no_framework_no_server_and_no_screen(desk: HookDesk) -> None:
    where = ["--policy", str(desk.folder / "sayso.yaml"), "--store", str(desk.store)]
    command = [sys.executable, "-X", "importtime", "-P", "-m", "sayso", "hook", "claude", *where]
    given = desk.event("look", {})
    done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=60, check=True)
    loaded = {line.rpartition("|")[2].strip().partition(".")[0] for line in done.stderr.splitlines()}
    heavy = {"pydantic", "pydantic_ai", "fastapi", "starlette", "uvicorn", "httpx2", "prompt_toolkit", "jsonschema"}
    assert "msgspec" in loaded
    assert not loaded & heavy
