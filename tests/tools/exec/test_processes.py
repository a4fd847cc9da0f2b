"""Real programs: what they say, how they end, and that nothing of them is left."""

import asyncio
import errno
import math
import os
import select
import signal
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from sayso.errors import ConfigurationError, ToolError
from sayso.tools.exec.processes import ProcessLimits, ProcessResult, clean_environment, find_program, run_program

WAIT = 30  # seconds until a test that waits for nothing fails

# Two processes that do not end when asked, each with a handle on the pipe `alive`.
STUBBORN = "trap '' TERM; exec 9>alive; (echo b >&9; exec sleep 100) & echo a >&9; wait"

# Waits for signals, in no other process; again and again, since bash can miss one that comes just before it waits.
WAITING = "mkfifo never; exec 8<>never; while :; do read -t 0.1 -u 8; done"


class Pipe:
    """A named pipe that programs of a test hold open: they speak through it, and its end is the death of them all."""

    def __init__(self, folder: Path) -> None:
        os.mkfifo(folder / "alive")
        self.handle = os.open(folder / "alive", os.O_RDONLY | os.O_NONBLOCK)

    async def hear(self, size: int) -> str:
        heard = b""
        with anyio.fail_after(WAIT):
            while len(heard) < size:
                await anyio.wait_readable(self.handle)
                heard += os.read(self.handle, size - len(heard))
        return heard.decode()

    def rest(self) -> str:
        """All that is still said, once nobody is left to say more."""
        said = b""
        while select.select([self.handle], [], [], WAIT)[0]:
            chunk = os.read(self.handle, 1000)
            if not chunk:
                return said.decode()
            said += chunk
        raise AssertionError("somebody still holds the pipe")


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[int]:
    handle = os.open(tmp_path, os.O_RDONLY)
    yield handle
    os.close(handle)


@pytest.fixture
def alive(tmp_path: Path) -> Iterator[Pipe]:
    pipe = Pipe(tmp_path)
    yield pipe
    os.close(pipe.handle)


@pytest.fixture(params=["here", "without /proc and handles on processes"])
def system(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """This system, and one that has less, as macOS."""

    def refused(number: int) -> int:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    def absent(path: str) -> bool:
        return False

    if request.param != "here":
        monkeypatch.setattr(os.path, "lexists", absent)
        monkeypatch.setattr(os, "pidfd_open", refused, raising=False)


async def bash(script: str, folder: int, **limits: float) -> ProcessResult:
    return await started("/bin/bash", "bash", "-c", script, folder=folder, limits=ProcessLimits(**limits))  # pyright: ignore[reportArgumentType]


async def started(program: str, *argv: str, folder: int, limits: ProcessLimits | None = None) -> ProcessResult:
    with anyio.fail_after(WAIT):
        return await run_program(
            argv,
            program=program,
            folder=folder,
            environment=clean_environment(os.environ),
            limits=limits or ProcessLimits(seconds=WAIT),
        )


@pytest.mark.usefixtures("system")
async def test_the_exit_code_and_both_streams_are_told(folder: int) -> None:
    ended = await bash("echo out; echo err >&2; exit 3", folder)
    assert (ended.exit_code, ended.signal, ended.timed_out, ended.lingered) == (3, None, False, False)
    assert (ended.stdout, ended.stderr) == ("out\n", "err\n")


async def test_the_program_keeps_the_name_that_it_was_called_by(folder: int) -> None:
    assert (await started("/bin/sh", "other", "-c", "echo $0", folder=folder)).stdout == "other\n"


def test_a_program_has_no_input() -> None:
    script = (
        "import asyncio, os; from sayso.tools.exec.processes import ProcessLimits, run_program\n"
        "handle = os.open('/', os.O_RDONLY)\n"
        "cat = run_program(['cat'], program='/bin/cat', folder=handle, environment={}, limits=ProcessLimits())\n"
        "ended = asyncio.run(cat)\n"
        "print(ended.exit_code, repr(ended.stdout))"
    )
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, input=b"for the host", capture_output=True, check=True, timeout=WAIT)
    assert done.stdout == b"0 ''\n"


@pytest.mark.usefixtures("system")
async def test_death_by_a_signal_is_no_exit_code(folder: int) -> None:
    ended = await bash("kill -USR1 $$", folder)
    assert (ended.exit_code, ended.signal, ended.timed_out) == (None, "SIGUSR1", False)


