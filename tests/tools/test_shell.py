"""The shell tool runs what was judged and shown, where and with what it was shown, or nothing."""

import asyncio
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.people import YES

from sayso import ApprovalBlocked, ApprovalController, ApprovalDecision, ApprovalDenied, ApprovalRequest, Policy
from sayso.core.model import AuditEntry
from sayso.errors import ConfigurationError, PolicyError, ToolError
from sayso.tools.exec import confine
from sayso.tools.exec.processes import ProcessLimits
from sayso.tools.shell import ShellTool

Change = Callable[[], object]


class Bench:
    """A folder to work in, with a program of its own, the tool, and somebody who answers."""

    def __init__(self, base: Path, **shell: Any) -> None:
        self.base = base
        self.work, self.bin = base / "work", base / "bin"
        self.work.mkdir()
        self.bin.mkdir()
        self.program("greet", 'echo "hello $1 from $PWD"')
        rules = [
            {"pattern": "echo", "approval": "none"},
            {"pattern": "env", "approval": "none"},
            {"pattern": "cat", "approval": "none"},
            {"pattern": "greet", "approval": "required"},
            {"pattern": "rm", "approval": "blocked"},
        ]
        self.policy = Policy.from_dict(
            {
                "default": "blocked",
                "sandbox": {"zones": {"work": {"root": "work"}}},
                "shell": {"default": "required", "rules": rules, "folder": "work", **shell},
            },
            base=base,
        )
        self.seen: list[ApprovalRequest] = []
        self.meanwhile: Change = lambda: None
        self.controller = ApprovalController(policy=self.policy, approval_callback=self._asked)
        self.tool = ShellTool(self.policy, limits=ProcessLimits(seconds=20))

    def program(self, name: str, script: str) -> Path:
        path = self.bin / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return path

    def _asked(self, request: ApprovalRequest) -> ApprovalDecision:
        self.seen.append(request)
        self.meanwhile()
        return YES

    async def run(self, command: str) -> str:
        with self.controller.activated():
            return await self.tool.functions[0](command)


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    monkeypatch.setenv("PATH", f"{bench.bin}:{os.environ['PATH']}")
    yield bench
    bench.tool.close()


async def test_a_plain_command_runs_without_a_shell_and_tells_exit_code_and_both_streams(bench: Bench) -> None:
    assert await bench.run("echo 'two  words' '$HOME'") == "exit code 0\nstdout:\ntwo  words $HOME\n"
    told = await bench.run("cat /does/not/exist")
    assert told.startswith("exit code 1\nstderr:\n")
    assert bench.seen == []


async def test_a_line_of_several_commands_runs_in_bash_with_everything_that_was_judged(bench: Bench) -> None:
    assert await bench.run("echo one && echo two | cat") == "exit code 0\nstdout:\none\ntwo\n"
    assert bench.seen == []


@pytest.mark.proves("R38", "H13")
async def test_what_the_rules_block_never_starts(bench: Bench) -> None:
    (bench.work / "a").touch()
    with pytest.raises(ApprovalBlocked):
        await bench.run("echo x; rm a")
    assert (bench.work / "a").exists()


async def test_whoever_is_asked_sees_the_parts_that_ask_the_program_and_the_folder(bench: Bench) -> None:
    told = await bench.run("greet bob")
    assert told == f"exit code 0\nstdout:\nhello bob from {bench.work}\n"
    request = bench.seen[0]
    assert request.metadata is not None
    assert request.metadata["program"] == str(bench.bin / "greet")
    assert request.metadata["folder"] == str(bench.work)
    assert request.metadata["runs"] == "directly"
    assert request.metadata["parts"], "what the judge has to say is still there"
    shown = request.presentation
    assert shown is not None
    assert shown.content == (
        f"ask greet bob  (`greet` is 'required')\n\nruns {bench.bin}/greet directly, in {bench.work}"
    )


async def test_redirections_are_shown_as_what_they_write(bench: Bench) -> None:
    await bench.run("echo x > out.txt; greet a")
    assert (bench.work / "out.txt").read_text() == "x\n"
    request = bench.seen[0]
    assert request.metadata is not None
    assert request.metadata["writes"] == ["out.txt"]
    assert request.presentation is not None
    assert request.presentation.content is not None
    lines = request.presentation.content.splitlines()
    assert "ask echo x > out.txt  (it writes to 'out.txt')" in lines
    assert "    echo x > out.txt  (`echo` is 'none')" in lines
    assert "writes out.txt" in lines
    assert f"starts {bench.bin}/greet" in lines


