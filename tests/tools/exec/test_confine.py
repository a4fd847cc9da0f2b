"""Programs in the sandbox: what they see, change and reach, tried from inside; and the command line as a text.

Where bubblewrap does not work, as a probe of its own finds, the same tests ask for the refusal instead.
"""

import functools
import os
import select
import shutil
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import ParamSpec

import anyio
import pytest
from tests.children import bounded

from sayso.errors import ToolError
from sayso.tools.exec.confine import Mount, bwrap_command, unavailable_reason
from sayso.tools.exec.processes import ProcessLimits, ProcessResult, clean_environment, run_program

P = ParamSpec("P")

WAIT = 30
PROBE = ["bwrap", "--unshare-all", "--ro-bind", "/", "/", "--proc", "/proc", "true"]


@functools.cache
def works() -> bool:
    if shutil.which("bwrap") is None:
        return False
    return subprocess.run(PROBE, capture_output=True, check=False, timeout=WAIT).returncode == 0


def really(test: Callable[P, Awaitable[None]]) -> Callable[P, Awaitable[None]]:
    """Run the test where bubblewrap works; elsewhere the refusal has to be clear, and nothing may run."""

    @functools.wraps(test)
    async def either(*args: P.args, **kwargs: P.kwargs) -> None:
        if works():
            assert unavailable_reason() is None
            await test(*args, **kwargs)
        else:
            assert "programs c" in (unavailable_reason() or "")
            with pytest.raises((ToolError, AssertionError)):
                assert (await inside("true", [Mount("/usr", writable=False)])).exit_code == 0

    return either


async def inside(
    script: str,
    mounts: Iterable[Mount],
    hidden: Iterable[Path] = (),
    frozen: Iterable[Path] = (),
    *,
    network: bool = False,
    limits: ProcessLimits | None = None,
) -> ProcessResult:
    zones = list(mounts)
    command = bwrap_command(
        ["bash", "-c", script],
        program="/bin/bash",
        folder=zones[0].path,
        mounts=zones,
        hidden=[str(path) for path in hidden],
        network=network,
        frozen=[str(path) for path in frozen],
    )
    return await start(command, limits)


async def start(command: list[str], limits: ProcessLimits | None = None) -> ProcessResult:
    handle = os.open("/", os.O_RDONLY)
    try:
        with anyio.fail_after(WAIT):
            return await run_program(
                command,
                program=command[0],
                folder=handle,
                environment=clean_environment({"LANG": "C", "SECRET": "s"}),
                limits=limits or ProcessLimits(seconds=WAIT),
            )
    finally:
        os.close(handle)


def zone(folder: Path, name: str = "zone", *, writable: bool = True) -> tuple[Path, Mount]:
    path = folder / name
    path.mkdir(parents=True, exist_ok=True)
    return path, Mount(str(path), writable=writable)


@really
async def test_a_program_reads_and_writes_in_a_writable_zone_and_tells_its_exit_code(tmp_path: Path) -> None:
    path, mount = zone(tmp_path)
    (path / "in").write_text("hello", encoding="utf-8")
    ended = await inside("pwd; cat in; cp in out; exit 7", [mount])
    assert (ended.exit_code, ended.stdout, ended.stderr) == (7, f"{path}\nhello", "")
    assert (path / "out").read_text(encoding="utf-8") == "hello"


@really
async def test_what_is_outside_the_zones_is_neither_seen_nor_written(tmp_path: Path) -> None:
    _, mount = zone(tmp_path)
    outside = tmp_path / "secret"
    outside.write_text("s", encoding="utf-8")
    ended = await inside(
        f"cat {outside}; cat /etc/shadow; ls -A /root /home; touch {outside}; touch /x /usr/x", [mount]
    )
    assert ended.stdout == ""
    assert ended.stderr.count("No such file or directory") == 4
    assert ended.stderr.count("Read-only file system") == 2
    assert outside.read_text(encoding="utf-8") == "s"
    assert outside.stat().st_size == 1
    assert not Path("/usr/x").exists()