async def test_a_signal_without_a_name_is_told_by_its_number(folder: int) -> None:
    for number in sorted(signal.valid_signals() - set(signal.Signals)):  # Linux has some, macOS has none
        assert (await bash(f"kill -{number:d} $$", folder)).signal == f"signal {number:d}"


async def test_a_hundred_megabytes_on_each_stream_are_read_and_hardly_kept(folder: int) -> None:
    tracemalloc.start()
    try:
        ended = await bash("yes | head -c 100000000 & yes e | head -c 100000000 >&2; wait", folder, output_bytes=1000)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert ended.exit_code == 0
    assert ended.stdout == "y\n" * 250 + "\n[99999000 bytes left out]\n" + "y\n" * 250
    assert ended.stderr == "e\n" * 250 + "\n[99999000 bytes left out]\n" + "e\n" * 250
    assert peak < 5_000_000


async def test_output_as_long_as_the_limit_is_whole(folder: int) -> None:
    assert (await bash("printf 123456789", folder, output_bytes=9)).stdout == "123456789"
    assert (await bash("printf 1234567890", folder, output_bytes=9)).stdout == "12345\n[1 bytes left out]\n7890"
    assert (await bash("printf 1234567890", folder, output_bytes=0)).stdout == "\n[10 bytes left out]\n"


@pytest.mark.parametrize("limit", range(40, 48))
async def test_a_cut_never_breaks_a_character(folder: int, limit: int) -> None:
    ended = await bash("printf 'a🙂é%.0s' {1..100}", folder, output_bytes=limit)
    head, note, tail = ended.stdout.split("\n")
    assert "�" not in ended.stdout
    left_out = int(note.strip("[]").split()[0])
    assert len(head.encode()) + left_out + len(tail.encode()) == 700


async def test_broken_bytes_are_visible(folder: int) -> None:
    assert (await bash(r"printf 'a\xffb'", folder)).stdout == "a�b"


@pytest.mark.usefixtures("system")
async def test_out_of_time_the_whole_tree_is_killed_though_it_does_not_want_to_end(folder: int, alive: Pipe) -> None:
    ended = await bash(STUBBORN, folder, seconds=2, grace_seconds=0.1)
    assert (ended.exit_code, ended.signal, ended.timed_out) == (None, "SIGKILL", True)
    assert sorted(alive.rest()) == ["\n", "\n", "a", "b"]


async def test_out_of_time_a_program_may_say_its_last_words_but_has_no_exit_code(folder: int) -> None:
    script = f"trap 'echo bye; exit 0' TERM; echo hi; {WAITING}"
    ended = await bash(script, folder, seconds=2, grace_seconds=WAIT)
    assert (ended.exit_code, ended.signal, ended.timed_out) == (None, None, True)
    assert ended.stdout == "hi\nbye\n"


async def test_cancelling_a_scope_kills_the_whole_tree(folder: int, alive: Pipe) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: bash(STUBBORN, folder, grace_seconds=0.1))
        assert sorted(await alive.hear(4)) == ["\n", "\n", "a", "b"]
        tasks.cancel_scope.cancel()
    assert alive.rest() == ""


@pytest.mark.usefixtures("system")
async def test_cancelling_a_task_kills_the_whole_tree(folder: int, alive: Pipe) -> None:
    task = asyncio.create_task(bash(STUBBORN, folder, grace_seconds=0.1))
    await alive.hear(4)
    task.cancel()
    with anyio.fail_after(WAIT), pytest.raises(asyncio.CancelledError):
        await task
    assert alive.rest() == ""


async def test_a_task_that_is_cancelled_twice_does_not_wait_for_the_program_to_end_by_itself(
    folder: int, alive: Pipe
) -> None:
    script = f"exec 9>alive; trap 'echo c >&9' TERM; echo a >&9; {WAITING}"
    task = asyncio.create_task(bash(script, folder, grace_seconds=1000))
    assert await alive.hear(2) == "a\n"
    task.cancel()
    assert await alive.hear(2) == "c\n"  # it was asked to end, and is given time
    task.cancel()
    with anyio.fail_after(WAIT), pytest.raises(asyncio.CancelledError):
        await task
    assert alive.rest() == ""


async def test_a_cancelled_program_is_asked_to_end_and_may_say_all_its_last_words(folder: int, alive: Pipe) -> None:
    script = f"exec 9>alive; trap 'head -c 1000000 /dev/zero; echo d >&9; exit' TERM; echo a >&9; {WAITING}"
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: bash(script, folder, grace_seconds=1000))
        assert await alive.hear(2) == "a\n"
        tasks.cancel_scope.cancel()
    assert alive.rest() == "d\n"


