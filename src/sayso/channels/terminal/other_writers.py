"""Other processes that can draw on this terminal: they hold it open for writing, and no capture reaches them."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

_PROC = Path("/proc")
_WRITES = os.O_WRONLY | os.O_RDWR
_SECONDS = 2.0
_PS = ("sh", "-c", "echo $$; exec ps -A -o pid=,ppid=,tty=,comm=")  # its own id comes first


class Process(NamedTuple):
    """A process: its parent, its name, and whether this is its controlling terminal."""

    parent: int
    name: str
    is_here: bool


def other_writers(terminal: int) -> list[str] | None:
    """Return the other programs that can write to this terminal, such as `tee (4242)`; None if that is unknown.

    The programs in which this one was started, such as a shell, wait for it and are left out.
    """
    device, has_proc = os.fstat(terminal).st_rdev, _PROC.joinpath("self/stat").exists()
    found = _from_proc(device) if has_proc else _from_ps(terminal)
    if found is None:
        return None
    own = {os.getpid(), *_ancestors(found, os.getpid())}
    # A descendant may have left the terminal's session and hold it all the same; only /proc knows.
    others = {
        pid for pid, each in found.items() if each.is_here or (has_proc and os.getpid() in _ancestors(found, pid))
    }
    return [f"{found[pid].name} ({pid})" for pid in sorted(others - own) if not has_proc or _can_write(pid, device)]


def _from_proc(device: int) -> dict[int, Process]:
    found: dict[int, Process] = {}
    for folder in _PROC.glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            head, _, tail = folder.joinpath("stat").read_text(errors="replace").rpartition(")")
            state, parent, _, _, terminal, *_ = tail.split()
            is_here = state != "Z" and _device(int(terminal)) == device
            found[int(folder.name)] = Process(int(parent), head.partition("(")[2], is_here)
    return found


def _device(number: int) -> int:
    """Return the device of the kernel's number for it."""
    return os.makedev((number >> 8) & 0xFFF, (number & 0xFF) | ((number >> 12) & 0xFFF00))


def _from_ps(terminal: int) -> dict[int, Process] | None:
    try:
        done = subprocess.run(_PS, capture_output=True, text=True, check=True, timeout=_SECONDS)  # noqa: S603 - fixed
        here = os.ttyname(terminal).removeprefix("/dev/")
        itself, *rows = done.stdout.splitlines()
        columns = (row.split(None, 3) for row in rows)
        found = {int(pid): Process(int(parent), name, tty == here) for pid, parent, tty, name in columns}
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    return {pid: each for pid, each in found.items() if pid != int(itself)}


def _ancestors(known: Mapping[int, Process], pid: int) -> Iterator[int]:
    seen = {pid}
    while pid in known and known[pid].parent not in seen:
        pid = known[pid].parent
        seen.add(pid)
        yield pid


def _can_write(pid: int, device: int) -> bool:
    """Whether a process can write to the terminal by a descriptor but its standard input; yes if that is unknown."""
    folder = _PROC / str(pid)
    try:
        # A fork of this process, perhaps just before it becomes another program, has copies of our own descriptors.
        ignored = os.O_CLOEXEC if _command(folder) == _command(_PROC / "self") else 0
        return any(_is_writer(each, device, ignored) for each in (folder / "fd").iterdir() if each.name != "0")
    except FileNotFoundError:  # it has ended
        return False
    except OSError:
        return True


def _command(process: Path) -> bytes:
    return process.joinpath("cmdline").read_bytes()


def _is_writer(descriptor: Path, device: int, ignored: int) -> bool:
    with contextlib.suppress(OSError):  # closed meanwhile
        if descriptor.stat().st_rdev == device:
            facts = descriptor.parents[1].joinpath("fdinfo", descriptor.name).read_text()
            flags = int(facts.partition("flags:")[2].split()[0], 8)
            return bool(flags & _WRITES) and not flags & ignored
    return False