@really
async def test_a_read_only_zone_can_be_read_and_not_changed_even_inside_a_writable_one(tmp_path: Path) -> None:
    _, outer = zone(tmp_path)
    path, inner = zone(tmp_path, "zone/deep/fixed", writable=False)
    (path / "file").write_text("old", encoding="utf-8")
    script = f"cd {path}; cat file; echo new > file; rm file; touch more; mv {tmp_path}/zone/deep {tmp_path}/zone/other"
    for mounts in ([outer, inner], [inner, outer]):
        ended = await inside(script, mounts)
        assert ended.stdout == "old"
        assert ended.stderr.count("Read-only file system") == 3
        assert "Device or resource busy" in ended.stderr
        assert [each.name for each in path.iterdir()] == ["file"]


@really
async def test_a_writable_zone_inside_a_read_only_one_can_be_written(tmp_path: Path) -> None:
    path, outer = zone(tmp_path, writable=False)
    _, inner = zone(tmp_path, "zone/scratch")
    ended = await inside("touch scratch/yes no", [outer, inner])
    assert ended.stderr == "touch: cannot touch 'no': Read-only file system\n"
    assert sorted(each.name for each in path.rglob("*")) == ["scratch", "yes"]


@really
async def test_what_is_hidden_gives_nothing_and_stays_as_it_is(tmp_path: Path) -> None:
    path, mount = zone(tmp_path)
    (path / "store").mkdir()
    for name in ("sayso.yaml", "store/db"):
        (path / name).write_text("secret", encoding="utf-8")
    script = (
        "cat sayso.yaml; ls -A store; cat store/db; echo x > sayso.yaml; echo x > store/db; rm -rf sayso.yaml store"
    )
    ended = await inside(
        f"{script}; mv sayso.yaml y; mv store z; ln sayso.yaml y", [mount], [path / "sayso.yaml", path / "store"]
    )
    assert "store/db: Read-only file system" in ended.stderr
    assert "secret" not in ended.stdout + ended.stderr
    assert ended.stdout == ""
    assert {str(each.relative_to(path)) for each in path.rglob("*")} == {"sayso.yaml", "store", "store/db"}
    for name in ("sayso.yaml", "store/db"):
        assert (path / name).read_text(encoding="utf-8") == "secret"


@really
async def test_what_is_frozen_is_read_and_not_changed_nor_is_the_folder_round_it_swapped(tmp_path: Path) -> None:
    path, mount = zone(tmp_path)
    (path / ".git" / "hooks").mkdir(parents=True)
    for name in (".git/config", ".git/hooks/pre-commit"):
        (path / name).write_text("good", encoding="utf-8")
    script = """
        cat .git/config .git/hooks/pre-commit
        echo evil > .git/config; echo evil > .git/hooks/pre-commit; touch .git/hooks/post-commit
        rm -rf .git/hooks; mv .git/hooks .git/other; mv .git/config .git/c
        mv .git elsewhere && mkdir -p .git/hooks && echo evil > .git/hooks/pre-commit
        touch .git/index"""
    ended = await inside(script, [mount], frozen=[path / ".git/hooks", path / ".git/config", path / ".vscode"])
    assert ended.stdout == "goodgood"
    left = {str(each.relative_to(path)) for each in path.rglob("*")}
    assert left == {".git", ".git/config", ".git/hooks", ".git/hooks/pre-commit", ".git/index"}
    for name in (".git/config", ".git/hooks/pre-commit"):
        assert (path / name).read_text(encoding="utf-8") == "good"


@really
async def test_no_program_gets_rid_of_the_mounts(tmp_path: Path) -> None:
    path, mount = zone(tmp_path)
    (path / "sayso.yaml").write_text("secret", encoding="utf-8")
    attack = "umount -l sayso.yaml; mount -o remount,rw,bind /usr; umount -l ."
    nested = f"unshare -Urm bash -c '{attack}; cat sayso.yaml'"
    capable = "grep -c ^CapEff:.*[1-9a-f] /proc/self/status"
    ended = await inside(f"{attack}; {nested}; cat sayso.yaml; {capable}", [mount], [path / "sayso.yaml"])
    assert ended.stdout == "0\n"
    assert "secret" not in ended.stderr