async def test_what_is_cancelled_already_does_not_even_try_to_start(folder: int) -> None:
    with anyio.CancelScope() as scope:
        scope.cancel()
        await started("/no/such/program", "x", folder=folder)
    assert scope.cancelled_caught


@pytest.mark.usefixtures("system")
async def test_who_keeps_the_output_open_after_the_end_is_killed_and_told_of(folder: int, alive: Pipe) -> None:
    ended = await bash("exec 9>alive; trap '' TERM; sleep 100 & echo out; exit 5", folder, grace_seconds=1000)
    assert (ended.exit_code, ended.stdout, ended.timed_out, ended.lingered) == (5, "out\n", False, True)
    assert alive.rest() == ""


async def test_who_stays_behind_silently_is_killed_too(folder: int, alive: Pipe) -> None:
    ended = await bash("exec 9>alive; sleep 100 >&- 2>&- & exit 0", folder)
    assert (ended.exit_code, ended.lingered) == (0, False)
    assert alive.rest() == ""


async def test_who_left_the_group_and_keeps_the_output_open_cannot_hold_us_up(folder: int, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "ready")
    os.mkfifo(tmp_path / "end")
    runaway = "import os; os.setsid(); open('ready', 'w').close(); open('end').read()"
    ended = await bash(f'{sys.executable} -c "{runaway}" & cat ready; echo out', folder)
    assert (ended.exit_code, ended.stdout, ended.lingered) == (0, "out\n", True)
    os.close(os.open(tmp_path / "end", os.O_WRONLY))  # it may go now


@pytest.mark.usefixtures("system")
async def test_the_folder_is_the_one_held_whatever_its_path_says_meanwhile(tmp_path: Path) -> None:
    here = tmp_path / "here"
    here.mkdir()
    (here / "who").write_text("the original", encoding="utf-8")
    handle = os.open(here, os.O_RDONLY)
    here.rename(tmp_path / "elsewhere")
    here.mkdir()
    (here / "who").write_text("an impostor", encoding="utf-8")
    try:
        assert (await started("/bin/cat", "cat", "who", folder=handle)).stdout == "the original"
    finally:
        os.close(handle)


async def test_a_handle_only_on_the_path_of_a_folder_is_enough(tmp_path: Path) -> None:
    (tmp_path / "who").touch()
    handle = os.open(tmp_path, getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY)
    try:
        assert (await started("/bin/ls", "ls", folder=handle)).stdout == "who\n"
    finally:
        os.close(handle)


STREAMS_AS_HANDLES = """
import asyncio, os, sys
from sayso.tools.exec.processes import ProcessLimits, run_program

async def main():
    os.close(0)
    handle = os.open(sys.argv[1], os.O_RDONLY)
    os.close(2)
    ended = await run_program(['ls'], program='/bin/ls', folder=handle, environment={}, limits=ProcessLimits())
    print(handle, ended.stdout)

asyncio.run(main())
"""


def test_a_folder_is_entered_also_where_the_standard_streams_of_the_host_are_closed(tmp_path: Path) -> None:
    (tmp_path / "who").touch()
    command = [sys.executable, "-c", STREAMS_AS_HANDLES, str(tmp_path)]
    assert subprocess.run(command, capture_output=True, check=True, timeout=WAIT).stdout == b"0 who\n\n"


async def test_the_environment_is_exactly_what_was_given(folder: int) -> None:
    given = {"ONE": "1", "TWO": "a\nb", "EMPTY": ""}
    program = "/usr/bin/env"
    ended = await run_program(["env", "-0"], program=program, folder=folder, environment=given, limits=ProcessLimits())
    assert ended.stdout == "ONE=1\0TWO=a\nb\0EMPTY=\0"


async def test_no_handle_of_ours_reaches_the_program(folder: int) -> None:
    os.set_inheritable(folder, True)  # noqa: FBT003 - the one argument there is
    ended = await started("/bin/ls", "ls", "/dev/fd/", folder=folder)
    assert ended.stdout.split() == ["0", "1", "2", "3"]  # the last one is the folder that `ls` lists


