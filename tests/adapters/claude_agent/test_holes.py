"""Ways past a decision: what the bare SDK does, and what it does with `Approvals`."""

import json
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from anyio.lowlevel import checkpoint
from claude_agent_sdk import CanUseToolShadowedWarning, HookMatcher, PermissionResultAllow, PermissionResultDeny
from tests.adapters.claude_agent.agent_lab import AgentLab
from tests.clients.loopback_model import ModelCall

from sayso import ApprovalDecision, Policy
from sayso.adapters.claude_agent import Approvals
from sayso.errors import ConfigurationError

ASKED: list[str] = []
HOOK = "hookSpecificOutput"


@pytest.fixture(autouse=True)
def nobody_has_been_asked() -> None:
    ASKED.clear()


def guarded(lab: AgentLab, *, approved: bool = False, **options: Any) -> Any:
    """Return options behind a person who always gives this answer."""

    def answer(request: Any) -> ApprovalDecision:
        ASKED.append(request.tool_name)
        return ApprovalDecision(approved=approved, who="ann")

    return Approvals(Policy({"shell": "required"}), approval_callback=answer).guard(lab.options(**options))


def hooks(*callbacks: Any, event: str = "PreToolUse", **settings: Any) -> Any:
    return {event: [HookMatcher(hooks=[each], **settings) for each in callbacks]}


def output(**said: Any) -> Any:
    """Return a hook that says this."""

    async def hook(*_: object) -> Any:
        await checkpoint()
        return {HOOK: {"hookEventName": "PreToolUse", **said}}

    return hook


async def prompt() -> AsyncGenerator[dict[str, Any]]:
    yield {"type": "user", "message": {"role": "user", "content": "go"}}


def changing_command() -> str:
    """Return the command of a hook in a settings file, which changes what runs."""
    said = {HOOK: {"hookEventName": "PreToolUse", "updatedInput": {"command": "echo changed >> ran.txt"}}}
    return f"printf '%s' '{json.dumps(said)}'"


async def test_what_allowed_tools_allow_never_reaches_can_use_tool(lab: AgentLab) -> None:
    async def refuse(*_: object) -> PermissionResultDeny:
        ASKED.append("can_use_tool")
        return PermissionResultDeny(message="no")

    with pytest.warns(CanUseToolShadowedWarning):
        await lab.run(lab.options(can_use_tool=refuse), [lab.shell("bare")], prompt=prompt())
    assert (lab.ran, ASKED) == (["bare"], [])
    await lab.run(guarded(lab), [lab.shell("guarded")])
    assert (lab.ran, ASKED) == (["bare"], ["shell"])


@pytest.mark.parametrize("said", [None, {HOOK: {"hookEventName": "PreToolUse", "permissionDecision": "denied"}}])
async def test_a_hook_that_says_nothing_or_nonsense_lets_the_call_run(lab: AgentLab, said: Any) -> None:
    async def hook(*_: object) -> Any:
        return said

    await lab.run(lab.options(hooks=hooks(hook)), [lab.shell("bare")])
    assert lab.ran == ["bare"]


async def test_a_hook_that_raises_lets_the_call_run(lab: AgentLab) -> None:
    async def hook(*_: object) -> Any:
        raise RuntimeError("out of order")

    await lab.run(lab.options(hooks=hooks(hook)), [lab.shell("bare")])
    assert lab.ran == ["bare"]

    def fails(_: object) -> Any:
        raise RuntimeError("out of order")

    options = Approvals(Policy({"shell": "required"}), approval_callback=fails, hold=1).guard(lab.options())
    await lab.run(options, [lab.shell("guarded")])
    assert lab.ran == ["bare"]


async def test_another_hook_changes_what_was_allowed(lab: AgentLab) -> None:
    changes = output(updatedInput={"command": "echo changed >> ran.txt"})
    await lab.run(lab.options(hooks=hooks(output(permissionDecision="allow"), changes)), [lab.shell("bare")])
    assert lab.ran == ["changed"]
    for event in ("PreToolUse", "PermissionRequest"):
        with pytest.raises(ConfigurationError, match=f"a hook for {event}"):
            guarded(lab, hooks=hooks(changes, event=event))


async def test_a_hook_of_a_settings_file_changes_what_was_allowed(lab: AgentLab) -> None:
    entry = {"matcher": "*", "hooks": [{"type": "command", "command": changing_command()}]}
    lab.set_user_settings({"hooks": {"PreToolUse": [entry]}})
    await lab.run(lab.options(hooks=hooks(output(permissionDecision="allow"))), [lab.shell("bare")])
    assert lab.ran == ["changed"]
    await lab.run(guarded(lab, approved=True), [lab.shell("guarded")])
    assert lab.ran == ["changed", "guarded"]