async def test_the_environment_is_cleaned_of_keys_and_of_what_steers_programs(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI_API_KEY", "BASH_ENV", "LD_PRELOAD", "GIT_DIR", "PYTHONSTARTUP"):
        monkeypatch.setenv(name, "sly")
    told = await bench.run("env")
    assert "sly" not in told
    assert f"PATH={bench.bin}:" in told


async def test_a_line_that_runs_too_long_is_ended_with_everything_that_it_started(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    with ShellTool(bench.policy, limits=ProcessLimits(seconds=0.2, grace_seconds=0.1)) as tool:
        bench.tool.close()
        bench.tool = tool
        assert await bench.run("sleep 1000 | cat") == "it was ended because it ran longer than 0.2 seconds"


async def test_a_cancelled_call_leaves_no_program_running(bench: Bench) -> None:
    pipe = bench.work / "pipe"
    os.mkfifo(pipe)
    running = asyncio.create_task(bench.run("echo started > pipe; sleep 1000 > pipe"))
    reader = await asyncio.to_thread(pipe.open)  # until the program opens it too
    assert await asyncio.to_thread(reader.readline) == "started\n"
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await asyncio.to_thread(reader.read) == "", "nobody holds the other end any more"
    reader.close()


class TestWhatWasApprovedIsWhatRuns:
    """Somebody changes one thing between the answer and the call; each is refused."""

    @pytest.mark.proves("H2")
    async def test_another_program_of_the_same_name_is_refused(self, bench: Bench) -> None:
        bench.meanwhile = lambda: bench.program("greet", "touch sly")
        with pytest.raises(ApprovalDenied, match="not what was asked about"):
            await bench.run("greet bob")
        assert list(bench.work.iterdir()) == []

    async def test_a_program_that_comes_first_in_the_path_meanwhile_is_refused(
        self, bench: Bench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        other = bench.base / "other"
        other.mkdir()

        def change() -> None:
            shutil.copy(bench.bin / "greet", other)
            monkeypatch.setenv("PATH", f"{other}:{os.environ['PATH']}")

        bench.meanwhile = change
        with pytest.raises(ApprovalDenied):
            await bench.run("greet bob")

    async def test_another_environment_is_refused(self, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
        bench.meanwhile = lambda: monkeypatch.setenv("LANG", "tlh")
        with pytest.raises(ApprovalDenied):
            await bench.run("greet bob")

    async def test_another_folder_of_the_same_name_is_refused(self, bench: Bench) -> None:
        def change() -> None:
            bench.work.rename(bench.base / "moved")
            bench.work.mkdir()

        bench.meanwhile = change
        with pytest.raises(ToolError, match="is no longer the folder that it was"):
            await bench.run("greet bob > out.txt")
        assert [*bench.work.iterdir(), *(bench.base / "moved").iterdir()] == []

    async def test_other_words_are_refused(self, bench: Bench) -> None:
        with pytest.raises(ConfigurationError, match="only behind a controller"):
            await bench.tool.shell("echo x")

    async def test_what_changes_after_everything_else_was_checked_is_refused_too(self, bench: Bench) -> None:
        def change(entry: AuditEntry) -> None:
            if entry.step == "claimed":
                bench.program("greet", "touch sly")

        bench.controller = ApprovalController(policy=bench.policy, approval_callback=lambda _: YES, hooks=[change])
        with pytest.raises(ToolError, match="changed after it was approved"):
            await bench.run("greet bob")
        assert list(bench.work.iterdir()) == []


@pytest.mark.parametrize(
    ("shell", "sentence"),
    [
        ({"folder": "bin"}, "is in no zone"),
        ({"folder": "nowhere"}, "cannot be used: No such file"),
        ({"network": True}, "set `shell.confine` too"),
        ({"confine": "yes"}, "confine"),
    ],
)
def test_a_policy_that_cannot_be_kept_is_one_clear_sentence(
    tmp_path: Path, shell: dict[str, Any], sentence: str
) -> None:
    with pytest.raises((ConfigurationError, PolicyError), match=sentence):
        Bench(tmp_path, **shell)


def test_a_shell_without_rules_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="no `shell` rules"):
        ShellTool(Policy({}))
    with pytest.raises(ConfigurationError, match=r"^'sayso.yaml' is not a Policy; pass load_policy\('sayso.yaml'\)$"):
        ShellTool("sayso.yaml")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def test_a_variable_that_steers_programs_is_not_passed_on(bench: Bench) -> None:
    with pytest.raises(ConfigurationError, match="LD_PRELOAD"):
        ShellTool(bench.policy, environment=["LD_PRELOAD"])


class TestConfined:
    """`shell.confine` is kept, or the tool is refused: never silently skipped."""

    @pytest.fixture
    def confined(self, tmp_path: Path) -> Iterator[Bench]:
        if confine.unavailable_reason() is not None:
            with pytest.raises(ConfigurationError, match=r"shell\.confine.*cannot be confined"):
                Bench(tmp_path, confine=True)
            pytest.fail(f"bubblewrap has to work for the tests: {confine.unavailable_reason()}")
        bench = Bench(tmp_path, confine=True)
        yield bench
        bench.tool.close()

    async def test_it_sees_its_zones_and_nothing_else_of_the_machine(self, confined: Bench) -> None:
        (confined.base / "key.txt").write_text("hush")
        (confined.work / "a.txt").write_text("seen")
        assert "seen" in await confined.run("cat a.txt")
        assert "hush" not in await confined.run(f"cat {confined.base}/key.txt")
        await confined.run("echo made > made.txt")
        assert (confined.work / "made.txt").read_text() == "made\n"
        assert confined.seen[-1].metadata is not None
        assert confined.seen[-1].metadata["confined"] is True

    async def test_what_programs_obey_cannot_be_changed_in_a_zone(self, confined: Bench) -> None:
        hooks = confined.work / ".git/hooks"
        hooks.mkdir(parents=True)
        (confined.work / ".envrc").write_text("mine")
        await confined.run("bash -c 'touch .git/hooks/pre-commit .git/commondir; echo sly > .envrc'")
        assert list(hooks.iterdir()) == []
        assert not (confined.work / ".git/commondir").exists()
        assert (confined.work / ".envrc").read_text() == "mine"