@really
async def test_without_a_network_there_is_no_way_to_this_machine_nor_out_of_it(tmp_path: Path) -> None:
    _, mount = zone(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as server:
        connect = (
            f"tail -n +3 /proc/net/dev | cut -d: -f1; exec 3<>/dev/tcp/127.0.0.1/{server.getsockname()[1]} && echo in"
        )
        without = await inside(connect, [mount])
        assert without.stdout.split() == ["lo"]
        assert "Connection refused" in without.stderr
        assert (await inside(connect, [mount], network=True)).stdout.endswith("in\n")


@really
async def test_names_of_machines_are_known_only_with_a_network(tmp_path: Path) -> None:
    _, mount = zone(tmp_path)
    known = {name for name in ("hosts", "resolv.conf") if Path("/etc", name).exists()}
    assert known & set((await inside("ls /etc", [mount])).stdout.split()) == set()
    assert known & set((await inside("ls /etc", [mount], network=True)).stdout.split()) == known


@really
async def test_other_processes_of_the_machine_and_their_secrets_are_not_seen(tmp_path: Path) -> None:
    _, mount = zone(tmp_path)
    ended = await inside(
        f"cat /proc/[0-9]*/environ | tr '\\0' '\\n' | cut -d= -f1 | sort -u; kill -0 {os.getpid()}", [mount]
    )
    assert set(ended.stdout.split()) <= {*clean_environment({"LANG": "C"}), "PWD", "SHLVL", "_", "OLDPWD"}
    assert "No such process" in ended.stderr


@really
async def test_temporary_files_are_fresh_and_gone_afterwards(tmp_path: Path) -> None:
    _, mount = zone(tmp_path)
    ended = await inside("echo x > /tmp/left && echo y > /run/left && ls -A /run", [mount])
    assert ended.stdout == "left\n"
    assert not Path("/tmp/left").exists()  # noqa: S108 - the real one
    assert not Path("/run/left").exists()


@really
async def test_out_of_time_everything_in_the_sandbox_dies(tmp_path: Path) -> None:
    path, mount = zone(tmp_path)
    pipe = alive(path)
    script = "trap '' TERM; exec 9>alive; setsid sleep 100 & echo a >&9; wait"
    ended = await inside(script, [mount], limits=ProcessLimits(seconds=2, grace_seconds=0.1))
    assert ended.timed_out
    assert until_all_are_dead(pipe) == b"a\n"


@really
async def test_the_end_of_a_program_is_the_end_of_all_that_it_started(tmp_path: Path) -> None:
    path, mount = zone(tmp_path)
    pipe = alive(path)
    ended = await inside("exec 9>alive; setsid sleep 100 & echo a >&9; exit 4", [mount])
    assert (ended.exit_code, ended.lingered) == (4, False)
    assert until_all_are_dead(pipe) == b"a\n"


RUNNER = """
import asyncio, os, sys
from sayso.tools.exec.confine import Mount, bwrap_command
from sayso.tools.exec.processes import ProcessLimits, run_program
zone = sys.argv[1]
argv = ["bash", "-c", "exec 9>alive; setsid sleep 100 & echo a >&9; wait"]
command = bwrap_command(argv, program="/bin/bash", folder=zone, mounts=[Mount(zone, True)], hidden=[], network=False)
handle = os.open("/", os.O_RDONLY)
limits = ProcessLimits()
program = run_program(command, program=command[0], folder=handle, environment={"PATH": "/usr/bin:/bin"}, limits=limits)
asyncio.run(program)
"""


@really
async def test_a_runner_that_is_killed_takes_the_program_with_it(tmp_path: Path) -> None:
    path, _ = zone(tmp_path)
    pipe = alive(path)
    with bounded(subprocess.Popen([sys.executable, "-c", RUNNER, str(path)])) as runner:
        assert select.select([pipe], [], [], WAIT)[0], "the program did not start"
        assert os.read(pipe, 2) == b"a\n"
        runner.kill()
        assert until_all_are_dead(pipe) == b""


def alive(folder: Path) -> int:
    """A pipe that programs hold open, so that its end is the death of them all."""
    os.mkfifo(folder / "alive")
    return os.open(folder / "alive", os.O_RDONLY | os.O_NONBLOCK)


def until_all_are_dead(pipe: int) -> bytes:
    said = b""
    while select.select([pipe], [], [], WAIT)[0]:
        chunk = os.read(pipe, 1000)
        if not chunk:
            os.close(pipe)
            return said
        said += chunk
    raise AssertionError("somebody still holds the pipe")


@really
async def test_an_interpreter_outside_the_system_is_seen_where_it_is_named(tmp_path: Path) -> None:
    tools, _ = zone(tmp_path, "tools")
    program = tools / "tool"
    program.write_text("#!/bin/sh\necho ran $1; touch ${0}s", encoding="utf-8")
    program.chmod(0o700)
    _, mount = zone(tmp_path)
    command = bwrap_command(
        ["tool", "it"],
        program=str(program),
        folder=mount.path,
        mounts=[mount],
        hidden=[],
        network=False,
        readable=[str(tools)],
    )
    ended = await start(command)
    assert ended.stdout == "ran it\n"
    assert "Read-only file system" in ended.stderr


def told(script: str, *options: str) -> str:
    """What `unavailable_reason()` says in a process that bubblewrap takes something from."""
    command = ["bwrap", "--dev-bind", "/", "/", *options, "--", sys.executable, "-c", script]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=WAIT).stdout


