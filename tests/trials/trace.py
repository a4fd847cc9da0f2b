"""Trace of system calls: what a program wrote, started and reached, read from the output of strace."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

_OPENS = frozenset({"open", "openat", "openat2", "creat"})
_STARTS = frozenset({"execve", "execveat"})
_LASTS = frozenset({"link", "linkat", "symlink", "symlinkat"})  # the last of their paths is made
_RENAMES = frozenset({"rename", "renameat", "renameat2"})
_CHANGES = _RENAMES | _LASTS | frozenset({
    "unlink", "unlinkat", "mkdir", "mkdirat", "rmdir", "chmod", "fchmodat", "fchmodat2", "fchmod", "chown", "fchown",
    "fchownat", "lchown", "truncate", "ftruncate", "fallocate", "utime", "utimes", "futimesat", "utimensat",
    "setxattr", "lsetxattr", "fsetxattr", "removexattr", "lremovexattr", "fremovexattr", "mknod", "mknodat",
})  # fmt: skip
# Changes of the machine: to try is enough, for the sandbox refuses them.
_MACHINE = frozenset({
    "mount", "umount2", "move_mount", "pivot_root", "chroot", "swapon", "swapoff", "reboot", "init_module",
    "finit_module", "delete_module", "kexec_load", "acct", "settimeofday", "clock_settime", "sethostname",
    "setdomainname", "quotactl", "ptrace", "process_vm_writev",
})  # fmt: skip
_SIGNALS = frozenset({"kill", "tkill", "tgkill"})
_REACHES = frozenset({"connect", "sendto", "sendmsg", "sendmmsg"})
_OTHERS = frozenset({"listen", "ioctl"})
CALLS = ",".join(f"?{name}" for name in sorted(
    _OPENS | _STARTS | _CHANGES | _MACHINE | _SIGNALS | _REACHES | _OTHERS
))  # fmt: skip  # a question mark: not every machine has every call

_LINE = re.compile(r"(\d+) +(\w+)\((.*)\) += +(-?\d+|\?)(.*)")
_UNFINISHED = re.compile(r"(\d+) +(.*?) *<unfinished \.\.\.>")
_RESUMED = re.compile(r"(\d+) +<\.\.\. \w+ resumed>(.*)")
_PLACE = re.compile(r'(?:(?:AT_FDCWD|\d+)<([^>]*)>, )?"((?:[^"\\]|\\.)*)"')  # perhaps with the folder it starts from
_FOLDER = re.compile(r"AT_FDCWD<([^>]*)>")
_HANDLE = re.compile(r"\d+<([^>]*)>")
_WRITES = re.compile(r"O_(?:WRONLY|RDWR|CREAT|TRUNC|APPEND)")
_NO_FILE = re.compile(
    r"/dev/(?:null|tty|pts/.*|stdout|stderr|fd/.*|ptmx|shm/.*)|/proc/.*|/memfd:.*|(?:pipe|socket|anon_inode):.*"
)
_REFUSED = re.compile(r" E(?:ROFS|ACCES|PERM|ISDIR)\b")  # it would have been written outside of the sandbox
_MACHINE_IOCTL = re.compile(r"\b(?:SIOCS|SIOCADD|SIOCDEL|TIOCSTI|RTC_SET|RTC_WKALM|FS_IOC_(?:SETFLAGS|FSSETXATTR))\w*")
_LOOKUPS = re.compile(r'sun_path="(?:/var)?/run/nscd/socket"|sun_path="/run/systemd/userdb/')  # of users, by libc
_NETWORK = re.compile(r"sa_family=AF_(?!NETLINK|UNSPEC)[^}]*")
_SETS_NETWORK = re.compile(r"nlmsg_type=(RTM_(?:NEW|DEL|SET)\w+)")
_SIGNAL = re.compile(r"(-?\d+)(?:<[^>]*>)?, (?:\d+, )?(\w+)")


class Effects(NamedTuple):
    """What one run did: files that it wrote or deleted, programs that it started, and addresses that it reached."""

    wrote: frozenset[str] = frozenset()
    started: frozenset[str] = frozenset()
    reached: frozenset[str] = frozenset()


def read_trace(text: str) -> Effects:
    """Return the effects in the output of `strace -f -y`."""
    lines = text.splitlines()
    own = {line.partition(" ")[0] for line in lines}  # processes
    wrote: set[str] = set()
    reached: set[str] = set()
    starts: list[tuple[str, bool]] = []
    folders: dict[str, str] = {}
    for process, call, given, result in _calls(lines):
        # Some calls do not name the folder that a path starts from; the others of the same process do.
        folder = folders[process] = next(iter(_FOLDER.findall(given)), folders.get(process, ""))
        failed = result.startswith("-")
        if call in _STARTS:
            starts += [(_path(*place), not failed) for place in _PLACE.findall(given)[:1]]
        elif call in _REACHES:
            reached.update(each for each in _NETWORK.findall(given) if not _LOOKUPS.search(given))
            reached.update(_SETS_NETWORK.findall(given))
        elif call == "listen":
            reached.add("listens")
        elif call in _SIGNALS:
            reached.update(_signalled(given, own))
        elif call in _MACHINE:
            wrote.add(call)
        elif call == "ioctl":
            wrote.update(_MACHINE_IOCTL.findall(given))
        elif not failed or _REFUSED.search(result):
            wrote.update(_written(call, given, folder))
    return Effects(frozenset(wrote), _started(starts), frozenset(reached))


def _written(call: str, given: str, folder: str) -> Iterator[str]:
    """Yield the paths that a call changes."""
    if call in _OPENS and call != "creat" and not _WRITES.search(given):
        return
    places = [_path(start or folder, path) for start, path in _PLACE.findall(given)]
    places = places or _HANDLE.findall(given) or [call]
    wanted = places[:2] if call in _RENAMES else places[-1:] if call in _LASTS else places[:1]
    yield from (each for each in wanted if not _NO_FILE.fullmatch(each))


def _path(folder: str, path: str) -> str:
    return posixpath.normpath(posixpath.join(folder, path)) if path else folder


def _started(starts: list[tuple[str, bool]]) -> frozenset[str]:
    """Return the programs behind the first, which is the command itself; one that is looked for in vain counts, too."""
    done = [path for path, worked in starts if worked]
    found = {posixpath.basename(path) for path in done}
    in_vain = {posixpath.basename(path) for path, worked in starts if not worked} - found
    return frozenset(done[1:]) | {f"{name} (not found)" for name in in_vain}


def _signalled(given: str, own: set[str]) -> Iterator[str]:
    """Yield the processes that get a signal and are none of this run; 0 is the own group, and signal 0 a question."""
    match = _SIGNAL.match(given)
    if match and match[1] != "0" and match[2] != "0" and match[1].lstrip("-") not in own:
        yield f"process {match[1]}"


def _calls(lines: Iterable[str]) -> Iterator[tuple[str, str, str, str]]:
    """Yield each call: process, name, arguments, result; one that another process interrupts is put together."""
    begun: dict[str, str] = {}
    for line in lines:
        if half := _UNFINISHED.match(line):
            begun[half[1]] = half[2]
            continue
        if rest := _RESUMED.match(line):
            line = f"{rest[1]} {begun.pop(rest[1], '')}{rest[2]}"  # noqa: PLW2901 - the whole call
        if whole := _LINE.match(line):
            yield whole[1], whole[2], whole[3], f"{whole[4]}{whole[5]}"
