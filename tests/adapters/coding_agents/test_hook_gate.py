"""One call of a coding agent, decided about by a process that lives no longer than that."""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.adapters.coding_agents.desk import NO, YES, HookDesk

from sayso import ApprovalDecision
from sayso.adapters.coding_agents.clients import CLAUDE, GEMINI, QWEN
from sayso.core import audit

LINE = {"command": "git push", "description": "Push the branch"}
EDIT = ApprovalDecision(approved=True, override_args={"command": "git push --dry-run"}, note="dry", who="ann")


@pytest.fixture
def desk(tmp_path: Path) -> HookDesk:
    return HookDesk(tmp_path)


# What the policy settles.


async def test_a_line_is_judged_by_the_shell_rules(desk: HookDesk) -> None:
    assert (await desk.decide("Bash", {"command": "git status", "description": "look"})).decision == "allow"
    blocked = await desk.decide("Bash", {"command": "rm -rf build"})
    assert (blocked.decision, "blocked by policy" in blocked.reason) == ("deny", True)


async def test_a_file_is_judged_by_the_zones_at_its_real_path(desk: HookDesk) -> None:
    (desk.folder / "work" / "link").symlink_to("/etc")
    inside = str(desk.folder / "work" / "notes.txt")
    assert (await desk.decide("Read", {"file_path": inside})).decision == "allow"
    for path in (
        "/etc/passwd",
        str(desk.folder / "work" / "link" / "passwd"),
        str(desk.store),
        "~/notes",
        "/work/notes",
    ):
        assert (await desk.decide("Read", {"file_path": path})).decision == "deny", path
    assert "Not executed yet" in (await desk.decide("Write", {"file_path": inside, "content": "x"})).reason


async def test_a_relative_path_is_one_of_the_clients_folder(desk: HookDesk) -> None:
    assert (await desk.decide("Read", {"file_path": "work/notes.txt"})).decision == "allow"
    assert (await desk.decide("Read", {"file_path": "work/../../notes.txt"})).decision == "deny"


async def test_what_no_rule_names_asks_though_the_default_is_none(desk: HookDesk) -> None:
    assert (await desk.decide("WebFetch", {"url": "x"})).decision == "deny"
    desk.rules["tools"] = {"WebFetch": "none", "files.*": "none"}
    assert (await desk.decide("WebFetch", {"url": "y"})).decision == "allow"
    assert (await desk.decide("mcp__files__read", {})).decision == "allow"
    assert (await desk.decide("mcp__other__read", {})).decision == "deny"


async def test_a_rule_of_a_file_that_shuts_lines_in_does_not_allow_one_outside(desk: HookDesk) -> None:
    desk.rules["shell"]["confine"] = True
    assert "Not executed yet" in (await desk.decide("Bash", {"command": "git status"})).reason


async def test_a_line_is_judged_in_the_folder_of_the_client_and_not_in_that_of_the_policy(desk: HookDesk) -> None:
    (desk.folder / "elsewhere").mkdir()
    desk.rules["shell"] |= {"folder": "work", "rules": [{"pattern": "git status", "approval": "none"}]}
    desk.rules["sandbox"]["zones"]["work"]["approval"] = {"write": "none"}
    line = {"command": "git status > notes.txt"}
    assert "blocked by policy" in (await desk.decide("Bash", line)).reason
    inside = await desk.decide("Bash", line, cwd=str(desk.folder / "work"))
    assert "Not executed yet" in inside.reason, "a redirection asks even where the zone allows it"


# What a person decides.


async def test_a_call_waits_for_its_answer_and_runs_once(desk: HookDesk) -> None:
    waiting = asyncio.create_task(desk.decide("Bash", LINE, hold=30))
    asked = await desk.answer()
    assert (await waiting).decision == "allow"
    assert (asked.tool_name, dict(asked.args)) == ("shell", {"command": "git push"})
    assert asked.description == f"In {desk.folder}; the agent says: Push the branch"
    assert asked.metadata is not None
    assert [asked.metadata[each] for each in ("client", "folder", "call")] == ["Claude Code", str(desk.folder), "t1"]
    assert "Not executed yet" in (await desk.decide("Bash", LINE)).reason, "the next one like it is a new question"


async def test_a_refusal_reaches_the_model_with_its_note(desk: HookDesk) -> None:
    waiting = asyncio.create_task(desk.decide("Bash", LINE, hold=30))
    await desk.answer(NO)
    answer = await waiting
    assert (answer.decision, "too much" in answer.reason) == ("deny", True)