SAY = "from sayso.tools.exec.confine import unavailable_reason; print(unavailable_reason())"


@really
async def test_where_user_namespaces_are_not_permitted_one_sentence_says_so_and_what_to_do() -> None:
    said = told(SAY, "--unshare-user", "--disable-userns")
    assert said.startswith("programs cannot be confined since bubblewrap does not work here (bwrap: ")
    assert "permit user namespaces (`sysctl " in said
    assert said.count("\n") == 1


@really
async def test_where_bubblewrap_is_not_installed_one_sentence_says_what_to_install() -> None:
    said = told(SAY, "--ro-bind", "/dev/null", str(Path("/usr/bin/bwrap").resolve()))
    assert (
        said
        == "programs cannot be confined without bubblewrap: install the package `bubblewrap` (Debian: apt install)\n"
    )


def line(tmp_path: Path, **changed: object) -> list[str]:
    _, mount = zone(tmp_path)
    given: dict[str, object] = {
        "program": "/bin/bash",
        "folder": mount.path,
        "mounts": [mount],
        "hidden": [],
        "network": False,
    }
    return bwrap_command(["bash", "-c", "x"], **(given | changed))  # pyright: ignore[reportArgumentType]


def options(command: list[str], *names: str) -> list[list[str]]:
    return [command[at : at + 3] for at, word in enumerate(command) if word in names]


def test_the_command_line_shuts_everything_first_and_ends_with_the_program(tmp_path: Path) -> None:
    command = line(tmp_path)
    assert Path(command[0]).name == "bwrap"
    for option in ("--unshare-all", "--unshare-user", "--die-with-parent", "--new-session", "--cap-drop"):
        assert option in command
    assert "--share-net" not in command
    assert "--share-net" in line(tmp_path, network=True)
    path = str(tmp_path / "zone")
    assert command[command.index("--chdir") - 2 :] == [
        "--remount-ro",
        "/",
        "--chdir",
        path,
        "--",
        "/bin/bash",
        "-c",
        "x",
    ]


def test_upper_mounts_come_before_the_lower_ones_that_they_would_cover(tmp_path: Path) -> None:
    upper, outer = zone(tmp_path)
    lower, inner = zone(tmp_path, "zone/a/b/c", writable=False)
    assert options(line(tmp_path, mounts=[inner, outer]), "--bind", "--ro-bind") == [
        ["--bind", str(upper), str(upper)],
        ["--bind", f"{upper}/a", f"{upper}/a"],
        ["--bind", f"{upper}/a/b", f"{upper}/a/b"],
        ["--ro-bind", str(lower), str(lower)],
    ]


def test_of_two_words_on_one_path_the_stricter_holds(tmp_path: Path) -> None:
    path, mount = zone(tmp_path)
    for changed in (
        {"mounts": [mount, Mount(str(path), writable=False)]},
        {"mounts": [Mount(str(path), writable=False), mount]},
        {"readable": [str(path)]},
        {"frozen": [str(path)]},
        {"frozen": [str(tmp_path)]},
    ):
        assert options(line(tmp_path, **changed), "--bind", "--ro-bind") == [["--ro-bind", str(path), str(path)]]


