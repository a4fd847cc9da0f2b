"""Process runner: one program in a folder given by descriptor, with timeout, output limit and a process group."""

from __future__ import annotations

import errno
import fcntl
import functools
import math
import os
import signal
import stat
import subprocess
import sys
from codecs import getincrementaldecoder
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, cast

import anyio
import msgspec
from anyio.lowlevel import checkpoint_if_cancelled

from sayso.errors import ConfigurationError, ToolError

_CHUNK = 65_536  # the capacity of a pipe
_DRAIN_SECONDS = 0.5  # for output that is still under way when the program has ended
_DEATH_SECONDS = 5.0  # for the kernel to carry out SIGKILL
_POLL_SECONDS = 0.02  # polling interval, where the kernel cannot wake us
_INSIDE_CHARACTERS = bytes(range(0x80, 0xC0))  # continuation bytes of UTF-8
_FIRST_FREE = 3  # 0, 1 and 2 become the program's own streams

# Search path, user, locale: no variable here names code to run.
_NAMES = {
    *("PATH", "HOME", "USER", "LOGNAME", "TMPDIR"),
    *("LANG", "LANGUAGE", "TZ"),
}
_FOLDERS = {"HOME", "TMPDIR"}  # a relative one would be the folder that the agent writes in
_PATH = "/usr/local/bin:/usr/bin:/bin"
# A pager would wait for input that never comes; and the terminal must not decide whether a call is the approved one.
# Git takes no folder for a repository because of files in it that an agent may have written, and starts no file-system
# monitor. Hooks run: they belong to the owner's repository, whose files no tool changes. Git before 2.38 has no such
# setting; for it, and for programs with a git of their own, zones let nobody write the `HEAD` of a repository.
_GIT_SETTINGS = {"safe.bareRepository": "explicit", "core.fsmonitor": "false"}
_SET = {
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "TERM": "dumb",
    "GIT_CONFIG_COUNT": str(len(_GIT_SETTINGS)),
    **{f"GIT_CONFIG_KEY_{at}": name for at, name in enumerate(_GIT_SETTINGS)},
    **{f"GIT_CONFIG_VALUE_{at}": value for at, value in enumerate(_GIT_SETTINGS.values())},
}

# Variables that make a program load or run other code, however harmless its command line is.
_CODE_LOADING_NAMES = {
    *("BASH_ENV", "ENV", "SHELLOPTS", "BASHOPTS", "PS4", "IFS"),
    *("CDPATH", "GLOBIGNORE", "PROMPT_COMMAND", "SHELL"),
}
_CODE_LOADING_PREFIXES = (
    *("BASH_FUNC_", "LD_", "DYLD_", "GIT_", "LESS"),
    *("PYTHON", "NODE_", "PERL", "RUBY", "JAVA_TOOL_", "_JAVA_"),
)
_CODE_LOADING_SUFFIXES = ("PAGER", "EDITOR", "BROWSER", "VISUAL", "ASKPASS")


class ProcessLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of a process: timeout, bytes kept of each stream, and grace period between SIGTERM and SIGKILL."""

    seconds: float = 120
    output_bytes: int = 64_000
    grace_seconds: float = 2

    def __post_init__(self) -> None:
        """Refuse a timeout of zero, negative limits and an infinite grace period."""
        if not (self.seconds > 0 and self.output_bytes >= 0 and 0 <= self.grace_seconds < math.inf):
            raise ConfigurationError(
                "the limits of a program are wrong: `seconds` has to be above 0, "
                "`output_bytes` and `grace_seconds` 0 or more"
            )


class ProcessResult(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a process.

    `exit_code` is None if a signal or the time limit ended it. `lingered` is whether a child of it held its
    output open after its end, and was cut off.
    """

    exit_code: int | None
    signal: str | None
    stdout: str
    stderr: str
    timed_out: bool
    lingered: bool = False


async def run_program(
    argv: Sequence[str], *, program: str, folder: int, environment: Mapping[str, str], limits: ProcessLimits
) -> ProcessResult:
    """Run the program at the absolute path `program` in the folder of the file descriptor, and wait for its end.

    It gets no input, no descriptor but its two streams, and exactly this environment. No process of its group outlives
    the call, even if the call is cancelled; a process with a session of its own can only be contained by `confine`.

    Raises:
        ToolError: it did not start, or cannot be killed.
    """
    await checkpoint_if_cancelled()  # a cancelled call starts nothing
    process = _spawn(argv, program=program, folder=folder, environment=environment)
    outputs = _Outputs(process, limits.output_bytes)
    try:
        timed_out, lingered = await _supervise(process, outputs, limits)
    finally:
        outputs.close()
    code = cast("int | None", process.returncode)
    if code is None:
        raise ToolError(f"{program!r} cannot be killed and still runs as process {process.pid}; end it by hand")
    return ProcessResult(
        exit_code=None if timed_out or code < 0 else code,
        signal=_signal_name(-code) if code < 0 else None,
        stdout=outputs.stdout.text(),
        stderr=outputs.stderr.text(),
        timed_out=timed_out,
        lingered=lingered,
    )