async def test_an_edit_runs_with_all_arguments_and_the_model_is_told(desk: HookDesk) -> None:
    waiting = asyncio.create_task(desk.decide("Bash", LINE, hold=30))
    await desk.answer(EDIT)
    answer = await waiting
    assert answer.args == {"command": "git push --dry-run", "description": "Push the branch"}
    assert ('shell(command="git push --dry-run")' in answer.feedback, "dry" in answer.feedback) == (True, True)


async def test_an_edited_path_goes_back_under_the_clients_own_name(desk: HookDesk) -> None:
    old, new = (str(desk.folder / "work" / name) for name in ("a", "b"))
    waiting = asyncio.create_task(desk.decide("Write", {"file_path": old, "content": "x"}, hold=30))
    await desk.answer(ApprovalDecision(approved=True, override_args={"path": new, "content": "x"}, who="ann"))
    assert (await waiting).args == {"file_path": new, "content": "x"}


async def test_an_edit_that_names_an_argument_twice_does_not_run(desk: HookDesk) -> None:
    path = str(desk.folder / "work" / "a")
    waiting = asyncio.create_task(desk.decide("Write", {"file_path": path, "content": "x"}, hold=30))
    edited = {"path": path, "content": "x", "file_path": "/etc/passwd"}
    await desk.answer(ApprovalDecision(approved=True, override_args=edited, who="ann"))
    with pytest.raises(ValueError, match="one argument twice"):
        await waiting


# Later, in another process.


async def test_an_unanswered_call_finds_its_answer_when_the_model_makes_it_again(desk: HookDesk) -> None:
    assert "make exactly this call again" in (await desk.decide("Bash", LINE)).reason
    await desk.answer()
    again = {**LINE, "description": "Push it once more"}
    assert (await desk.decide("Bash", again, tool_use_id="t2")).decision == "allow"
    assert "Not executed yet" in (await desk.decide("Bash", again, tool_use_id="t3")).reason


async def test_a_late_refusal_is_told_once_and_stands_though_the_rules_were_loosened(desk: HookDesk) -> None:
    await desk.decide("Bash", LINE)
    await desk.answer(NO)
    desk.rules["shell"]["rules"].append({"pattern": "git push", "approval": "none"})
    answer = await desk.decide("Bash", LINE, tool_use_id="t2")
    assert (answer.decision, "too much" in answer.reason) == ("deny", True)
    assert (await desk.decide("Bash", LINE, tool_use_id="t3")).decision == "allow", "a new call, by the new rules"


async def test_an_approval_falls_if_the_rules_block_meanwhile(desk: HookDesk) -> None:
    await desk.decide("Bash", LINE)
    await desk.answer()
    desk.rules["shell"]["rules"].append({"pattern": "git push", "approval": "blocked"})
    assert "blocked by policy" in (await desk.decide("Bash", LINE)).reason


async def test_an_answer_for_one_folder_is_none_for_another(desk: HookDesk) -> None:
    await desk.decide("Bash", LINE)
    await desk.answer(ApprovalDecision(approved=True, remember="always", who="ann"))
    elsewhere = str(desk.folder / "work")
    assert "Not executed yet" in (await desk.decide("Bash", LINE, cwd=elsewhere)).reason
    assert (await desk.decide("Bash", LINE)).decision == "allow"


async def test_two_processes_share_one_answer_and_one_of_them_runs(desk: HookDesk) -> None:
    first, second = (asyncio.create_task(desk.decide("Bash", LINE, hold=5, tool_use_id=each)) for each in "ab")
    await desk.answer()
    done, _ = await asyncio.wait([first, second], return_when=asyncio.FIRST_COMPLETED)
    assert [each.result().decision for each in done] == ["allow"]
    await desk.answer(NO)
    assert sorted([(await first).decision, (await second).decision]) == ["allow", "deny"]


async def test_a_client_that_does_not_wait_any_more_withdraws_its_question(desk: HookDesk) -> None:
    waiting = asyncio.create_task(desk.decide("Bash", LINE, hold=30))
    (asked,) = await desk.asked()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert (await desk.request(asked.id)).status == "withdrawn"


# Deferral.


async def test_a_deferred_call_is_found_by_the_resumed_run(desk: HookDesk) -> None:
    assert (await desk.decide("Bash", LINE, unanswered="defer")).decision == "defer"
    assert (await desk.decide("Bash", LINE, unanswered="defer")).decision == "defer", "resumed before the answer"
    await desk.answer()
    assert (await desk.decide("Bash", LINE, unanswered="defer")).decision == "allow"


async def test_a_refusal_of_a_deferred_call_reaches_the_resumed_run(desk: HookDesk) -> None:
    await desk.decide("Bash", LINE, unanswered="defer")
    await desk.answer(NO)
    assert "too much" in (await desk.decide("Bash", LINE, unanswered="defer")).reason