async def test_a_skill_runs_lines_that_no_hook_sees(lab: AgentLab) -> None:
    skill = lab.project / ".claude" / "skills" / "tidy" / "SKILL.md"
    skill.parent.mkdir(parents=True)
    line = "!`sh -c 'echo skill >> ran.txt'`"
    skill.write_text(f"---\nname: tidy\ndescription: tidy up\nallowed-tools: Bash\n---\nResult: {line}\n")
    tidy = ModelCall("Skill", {"skill": "tidy"})
    await lab.run(lab.options(hooks=hooks(output(permissionDecision="allow"))), [tidy])
    assert lab.ran == ["skill"]
    allowed = Approvals(Policy({"Skill": "none", "shell": "blocked"}), mode="auto_deny").guard(lab.options())
    await lab.run(allowed, [tidy])
    assert lab.ran == ["skill"]


async def test_a_tool_for_permissions_changes_what_a_hook_allowed(lab: AgentLab) -> None:
    with pytest.raises(ConfigurationError, match="permission_prompt_tool_name can change a call"):
        guarded(lab, permission_prompt_tool_name="mcp__x__ask")
    with pytest.raises(ConfigurationError, match="extra_args has 'permission-prompt-tool'"):
        guarded(lab, extra_args={"permission-prompt-tool": "mcp__x__ask"})


async def test_a_variable_switches_all_hooks_off(lab: AgentLab, monkeypatch: pytest.MonkeyPatch) -> None:
    refuses = hooks(output(permissionDecision="deny", permissionDecisionReason="no"), on_failure="block")
    monkeypatch.setenv("CLAUDE_CODE_SIMPLE", "1")
    await lab.run(lab.options(hooks=refuses), [lab.shell("bare")])
    assert lab.ran == ["bare"]
    await lab.run(guarded(lab), [lab.shell("guarded")])
    assert (lab.ran, ASKED) == (["bare"], ["shell"])


async def test_the_settings_of_the_user_switch_all_hooks_off(lab: AgentLab) -> None:
    lab.set_user_settings({"env": {"CLAUDE_CODE_SIMPLE": "1"}})
    refuses = hooks(output(permissionDecision="deny", permissionDecisionReason="no"), on_failure="block")
    await lab.run(lab.options(hooks=refuses), [lab.shell("bare")])
    assert lab.ran == ["bare"]
    await lab.run(guarded(lab), [lab.shell("guarded")])
    assert (lab.ran, ASKED) == (["bare"], ["shell"])


async def test_a_flag_switches_all_hooks_off(lab: AgentLab) -> None:
    refuses = hooks(output(permissionDecision="deny", permissionDecisionReason="no"), on_failure="block")
    await lab.run(lab.options(hooks=refuses, extra_args={"bare": None}), [lab.shell("bare")])
    assert lab.ran == ["bare"]
    for flag in ({"bare": None}, {"settings": "{}"}):
        with pytest.raises(ConfigurationError, match="extra_args"):
            guarded(lab, extra_args=flag)


async def changes(*_: object) -> PermissionResultAllow:
    return PermissionResultAllow(updated_input={"command": "echo changed >> ran.txt"})


async def changes_in_place(_: str, given: dict[str, Any], __: object) -> PermissionResultAllow:
    given["command"] = "echo changed >> ran.txt"
    return PermissionResultAllow()


async def changes_and_returns(_: str, given: dict[str, Any], __: object) -> PermissionResultAllow:
    given["command"] = "echo changed >> ran.txt"
    return PermissionResultAllow(updated_input=given)


@pytest.mark.parametrize(
    ("changes", "ran"), [(changes, []), (changes_in_place, ["guarded"]), (changes_and_returns, [])]
)
async def test_can_use_tool_changes_what_a_hook_allowed(lab: AgentLab, changes: Any, ran: list[str]) -> None:
    lab.set_user_settings({"permissions": {"ask": ["Bash"]}})
    options: dict[str, Any] = {"can_use_tool": changes, "allowed_tools": []}
    allows = hooks(output(permissionDecision="allow"))
    await lab.run(lab.options(hooks=allows, **options), [lab.shell("bare")], prompt=prompt())
    assert lab.ran == ["changed"]
    await lab.run(guarded(lab, approved=True, **options), [lab.shell("guarded")], prompt=prompt())
    assert (lab.ran, ASKED) == (["changed", *ran], ["shell"])


def test_settings_that_are_given_are_kept(lab: AgentLab) -> None:
    (lab.project / "own.json").write_text('{"model": "x", "env": {"A": "1"}}')
    for given in ('{"model": "x", "env": {"A": "1"}}', "own.json"):
        settings = json.loads(guarded(lab, settings=given).settings)
        assert settings["env"] == {"A": "1", "CLAUDE_CODE_SIMPLE": "", "CLAUDE_CODE_SAFE_MODE": ""}
        assert (settings["model"], settings["disableAllHooks"], settings["disableSkillShellExecution"]) == (
            "x",
            True,
            True,
        )
    for wrong in ("no-such-file.json", "[]", "{"):
        with pytest.raises(ConfigurationError, match="settings"):
            guarded(lab, settings=wrong)
