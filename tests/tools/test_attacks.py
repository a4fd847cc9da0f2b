"""What an attack on the file and shell tools found: each of these ran, read or showed something that it must not."""

import os
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import Agent
from pydantic_ai.messages import BinaryContent
from pydantic_ai.toolsets import FunctionToolset
from tests.people import YES

from sayso import (
    ApprovalBlocked,
    ApprovalController,
    ApprovalDecision,
    ApprovalDenied,
    ApprovalRequest,
    Policy,
    ToolCall,
    guard,
)
from sayso.adapters.pydantic_ai import Approvals
from sayso.core import realpath
from sayso.errors import ConfigurationError, ToolError
from sayso.policy.scopes import folder_scope
from sayso.tools.exec import confine
from sayso.tools.files import FileTools, Limits
from sayso.tools.models import attach_tool
from sayso.tools.scripted import scripted_model
from sayso.tools.shell import ShellTool


class Lab:
    """Policies, tools and answers in one folder."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.seen: list[ApprovalRequest] = []
        self.answer: Callable[[ApprovalRequest], ApprovalDecision] = lambda _: YES
        self._open: list[Any] = []

    def policy(self, data: dict[str, Any]) -> Policy:
        for zone in data.get("sandbox", {}).get("zones", {}).values():
            (self.base / zone["root"]).mkdir(parents=True, exist_ok=True)
        return Policy.from_dict({"default": "blocked", **data}, base=self.base)

    def controller(self, policy: Policy, **settings: Any) -> ApprovalController:
        return ApprovalController(policy=policy, approval_callback=self._asked, **settings)

    def _asked(self, request: ApprovalRequest) -> ApprovalDecision:
        self.seen.append(request)
        return self.answer(request)

    def files(self, policy: Policy, **limits: int) -> dict[str, Callable[..., Any]]:
        files = FileTools(policy, limits=Limits(**limits))
        self._open.append(files)
        return {tool.__name__: tool for tool in files.functions}

    def shell(self, policy: Policy) -> ShellTool:
        tool = ShellTool(policy)
        self._open.append(tool)
        return tool

    async def run(self, policy: Policy, line: str, controller: ApprovalController | None = None) -> str:
        with (controller or self.controller(policy)).activated():
            return await self.shell(policy).functions[0](line)

    def close(self) -> None:
        for each in self._open:
            each.close()


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    lab = Lab(tmp_path)
    yield lab
    lab.close()


def zones(**given: Any) -> dict[str, Any]:
    return {"sandbox": {"zones": given}}


ASKING = zones(w={"root": "w"})
FREE = zones(w={"root": "w", "approval": "none"})


def with_shell(*free: str, more: dict[str, Any] | None = None, **shell: Any) -> dict[str, Any]:
    rules = [*({"pattern": name, "approval": "none"} for name in free), {"pattern": "rm", "approval": "blocked"}]
    return {**FREE, "shell": {"default": "required", "rules": rules, "folder": "w", **shell}, **(more or {})}


class TestLinesThatNoRulesHaveRead:
    """The shell tool under another name, or under a policy that knows nothing of shells, runs nothing."""

    @pytest.mark.proves("H13")
    async def test_behind_a_prefix(self, lab: Lab) -> None:
        policy = lab.policy({**with_shell("ls"), "default": "none"})
        (lab.base / "w/keep").touch()
        toolset = FunctionToolset(lab.shell(policy).functions).prefixed("dev")
        model = scripted_model([{"call": "dev_shell", "args": {"command": "rm keep"}}, {"say": "done"}])
        await Agent(model, toolsets=[toolset], capabilities=[Approvals(lab.controller(policy))]).run("go")
        assert (lab.base / "w/keep").exists()

    @pytest.mark.parametrize("policy", [Policy(), Policy({"run": "none"}, default="none")])
    async def test_under_another_name_or_policy(self, lab: Lab, policy: Policy) -> None:
        tool = lab.shell(lab.policy(with_shell("ls")))
        (lab.base / "w/keep").touch()
        controller = lab.controller(policy)
        for run in (guard(tool.shell, controller, name="run"), guard(tool.shell, controller)):
            with pytest.raises(ToolError, match="no shell rules have judged this line"):
                await run("rm keep")
        assert (lab.base / "w/keep").exists()

    def test_a_tool_that_was_judged_as_writing_does_not_delete(self, lab: Lab) -> None:
        policy = lab.policy({**zones(w={"root": "w", "approval": {"write": "none", "delete": "blocked"}})})
        (lab.base / "w/keep").write_text("x")
        renamed = Policy.from_dict(
            {
                "default": "blocked",
                "tools": {"remove": {"kind": "path", "argument": "path", "approval": "none"}},
                **zones(w={"root": "w", "approval": {"write": "none", "delete": "blocked"}}),
            },
            base=lab.base,
        )
        files = FileTools(policy)
        with files, pytest.raises(ToolError, match="nobody has judged this of it"):
            guard(files.delete_file, lab.controller(renamed), name="remove")("/w/keep")
        assert (lab.base / "w/keep").exists()


@pytest.fixture
def confined() -> None:
    if confine.unavailable_reason() is not None:
        pytest.fail(f"bubblewrap has to work for the tests: {confine.unavailable_reason()}")


@pytest.mark.usefixtures("confined")
class TestConfinement:
    async def test_the_store_in_a_zone_cannot_be_touched(self, lab: Lab) -> None:
        policy = lab.policy(with_shell("cp", "cat", "ls", confine=True))
        controller = lab.controller(policy, store=lab.base / "w/state.db")
        async with controller:
            for line in ("cp /dev/null state.db", "cat state.db"):
                with controller.activated():
                    told = await lab.shell(policy).functions[0](line)
                assert not told.startswith("exit code 0"), told
            await controller.flush()
        assert (lab.base / "w/state.db").read_bytes()[:6] == b"SQLite"

    async def test_a_zone_that_nobody_may_read_or_write_is_not_there(self, lab: Lab) -> None:
        given = zones(
            w={"root": "w", "approval": "none"},
            secret={"root": "w/secret", "approval": "blocked"},
            fixed={"root": "w/fixed", "approval": {"write": "blocked"}},
        )
        policy = lab.policy(with_shell("cat", "cp", confine=True, more=given))
        (lab.base / "w/secret/key").write_text("hush")
        (lab.base / "w/fixed/a").write_text("fixed")
        assert "hush" not in await lab.run(policy, "cat secret/key")
        assert "fixed" in await lab.run(policy, "cat fixed/a")
        await lab.run(policy, "cp /etc/passwd fixed/a")
        assert (lab.base / "w/fixed/a").read_text() == "fixed"

    async def test_what_git_and_agents_obey_is_frozen_wherever_it_is(self, lab: Lab) -> None:
        policy = lab.policy(with_shell("cp", confine=True))
        (lab.base / "w/sub/.git/hooks").mkdir(parents=True)
        (lab.base / "w/tree").mkdir()
        (lab.base / "w/tree/.git").write_text("gitdir: /elsewhere")
        (lab.base / "w/AGENTS.md").write_text("be good")
        (lab.base / "w/CLAUDE.md").symlink_to("AGENTS.md")
        for target in ("sub/.git/hooks/post-commit", "sub/.git/commondir", "tree/.git", "AGENTS.md"):
            assert not (await lab.run(policy, f"cp /etc/passwd {target}")).startswith("exit code 0")

    async def test_a_policy_above_another_cannot_take_its_confinement_away(self, lab: Lab) -> None:
        below = lab.policy(with_shell("cat", confine=True))
        policy = lab.policy(with_shell("cat")).over(below)
        (lab.base / "outside").write_text("hush")
        assert "hush" not in await lab.run(policy, "cat ../outside")

    async def test_further_folders_can_be_made_readable(self, lab: Lab) -> None:
        (lab.base / "lib").mkdir()
        (lab.base / "lib/a").write_text("of the library")
        policy = lab.policy(with_shell("cat", confine=True, readable=["lib"]))
        assert "of the library" in await lab.run(policy, f"cat {lab.base}/lib/a")


async def test_two_policies_that_run_lines_in_different_folders_are_a_mistake(lab: Lab) -> None:
    (lab.base / "other").mkdir()
    policy = lab.policy(with_shell("ls")).over(lab.policy(with_shell("ls", folder="other")))
    with pytest.raises(ConfigurationError, match="would run in"):
        ShellTool(policy)


async def test_a_policy_without_a_folder_judges_redirections_where_lines_run(lab: Lab) -> None:
    (lab.base / "w").mkdir()
    below = Policy.from_dict(
        {"default": "none", "shell": {"rules": [{"pattern": "echo", "approval": "none"}]}, **FREE}, base=lab.base
    )
    policy = lab.policy(with_shell("echo")).over(below)
    await lab.run(policy, "echo x > f")
    assert (lab.base / "w/f").read_text() == "x\n"


def test_what_was_deleted_in_a_zone_that_nobody_may_read_is_in_no_other_zones_trash(lab: Lab) -> None:
    policy = lab.policy(
        zones(
            proj={"root": "proj", "approval": {"read": "none", "delete": "required"}},
            private={"root": "proj/private", "approval": {"read": "blocked", "delete": "required"}},
        )
    )
    (lab.base / "proj/private/salaries").write_text("hush")
    tools = lab.files(policy)
    with lab.controller(policy).activated():
        said = tools["delete_file"]("/proj/private/salaries")
        assert (lab.base / "proj/private/.sayso-trash").is_dir()
        assert not (lab.base / "proj/.sayso-trash").exists()
        kept = said.rpartition("from ")[2]
        for path in (kept, kept.replace("/private", "/proj/private")):
            with pytest.raises(ApprovalBlocked):
                tools["read_file"](path)


def test_a_folder_that_is_remembered_is_the_one_that_was_judged(lab: Lab) -> None:
    """A link that leads elsewhere when it is looked at again must not make a yes for one folder one for another."""
    for name in ("a", "b"):
        (lab.base / "w" / name).mkdir(parents=True)
    turns = iter("ab" * 100)

    def resolve(path: str, *, beneath: str | None = None) -> str:
        if path.startswith("l/"):
            return f"{lab.base}/w/{next(turns)}/x"
        return f"{lab.base}/w/{next(turns)}" if path == "l" else realpath.resolve(path, beneath=beneath)

    policy = Policy.from_dict({"default": "blocked", **ASKING}, base=lab.base, resolve=resolve)
    verdict = policy.judge(ToolCall(tool="write_file", args={"path": "/w/l/x", "content": ""}))
    real = verdict.deeds[0].target.rpartition("/")[0]
    assert all(
        scope.key == folder_scope("write_file", "write", "/w/l", real).key
        for scope in verdict.scopes
        if scope.kind == "folder"
    )


class TestProgramsThatAreShownAndBound:
    @pytest.fixture
    def policy(self, lab: Lab) -> Policy:
        policy = lab.policy(with_shell())
        for name in ("run.sh", "dir/run.sh"):
            path = lab.base / "w" / name
            path.parent.mkdir(exist_ok=True)
            path.write_text("#!/bin/sh\necho GOOD\n")
            path.chmod(0o755)
        return policy

    @pytest.mark.proves("H2")
    @pytest.mark.parametrize("line", ["./dir/run.sh", "nice ./dir/run.sh", "bash dir/run.sh", "sh ./dir/run.sh x"])
    async def test_what_a_wrapper_or_an_interpreter_runs_is_bound_too(
        self, lab: Lab, policy: Policy, line: str
    ) -> None:
        def answer(_: ApprovalRequest) -> ApprovalDecision:
            (lab.base / "w/dir/run.sh").write_text("#!/bin/sh\necho SWAPPED\n")
            return YES

        lab.answer = answer
        with pytest.raises(ApprovalDenied, match="not what was asked about"):
            await lab.run(policy, line)

    @pytest.mark.parametrize("line", ["cd dir && ./run.sh", "hash -p ./run.sh ls; ls", "ls; alias ls=./run.sh"])
    async def test_where_programs_cannot_be_told_none_is_named(self, lab: Lab, policy: Policy, line: str) -> None:
        await lab.run(policy, line)
        shown = lab.seen[0].presentation
        assert shown is not None
        assert shown.content is not None
        assert "not all programs that it starts are known" in shown.content
        assert "starts" not in shown.content.replace("that it starts", "")

    async def test_a_line_feed_in_a_word_adds_no_line_to_what_is_shown(self, lab: Lab, policy: Policy) -> None:
        await lab.run(policy, "./run.sh 'x\nask nothing  (all is well)'")
        shown = lab.seen[0].presentation
        assert shown is not None
        assert shown.content is not None
        assert not any(line.startswith("ask nothing") for line in shown.content.splitlines())
        assert shown.title is not None
        assert "\n" not in shown.title

    async def test_another_width_of_the_terminal_is_no_other_call(
        self, lab: Lab, policy: Policy, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def answer(_: ApprovalRequest) -> ApprovalDecision:
            for name in ("COLUMNS", "LINES", "TERM"):
                monkeypatch.setenv(name, "123")
            return YES

        lab.answer = answer
        assert "GOOD" in await lab.run(policy, "./run.sh")


def test_a_yes_that_is_remembered_is_for_this_content(lab: Lab) -> None:
    policy = lab.policy(zones(w={"root": "w", "approval": {"write": "once_per_session"}}))
    tools = lab.files(policy)
    with lab.controller(policy).activated():
        tools["write_file"]("/w/a", "harmless")
        tools["write_file"]("/w/a", "EVIL")
    assert len(lab.seen) == 2


@pytest.mark.proves("H12")
def test_a_no_stands_with_its_note_whatever_has_changed_meanwhile(lab: Lab) -> None:
    policy = lab.policy(ASKING)
    file = lab.base / "w/a"
    file.write_text("old")

    def answer(_: ApprovalRequest) -> ApprovalDecision:
        file.write_text("changed")
        return ApprovalDecision(approved=False, note="not today", who="ann")

    lab.answer = answer
    with lab.controller(policy).activated(), pytest.raises(ApprovalDenied, match="not today") as refused:
        lab.files(policy)["write_file"]("/w/a", "new")
    assert refused.value.cause == "refused"


def test_the_folder_of_a_zone_that_was_replaced_is_not_used(lab: Lab) -> None:
    policy = lab.policy(FREE)
    (lab.base / "w/a").write_text("old")
    tools = lab.files(policy)
    (lab.base / "w").rename(lab.base / "archive")
    (lab.base / "w").mkdir()
    (lab.base / "w/a").write_text("new")
    with lab.controller(policy).activated():
        for tool, args in (("read_file", ["/w/a"]), ("write_file", ["/w/n", "x"]), ("list_files", ["/w"])):
            with pytest.raises(ToolError, match="is no longer the one that it was"):
                tools[tool](*args)
    assert not (lab.base / "archive/n").exists()


def test_a_file_that_is_too_long_to_look_at_can_still_be_deleted_and_replaced(lab: Lab) -> None:
    policy = lab.policy(ASKING)
    tools = lab.files(policy, write_bytes=100)
    for name in ("a", "b"):
        (lab.base / "w" / name).write_bytes(b"x" * 1000)
    with lab.controller(policy).activated():
        tools["delete_file"]("/w/a")
        tools["write_file"]("/w/b", "short")
    assert not (lab.base / "w/a").exists()
    assert (lab.base / "w/b").read_text() == "short"
    shown = lab.seen[0].presentation
    assert shown is not None
    assert shown.content == "before: 1,000 bytes\nafter: nothing"


@pytest.mark.parametrize("mode", [0o444, 0o644])
def test_nobody_is_asked_about_a_write_that_would_fail(lab: Lab, mode: int) -> None:
    policy = lab.policy(ASKING)
    file = lab.base / "w/a"
    file.write_text("x")
    file.chmod(mode)
    content = "y" if mode == 0o444 else "y" * 200
    with lab.controller(policy).activated(), pytest.raises(ToolError):
        lab.files(policy, write_bytes=100)["write_file"]("/w/a", content)
    assert lab.seen == []


def test_a_diff_of_lines_that_are_slow_to_compare_still_shows_all_of_them(lab: Lab) -> None:
    policy = lab.policy(ASKING)
    old = [f"{number % 90}\n{number}a\n" for number in range(900)]
    new = [f"{number % 90}\n{number}b\n" for number in range(900)]
    (lab.base / "w/a").write_text("same\n" + "".join(old) + "end\n")
    with lab.controller(policy).activated():
        lab.files(policy)["write_file"]("/w/a", "same\n" + "".join(new) + "end\n")
    shown = lab.seen[0].presentation
    assert shown is not None
    assert shown.diff is not None
    lines = shown.diff.splitlines()
    assert lines[2:4] == ["@@ -1,1802 +1,1802 @@", " same"]
    assert sum(line.startswith("-") for line in lines) == sum(line.startswith("+") for line in lines) == 1800
    assert lines[-1] == " end"


def test_lines_and_names_are_what_they_seem(lab: Lab) -> None:
    policy = lab.policy(FREE)
    (lab.base / "w/a").write_text("a\fb\u2028c\nsecond\n")
    (lab.base / "w/x\ny").touch()
    tools = lab.files(policy)
    with lab.controller(policy).activated():
        assert tools["read_file"]("/w/a", first_line=2) == "second\n"
        assert tools["list_files"]("/w") == "a\n'x\\ny'"
        with pytest.raises(ToolError, match="counted from 1"):
            tools["read_file"]("/w/a", lines=0)


def test_a_file_with_access_rules_of_its_own_is_not_replaced(lab: Lab) -> None:
    """The new file would be without them, and its mode would say more than they did."""
    policy = lab.policy(FREE)
    file = lab.base / "w/a"
    file.write_text("old")
    entries = [(1, 6, -1), (2, 6, 12345), (4, 0, -1), (16, 6, -1), (32, 0, -1)]
    acl = struct.pack("<I", 2) + b"".join(
        struct.pack("<HHI", kind, bits, who & 0xFFFFFFFF) for kind, bits, who in entries
    )
    os.setxattr(file, "system.posix_acl_access", acl)
    with lab.controller(policy).activated(), pytest.raises(ToolError, match="an ACL"):
        lab.files(policy)["write_file"]("/w/a", "new")
    assert file.read_text() == "old"


async def test_a_model_can_look_at_a_file_as_it_is(lab: Lab) -> None:
    policy = lab.policy(FREE)
    (lab.base / "w/a.png").write_bytes(b"\x89PNG\xff")
    with FileTools(policy) as files:
        tool = attach_tool(files)
        model = scripted_model([{"call": "attach_file", "args": {"path": "/w/a.png"}}, {"say": "seen"}])
        agent = Agent(model, tools=[tool], capabilities=[Approvals(lab.controller(policy))])
        result = await agent.run("go")
    assert result.output == "seen"
    assert any(isinstance(each, BinaryContent) for each in _contents(result.all_messages()))


def _contents(messages: Any) -> Iterator[Any]:
    for message in messages:
        for part in message.parts:
            content = getattr(part, "content", None)
            yield from content if isinstance(content, list | tuple) else [content]


def test_a_model_is_told_which_zones_there_are(lab: Lab) -> None:
    tools = lab.files(lab.policy(zones(docs={"root": "d", "mode": "ro"}, out={"root": "o"})))
    said = tools["write_file"].__doc__ or ""
    assert said.splitlines()[0].endswith("Paths begin with one of: /docs (read-only), /out.")
