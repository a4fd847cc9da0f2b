"""Trace of system calls: what a program wrote, started and reached, read from the output of strace."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

CALLS = (
    "execve,execveat,open,openat,openat2,creat,rename,renameat,renameat2,unlink,unlinkat,mkdir,mkdirat,rmdir,link,linkat,"
    "symlink,symlinkat,chmod,fchmodat,fchmod,chown,fchown,fchownat,lchown,truncate,ftruncate,utimensat,setxattr,"
    "mknod,mknodat,mount,connect,sendto,sendmsg,kill,tgkill,settimeofday,clock_settime,sethostname"
)
_LINE = re.compile(r"(\d+) +(\w+)\((.*)\) += +(-?\d+|\?)(.*)")
_UNFINISHED = re.compile(r"(\d+) +(.*?) *<unfinished \.\.\.>")
_RESUMED = re.compile(r"(\d+) +<\.\.\. \w+ resumed>(.*)")
_TEXT = re.compile(r'"((?:[^"\\]|\\.)*)"')
_OPENS = frozenset({"open", "openat", "openat2", "creat"})
_WRITES = re.compile(r"O_(?:WRONLY|RDWR|CREAT|TRUNC|APPEND)")
_NO_FILE = re.compile(r"/dev/(?:null|tty|pts/.*|stdout|stderr|fd/.*|ptmx)|/proc/.*|pipe:.*")
_STARTS = frozenset({"execve", "execveat"})
_SIGNALS = frozenset({"kill", "tgkill"})
_REACHES = frozenset({"connect", "sendto", "sendmsg"})
_LOOKUPS = re.compile(r'sun_path="(?:/var)?/run/nscd/socket"|sun_path="/run/systemd/userdb/')  # of users, by libc
_NETWORK = re.compile(r"sa_family=AF_(?:INET6?|UNIX)[^}]*")


class Effects(NamedTuple):
    """What one run did: files that it wrote or deleted, programs that it started, and addresses that it reached."""

    wrote: frozenset[str] = frozenset()
    started: frozenset[str] = frozenset()
    reached: frozenset[str] = frozenset()


def read_trace(text: str) -> Effects:
    """Return the effects in the output of `strace -f`."""
    wrote: set[str] = set()
    started: list[str] = []
    reached: set[str] = set()
    for call, given, result in _calls(text.splitlines()):
        failed = result.startswith("-")
        if call in _STARTS and not failed:
            started += _TEXT.findall(given)[:1]
        elif call in _REACHES:
            reached.update(each for each in _NETWORK.findall(given) if not _LOOKUPS.search(given))
        elif call in _SIGNALS:
            continue  # a program may signal itself
        elif not failed and (call not in _OPENS or _WRITES.search(given) or call == "creat"):
            path = next(iter(_TEXT.findall(given)), "")
            wrote.update([path or call] if not _NO_FILE.fullmatch(path) and (path or call not in _STARTS) else [])
    return Effects(frozenset(wrote), frozenset(started[1:]), frozenset(reached))


def _calls(lines: Iterable[str]) -> Iterator[tuple[str, str, str]]:
    """Yield each system call, its arguments and its result; a call that another process interrupts is put together."""
    begun: dict[str, str] = {}
    for line in lines:
        if half := _UNFINISHED.match(line):
            begun[half[1]] = half[2]
            continue
        if rest := _RESUMED.match(line):
            line = f"{rest[1]} {begun.pop(rest[1], '')}{rest[2]}"  # noqa: PLW2901 - the whole call
        if whole := _LINE.match(line):
            yield whole[2], whole[3], whole[4]