async def test_fifty_at_once_leave_no_handle_no_task_and_no_dead_process(folder: int) -> None:
    handles, tasks = sorted(os.listdir("/dev/fd")), asyncio.all_tasks()  # noqa: PTH208 - the names, not the paths
    ends = await asyncio.gather(*(bash(f"echo $$; exit {number}", folder) for number in range(50)))
    assert [end.exit_code for end in ends] == list(range(50))
    assert sorted(os.listdir("/dev/fd")) == handles  # noqa: PTH208 - as above
    assert asyncio.all_tasks() == tasks
    for end in ends:
        with pytest.raises(ChildProcessError):
            os.waitpid(int(end.stdout), os.WNOHANG)


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("absent", None, "there is no such program"),
        ("plain", "#!/bin/sh", "it is not executable, or lies in a folder that may not be entered"),
        ("orphan", "#!/no/such/shell", "the interpreter that its first line or its header names does not exist"),
        ("headless", "echo hi", "this machine cannot run such a file; a script needs a first line such as `#!/bin/sh`"),
    ],
)
async def test_what_is_no_program_is_refused_in_one_sentence(
    folder: int, tmp_path: Path, name: str, content: str | None, sentence: str
) -> None:
    program = tmp_path / name
    if content is not None:
        program.write_text(content, encoding="utf-8")
        program.chmod(0o600 if name == "plain" else 0o700)
    before = sorted(os.listdir("/dev/fd"))  # noqa: PTH208 - the names, not the paths
    with pytest.raises(ToolError) as caught:
        await started(str(program), name, folder=folder)
    assert str(caught.value) == f"{str(program)!r} did not start: {sentence}"
    assert sorted(os.listdir("/dev/fd")) == before  # noqa: PTH208 - as above


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        (["true", "x" * 3_000_000], "longer than the system takes"),
        (["true", "a\0b"], "a NUL"),
        (["true", "\ud800"], "an unpaired surrogate"),
        ([], "a command and the absolute path of its program are needed"),
    ],
    ids=["too long", "NUL", "surrogate", "none"],
)
async def test_what_cannot_be_an_argument_is_refused_in_one_sentence(
    folder: int, argv: list[str], sentence: str
) -> None:
    with pytest.raises(ToolError, match=sentence):
        await started("/bin/sh", *argv, folder=folder)


async def test_a_program_is_named_by_its_absolute_path(folder: int, tmp_path: Path) -> None:
    (tmp_path / "tool").write_text("#!/bin/sh", encoding="utf-8")
    (tmp_path / "tool").chmod(0o700)
    with pytest.raises(ToolError, match=r"'\./tool' did not start: .* absolute path"):
        await started("./tool", "tool", folder=folder)


@pytest.mark.usefixtures("system")
async def test_a_handle_that_is_on_no_folder_is_refused_in_one_sentence(tmp_path: Path) -> None:
    handle = os.open("/dev/null", os.O_RDONLY)
    try:
        with pytest.raises(ToolError, match="'/bin/ls' did not start: its folder cannot be entered"):
            await started("/bin/ls", "ls", folder=handle)
    finally:
        os.close(handle)
    with pytest.raises(ToolError, match="'/bin/ls' did not start: its folder cannot be entered"):
        await started("/bin/ls", "ls", folder=handle)


async def test_where_exit_codes_are_thrown_away_nothing_starts(folder: int, tmp_path: Path) -> None:
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        with pytest.raises(ToolError, match="SIGCHLD is ignored"):
            await bash("touch started", folder)
    finally:
        signal.signal(signal.SIGCHLD, before)
    assert not (tmp_path / "started").exists()


@pytest.mark.parametrize("limit", [{"seconds": 0}, {"seconds": math.nan}, {"output_bytes": -1}, {"grace_seconds": -1}])
def test_limits_that_make_no_sense_are_refused(limit: dict[str, float]) -> None:
    with pytest.raises(ConfigurationError, match="limits of a program"):
        ProcessLimits(**limit)  # pyright: ignore[reportArgumentType]


ALWAYS_SET = clean_environment({"PATH": "/bin"}) | {"PATH": "/usr/bin:/bin"}


def test_a_clean_environment_keeps_what_programs_need() -> None:
    needed = {"PATH": "/usr/bin:/bin", "HOME": "/home/a", "LANG": "C", "LC_TIME": "C", "TZ": "UTC", "TERM": "dumb"}
    assert clean_environment(needed) == needed | ALWAYS_SET