def clean_environment(environment: Mapping[str, str], *, extra: Iterable[str] = ()) -> dict[str, str]:
    """Sanitise an environment: keep the variables that a program needs and that cannot steer it, and those in `extra`.

    Raises:
        ConfigurationError: a name in `extra` makes programs run other code.
    """
    more = frozenset(extra)
    for name in sorted(more):
        if _loads_code(name):
            raise ConfigurationError(f"{name!r} makes programs run other code and is never passed on; leave it out")
    kept = {name: value for name, value in environment.items() if name in _NAMES | more or name.startswith("LC_")}
    for name in _FOLDERS & kept.keys():
        if not kept[name].startswith("/"):
            del kept[name]
    # An empty or relative entry, and an empty PATH, mean the folder that the program runs in.
    kept["PATH"] = ":".join(_absolute_entries(kept.get("PATH", ""))) or _PATH
    return kept | _SET


def find_program(name: str, path: str) -> str | None:
    """Return the program behind a name: an absolute one itself, a bare one from the absolute entries of PATH."""
    if name.startswith("/"):
        return name if _is_program(name) else None
    if not name or "/" in name:
        return None
    places = (f"{folder.rstrip('/')}/{name}" for folder in _absolute_entries(path))
    return next(filter(_is_program, places), None)


def _loads_code(name: str) -> bool:
    return (
        name in _CODE_LOADING_NAMES or name.startswith(_CODE_LOADING_PREFIXES) or name.endswith(_CODE_LOADING_SUFFIXES)
    )


def _absolute_entries(path: str) -> list[str]:
    return [entry for entry in path.split(":") if entry.startswith("/")]


def _is_program(path: str) -> bool:
    try:
        return stat.S_ISREG(os.stat(path).st_mode) and os.access(path, os.X_OK)  # noqa: PTH116 - a text in PATH
    except (OSError, ValueError):  # ValueError: a NUL or half a character, which no file can be called
        return False