async def test_a_second_call_is_not_deferred_since_the_client_keeps_one_only(desk: HookDesk) -> None:
    assert (await desk.decide("Bash", LINE, unanswered="defer")).decision == "defer"
    other = await desk.decide("Bash", {"command": "git pull"}, unanswered="defer", tool_use_id="t2")
    assert (other.decision, "make exactly this call again" in other.reason) == ("deny", True)


async def test_a_client_that_cannot_resume_is_not_deferred(tmp_path: Path) -> None:
    desk = HookDesk(tmp_path, client=replace(CLAUDE, defers=False))
    assert (await desk.decide("Bash", LINE, unanswered="defer")).decision == "deny"


# Clients that cannot take an edit.


async def test_an_edit_that_a_client_would_ignore_is_refused_and_the_new_call_may_run_once(tmp_path: Path) -> None:
    desk = HookDesk(tmp_path, client=replace(CLAUDE, edits="none"))
    waiting = asyncio.create_task(desk.decide("Bash", LINE, hold=30))
    await desk.answer(EDIT)
    answer = await waiting
    assert answer.decision == "deny"
    assert 'Make exactly this call instead: shell(command="git push --dry-run")' in answer.reason
    assert "Make exactly this call" in (await desk.decide("Bash", LINE)).reason, "the original still does not run"
    edited = {"command": "git push --dry-run"}
    taken = await desk.decide("Bash", edited, tool_use_id="t2")
    assert (taken.decision, taken.args) == ("allow", None)
    assert "Not executed yet" in (await desk.decide("Bash", edited, tool_use_id="t3")).reason


async def test_an_edit_that_is_blocked_by_now_does_not_run_under_its_new_name(tmp_path: Path) -> None:
    desk = HookDesk(tmp_path, client=replace(CLAUDE, edits="none"))
    await desk.decide("Bash", LINE)
    await desk.answer(EDIT)
    await desk.decide("Bash", LINE)
    desk.rules["shell"]["rules"].append({"pattern": "git push --dry-run", "approval": "blocked"})
    assert "edited arguments cannot run" in (await desk.decide("Bash", {"command": "git push --dry-run"})).reason


async def test_a_client_that_merges_an_edit_cannot_take_one_without_an_argument(tmp_path: Path) -> None:
    desk = HookDesk(tmp_path, client=replace(CLAUDE, edits="merged"))
    await desk.decide("Bash", {"command": "git push", "timeout": 5})
    await desk.answer(EDIT)
    assert (await desk.decide("Bash", {"command": "git push", "timeout": 5})).decision == "deny"
    await desk.decide("Bash", LINE)
    await desk.answer(EDIT)
    assert (await desk.decide("Bash", LINE)).args == {"command": "git push --dry-run", "description": "Push the branch"}


def test_the_table_says_which_clients_take_edits() -> None:
    assert (CLAUDE.edits, GEMINI.edits, QWEN.edits) == ("all", "merged", "none")


# Results.


@dataclasses.dataclass
class _Ended:
    kind: str
    result: str | None
    facts: dict[str, object]


@pytest.mark.parametrize(
    "ended",
    [
        _Ended("PostToolUse", "returned", {"tool_response": {"stdout": "done"}}),
        _Ended("PostToolUseFailure", "raised", {"error": "exit code 1"}),
    ],
    ids=lambda each: each.kind,
)
async def test_the_result_is_recorded_by_the_hook_behind_the_tool(desk: HookDesk, ended: _Ended) -> None:
    await desk.decide("Bash", LINE)
    asked = await desk.answer()
    await desk.decide("Bash", LINE)
    assert (await desk.request(asked.id)).state == "used, result unknown"
    assert await desk.record("Bash", LINE, kind=ended.kind, duration_ms=20, **ended.facts)
    assert (await desk.request(asked.id)).result == ended.result
    assert not await desk.record("Bash", LINE, kind=ended.kind, **ended.facts), "once"
    async with desk.controller() as controller:
        entries = [each async for each in audit.entries(controller.store)]
    assert [each["step"] for each in entries] == ["asked", "approved", "claimed", ended.result]


async def test_the_result_of_a_call_that_nobody_was_asked_about_is_not_recorded(desk: HookDesk) -> None:
    await desk.decide("Bash", {"command": "git status"})
    assert not await desk.record("Bash", {"command": "git status"}, tool_response="clean")


async def test_the_result_is_found_without_an_id_of_the_client(tmp_path: Path) -> None:
    desk = HookDesk(tmp_path, client=replace(CLAUDE, fields=replace(CLAUDE.fields, call_ids=())))
    await desk.decide("Bash", LINE)
    asked = await desk.answer(YES)
    await desk.decide("Bash", LINE)
    assert await desk.record("Bash", LINE, tool_response="done")
    assert (await desk.request(asked.id)).result == "returned"