def test_what_is_beneath_something_hidden_is_not_mounted(tmp_path: Path) -> None:
    path, mount = zone(tmp_path)
    (path / "store" / "deep").mkdir(parents=True)
    mounts = [mount, Mount(f"{path}/store/deep", writable=True)]
    for hidden in ([f"{path}/store", f"{path}/store/deep"], [f"{path}/store/deep", f"{path}/store"]):
        command = line(tmp_path, mounts=mounts, hidden=hidden, frozen=[f"{path}/store/deep"])
        assert f"{path}/store" in command
        assert f"{path}/store/deep" not in command


def test_what_is_hidden_elsewhere_or_not_there_is_not_spoken_of(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    command = line(tmp_path, hidden=[f"{tmp_path}/store", f"{tmp_path}/zone/none"], frozen=[f"{tmp_path}/zone/.vscode"])
    assert not [word for word in command if "store" in word or "none" in word or ".vscode" in word]


@pytest.mark.parametrize("path", ["/", "/proc", "/proc/1", "/dev", "/dev/shm", "/sys"])  # noqa: S108 - not to be opened
def test_no_zone_opens_the_machine(tmp_path: Path, path: str) -> None:
    with pytest.raises(ToolError, match=f"'{path}' cannot be part of the sandbox"):
        line(tmp_path, mounts=[Mount(path, writable=False)])
    with pytest.raises(ToolError, match=f"'{path}' cannot be part of the sandbox"):
        line(tmp_path, readable=[path])


@pytest.mark.parametrize("where", ["mounts", "readable", "frozen", "hidden"])
@pytest.mark.parametrize("name", ["link", "link/x", "zone/", "zone/../zone", "zone/."])
def test_a_path_with_a_link_or_a_detour_is_refused(tmp_path: Path, where: str, name: str) -> None:
    path, mount = zone(tmp_path)
    (path / "x").mkdir()
    (tmp_path / "link").symlink_to("zone")
    given = f"{tmp_path}/{name}"
    changed = [mount, Mount(given, writable=False)] if where == "mounts" else [given]
    with pytest.raises(ToolError, match="is no real path, but leads to"):
        line(tmp_path, **{where: changed})


@pytest.mark.parametrize("path", ["", "relative", "/a\0b"])
def test_what_is_no_absolute_path_is_refused(tmp_path: Path, path: str) -> None:
    with pytest.raises(ToolError, match="cannot be part of the sandbox"):
        line(tmp_path, hidden=[path])


def test_a_zone_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="does not exist; create it first"):
        line(tmp_path, mounts=[Mount(f"{tmp_path}/none", writable=True)])


@pytest.mark.parametrize("where", ["frozen", "hidden"])
def test_a_file_with_a_second_name_cannot_be_protected(tmp_path: Path, where: str) -> None:
    path, _ = zone(tmp_path)
    (path / "file").touch()
    (path / "other").hardlink_to(path / "file")
    with pytest.raises(ToolError, match="a second name"):
        line(tmp_path, **{where: [f"{path}/file"]})


def test_a_program_or_folder_that_would_not_be_seen_is_refused_with_what_to_name(tmp_path: Path) -> None:
    path, _ = zone(tmp_path)
    (tmp_path / "python").touch()
    (tmp_path / "zone2").mkdir()
    (path / "python").symlink_to("../python")
    (path / "hidden").mkdir()
    for changed in (
        {"program": f"{tmp_path}/python"},
        {"program": f"{path}/python"},  # a link out of the zone, as in a virtual environment
        {"folder": str(tmp_path)},
        {"folder": f"{path}2"},  # beside the zone, not in it
        {"folder": f"{path}/hidden", "hidden": [f"{path}/hidden"]},
        {"program": "/etc/passwd"},
    ):
        with pytest.raises(ToolError, match=r"cannot be seen in the sandbox: .*; name its folder as `readable`"):
            line(tmp_path, **changed)