@pytest.mark.parametrize(
    "name",
    [
        *(
            "BASH_ENV",
            "ENV",
            "SHELLOPTS",
            "BASHOPTS",
            "PS4",
            "IFS",
            "BASH_FUNC_ls%%",
            "LD_PRELOAD",
            "DYLD_INSERT_LIBRARIES",
        ),
        *("PYTHONPATH", "PYTHONSTARTUP", "NODE_OPTIONS", "PERL5OPT", "GIT_SSH_COMMAND", "MANPAGER", "VISUAL", "EDITOR"),
    ],
)
def test_what_steers_programs_is_never_passed_on_not_even_on_demand(name: str) -> None:
    assert name not in clean_environment({name: "x"})
    with pytest.raises(ConfigurationError, match=r"makes programs run other code"):
        clean_environment({name: "x"}, extra=[name])


def test_the_pager_of_the_host_is_replaced() -> None:
    assert clean_environment({"PAGER": "evil", "GIT_PAGER": "evil"})["PAGER"] == "cat"
    assert clean_environment({"PAGER": "evil", "GIT_PAGER": "evil"})["GIT_PAGER"] == "cat"


def test_git_gets_the_settings_of_the_tool_and_none_of_the_host() -> None:
    host = {"GIT_CONFIG_COUNT": "5", "GIT_CONFIG_KEY_4": "alias.x", "GIT_CONFIG_VALUE_4": "!evil", "GIT_DIR": "evil"}
    given = {name: value for name, value in clean_environment(host).items() if name.startswith("GIT_CONFIG_")}
    assert given == {
        "GIT_CONFIG_COUNT": "2",
        "GIT_CONFIG_KEY_0": "safe.bareRepository",
        "GIT_CONFIG_VALUE_0": "explicit",
        "GIT_CONFIG_KEY_1": "core.fsmonitor",
        "GIT_CONFIG_VALUE_1": "false",
    }
    assert "GIT_DIR" not in clean_environment(host)


def test_keys_of_the_host_are_passed_on_only_by_name() -> None:
    host = {"OPENAI_API_KEY": "k", "AWS_SECRET_ACCESS_KEY": "s"}
    assert clean_environment(host).keys() == ALWAYS_SET.keys()
    assert clean_environment(host, extra=["OPENAI_API_KEY"])["OPENAI_API_KEY"] == "k"


@pytest.mark.parametrize("path", [":/bin:.::bin:~/bin:/usr/bin:", "/bin::/usr/bin"])
def test_no_entry_of_the_path_means_the_current_folder(path: str) -> None:
    assert clean_environment({"PATH": path})["PATH"] == "/bin:/usr/bin"


@pytest.mark.parametrize("host", [{}, {"PATH": ""}, {"PATH": ".:bin"}])
def test_a_path_without_entries_is_replaced_since_it_would_mean_the_current_folder(host: dict[str, str]) -> None:
    assert clean_environment(host)["PATH"] == "/usr/local/bin:/usr/bin:/bin"


def test_a_home_in_the_current_folder_is_left_out() -> None:
    assert clean_environment({"HOME": ".", "TMPDIR": ""}).keys() == ALWAYS_SET.keys()


def program_in(folder: Path, name: str) -> str:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text("#!/bin/sh", encoding="utf-8")
    (folder / name).chmod(0o700)
    return str(folder / name)


def test_the_first_program_of_that_name_in_the_path_is_found(tmp_path: Path) -> None:
    first, second = program_in(tmp_path / "a", "tool"), program_in(tmp_path / "b", "tool")
    path = f"{tmp_path}/none:{tmp_path}/a/:{tmp_path}/b"
    assert find_program("tool", path) == first
    Path(first).chmod(0o600)
    assert find_program("tool", path) == second
    assert find_program(second, "") == second
    assert find_program(first, path) is None


def test_a_program_of_the_current_folder_is_never_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program_in(tmp_path, "tool")
    monkeypatch.chdir(tmp_path)
    for path in ("", ":", ".", "./", f"../{tmp_path.name}"):
        assert find_program("tool", path) is None
    for name in ("./tool", f"../{tmp_path.name}/tool"):
        assert find_program(name, str(tmp_path)) is None


@pytest.mark.parametrize("name", ["", ".", "..", "/", "sub", "a\0b", "\ud800"])
def test_what_is_no_file_to_run_is_not_found(tmp_path: Path, name: str) -> None:
    (tmp_path / "sub").mkdir()
    assert find_program(name, str(tmp_path)) is None