def _spawn(
    argv: Sequence[str], *, program: str, folder: int, environment: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    if not argv or not program.startswith("/"):
        raise ToolError(f"{program!r} did not start: a command and the absolute path of its program are needed")
    if signal.getsignal(signal.SIGCHLD) == signal.SIG_IGN:
        raise ToolError(f"{program!r} did not start: SIGCHLD is ignored here, so nobody could learn its exit code")
    handle = None
    try:
        handle = fcntl.fcntl(folder, fcntl.F_DUPFD_CLOEXEC, _FIRST_FREE)
        cwd, preexec = _chdir_by_fd(handle)
        return subprocess.Popen(  # noqa: S603 - what may run was judged before; there is no shell in between
            list(argv),
            executable=program,
            bufsize=0,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            preexec_fn=preexec,  # noqa: PLW1509 - one call of the system, and only where there is no /proc
            cwd=cwd,
            env=dict(environment),
            start_new_session=True,
        )
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise ToolError(f"{program!r} did not start: {_reason(error, program)}") from None
    finally:
        if handle is not None:
            os.close(handle)


def _chdir_by_fd(handle: int) -> tuple[str | None, Callable[[], None] | None]:
    """Return how the child changes to a folder by descriptor: a path, or a function to call in the child."""
    link = f"/proc/self/fd/{handle}"  # read in the child, after the fork
    return (link, None) if os.path.lexists(link) else (None, functools.partial(os.fchdir, handle))


_REASONS = {
    errno.EACCES: "it is not executable, or lies in a folder that may not be entered",
    errno.ENOEXEC: "this machine cannot run such a file; a script needs a first line such as `#!/bin/sh`",
    errno.E2BIG: "its arguments and environment are longer than the system takes; pass them in a file",
    errno.ENOENT: "there is no such program",
}


def _reason(error: OSError | ValueError | subprocess.SubprocessError, program: str) -> str:
    if isinstance(error, ValueError):
        return "an argument or a variable has a NUL, an unpaired surrogate or a misplaced `=` in it"
    if not isinstance(error, OSError) or error.filename != program:
        return f"its folder cannot be entered, or the system has no room for it ({error})"
    if error.errno == errno.ENOENT and Path(program).exists():
        return "the interpreter that its first line or its header names does not exist"
    return _REASONS.get(error.errno or 0, f"the system says {error.strerror!r}")


async def _supervise(process: subprocess.Popen[bytes], outputs: _Outputs, limits: ProcessLimits) -> tuple[bool, bool]:
    """Read the output until the program ends; return whether it timed out, and whether a child lingered."""
    timed_out = lingered = False
    grace = limits.grace_seconds
    async with anyio.create_task_group() as reading:
        reading.start_soon(outputs.read)
        try:
            with anyio.move_on_after(limits.seconds) as time_left:
                await _wait_for_exit(process)
            timed_out = time_left.cancelled_caught
            if not timed_out:
                grace = 0  # the rest of the group has had its grace period
                lingered = not await outputs.end_within(_DRAIN_SECONDS)
        finally:
            await _terminate_group(process, outputs, grace)
    return timed_out, lingered


async def _terminate_group(process: subprocess.Popen[bytes], outputs: _Outputs, grace: float) -> None:
    """End the process group, shielded from cancellation: SIGTERM, grace period, SIGKILL, then reap the exit code."""
    try:
        with anyio.CancelScope(shield=True):
            if grace:
                _signal(process, signal.SIGTERM)
                with anyio.move_on_after(grace):
                    await _wait_for_exit(process)
                    await outputs.over.wait()
            _signal(process, signal.SIGKILL)
            with anyio.move_on_after(_DEATH_SECONDS):
                await _wait_for_exit(process)
            await outputs.end_within(_DRAIN_SECONDS)
    finally:
        # A second cancel of asyncio's own goes through the shield.
        _signal(process, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_DRAIN_SECONDS)
        outputs.stop()


async def _wait_for_exit(process: subprocess.Popen[bytes]) -> None:
    """Wait until the program has exited.

    Where the kernel has pidfds, the exit code is not reaped yet: until then the pid cannot be reused, and killing the
    group of that pid is safe.
    """
    handle = _handle_on(process)
    if handle is None:
        while process.poll() is None:  # noqa: ASYNC110 - the end is not signalled here
            await anyio.sleep(_POLL_SECONDS)
        return
    try:
        await anyio.wait_readable(handle)
    finally:
        os.close(handle)


def _handle_on(process: subprocess.Popen[bytes]) -> int | None:
    if sys.platform != "linux" or process.returncode is not None:
        return None
    try:
        return os.pidfd_open(process.pid)
    except OSError:  # an old kernel, or a container that forbids it
        return None


def _signal(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    # PermissionError: only processes of other users are left, or, on macOS, only dead ones.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # most real-time signals have no name
        return f"signal {number}"


class _Outputs:
    """Both output streams of a program, read concurrently until both are closed, even while the call is cancelled."""

    def __init__(self, process: subprocess.Popen[bytes], limit: int) -> None:
        self.stdout = _Stream(cast("IO[bytes]", process.stdout), limit)
        self.stderr = _Stream(cast("IO[bytes]", process.stderr), limit)
        self.over = anyio.Event()
        self._scope = anyio.CancelScope(shield=True)

    async def read(self) -> None:
        with self._scope:
            async with anyio.create_task_group() as both:
                both.start_soon(self.stdout.read)
                both.start_soon(self.stderr.read)
            self.over.set()

    async def end_within(self, seconds: float) -> bool:
        with anyio.move_on_after(seconds):
            await self.over.wait()
        return self.over.is_set()

    def stop(self) -> None:
        self._scope.cancel()

    def close(self) -> None:
        self.stdout.pipe.close()
        self.stderr.pipe.close()


class _Stream:
    """Bounded buffer of a stream: keeps head and tail; the middle is counted and dropped."""

    def __init__(self, pipe: IO[bytes], limit: int) -> None:
        self.pipe = pipe
        self._head, self._head_limit = bytearray(), limit - limit // 2
        self._tail, self._tail_limit = bytearray(), limit // 2
        self._dropped = 0

    async def read(self) -> None:
        handle = self.pipe.fileno()
        while True:
            await anyio.wait_readable(handle)
            if not (chunk := os.read(handle, _CHUNK)):
                return
            self._append(chunk)

    def _append(self, chunk: bytes) -> None:
        room = self._head_limit - len(self._head)
        self._head += chunk[:room]
        self._tail += chunk[room:]
        if (excess := len(self._tail) - self._tail_limit) > 0:
            del self._tail[:excess]
            self._dropped += excess

    def text(self) -> str:
        if not self._dropped:
            return (self._head + self._tail).decode(errors="replace")
        # The cut went through a valid character: it counts as dropped, not as invalid.
        decoder = getincrementaldecoder("utf-8")("replace")
        head = decoder.decode(self._head)
        tail = self._tail.lstrip(_INSIDE_CHARACTERS)
        left_out = self._dropped + len(decoder.getstate()[0]) + len(self._tail) - len(tail)
        return f"{head}\n[{left_out} bytes left out]\n{tail.decode(errors='replace')}"
