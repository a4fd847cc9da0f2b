"""Sandbox by bubblewrap: builds the command line; a program sees the system read-only, its zones, and nothing else.

The environment is not part of the command line, which every user of the machine can read: the caller passes exactly
the variables of the program, since the program can also read the environment of the bubblewrap process around it.
"""

from __future__ import annotations

import functools
import os
import stat
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from sayso.core.realpath import resolve
from sayso.errors import ToolError
from sayso.tools.exec.processes import find_program

_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
# Files that programs look up. Never all of /etc: it holds the machine's secrets.
_ETC = (
    *("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "alternatives"),
    *("passwd", "group", "nsswitch.conf", "protocols", "services"),
    *("localtime", "timezone", "locale.alias", "locale.conf", "mime.types", "os-release", "terminfo"),
    *("ssl/certs", "ssl/openssl.cnf", "pki/tls/certs", "pki/ca-trust/extracted", "crypto-policies"),
)
_ETC_OF_NETWORKS = ("resolv.conf", "hosts", "host.conf", "gai.conf")
_OF_THE_KERNEL = ("/proc", "/dev", "/sys")
# Not PATH: a folder in it may be one that an agent writes in.
_PLACES = "/usr/bin:/bin:/usr/local/bin:/run/current-system/sw/bin"
_ISOLATION = (
    *("--unshare-all", "--unshare-user", "--die-with-parent", "--new-session"),
    *("--cap-drop", "ALL"),
)
_TRIAL_SECONDS = 10


class Mount(NamedTuple):
    """Bind mount: a folder or file of the machine, at the same path in the sandbox."""

    path: str
    writable: bool


class _Access(IntEnum):
    """Access of a program beneath a path; of two for the same path the higher one applies."""

    WRITE = 0
    READ = 1
    NONE = 2


def bwrap_command(
    argv: Sequence[str],
    *,
    program: str,
    folder: str,
    mounts: Sequence[Mount],
    hidden: Sequence[str],
    network: bool,
    frozen: Sequence[str] = (),
    readable: Sequence[str] = (),
) -> list[str]:
    """Return the command line that runs `program` with the arguments after `argv[0]` confined to the mounts.

    What is `hidden` is empty or cannot be opened; what is `frozen` cannot be changed; `readable` adds folders such as
    those of an interpreter outside /usr. Only what exists can be hidden or frozen: a program can create what does not.
    All paths have to be real ones, without a link in them.

    Raises:
        ToolError: a path cannot be confined to, hidden or frozen, or the program would not see itself.
    """
    plan = _plan([*mounts, *(Mount(path, writable=False) for path in readable)], frozen=frozen, hidden=hidden)
    _check_seen(program, plan)
    _check_seen(folder, plan)
    return [
        find_program("bwrap", _PLACES) or "/usr/bin/bwrap",
        *_ISOLATION,
        *(["--share-net"] if network else []),
        *_system(network=network),
        *_mounting(plan),
        *("--remount-ro", "/"),
        *("--chdir", folder),
        *("--", program, *argv[1:]),
    ]


@functools.cache
def unavailable_reason() -> str | None:
    """Return why the sandbox is unavailable on this machine and what to do, or None; probes once."""
    if sys.platform != "linux":
        return "programs can be confined only on Linux: run this there, or without confinement"
    if find_program("bwrap", _PLACES) is None:
        return "programs cannot be confined without bubblewrap: install the package `bubblewrap` (Debian: apt install)"
    trial = bwrap_command(["true"], program="/bin/true", folder="/usr", mounts=[], hidden=[], network=False)
    try:
        done = subprocess.run(trial, capture_output=True, env={}, timeout=_TRIAL_SECONDS, check=False)  # noqa: S603 - ours
    except (OSError, subprocess.TimeoutExpired) as error:
        return _not_permitted(str(error))
    return _not_permitted(done.stderr.decode(errors="replace")) if done.returncode else None


def _not_permitted(words: str) -> str:
    return (
        f"programs cannot be confined since bubblewrap does not work here ({' '.join(words.split())}): permit user "
        "namespaces (`sysctl user.max_user_namespaces=10000 kernel.unprivileged_userns_clone=1`; on Ubuntu "
        "`sysctl kernel.apparmor_restrict_unprivileged_userns=0`; a container needs a seccomp profile that does)"
    )


def _plan(mounts: Iterable[Mount], *, frozen: Iterable[str], hidden: Iterable[str]) -> dict[str, _Access]:
    """Map every path that gets a mount of its own to its access."""
    plan: dict[str, _Access] = {}
    for path, writable in mounts:
        _check_mount(path)
        plan[path] = max(_Access.WRITE if writable else _Access.READ, plan.get(path, _Access.WRITE))
    for path in frozen:
        _freeze(plan, path)
    for path in hidden:
        _hide(plan, path)
    for path in list(plan):
        for between in _between(path, plan):
            plan.setdefault(between, _Access.WRITE)
    return plan


def _freeze(plan: dict[str, _Access], path: str) -> None:
    _check_real(path)
    plan.update({mounted: _Access.READ for mounted in plan if _is_beneath(mounted, path)})
    if _can_be_covered(path, plan):
        plan[path] = _Access.READ


def _hide(plan: dict[str, _Access], path: str) -> None:
    _check_real(path)
    for mounted in [mounted for mounted in plan if _is_beneath(mounted, path)]:
        del plan[mounted]
    if _can_be_covered(path, plan):
        plan[path] = _Access.NONE


def _can_be_covered(path: str, plan: Mapping[str, _Access]) -> bool:
    """Whether the path exists, and is visible to the program."""
    nearest = _nearest(path, [*plan, *_SYSTEM])
    if nearest is None or plan.get(nearest) is _Access.NONE or not os.path.lexists(path):
        return False
    facts = os.lstat(path)
    if not stat.S_ISDIR(facts.st_mode) and facts.st_nlink > 1:
        raise ToolError(f"{path!r} cannot be protected in the sandbox: the file has a second name (a hard link)")
    return True


def _between(path: str, plan: Mapping[str, _Access]) -> Iterator[str]:
    """Yield the folders from a writable mount down to a mount in it.

    Each becomes a mount of its own, since only mount points cannot be renamed: with `.git` renamed, a frozen
    `.git/hooks` could be created anew.
    """
    above = _nearest(os.path.dirname(path), plan)  # noqa: PTH120 - a text in, a text out
    if above is None or plan[above] is not _Access.WRITE:
        return
    names = path.removeprefix(above).strip("/").split("/")
    for depth in range(1, len(names)):
        yield "/".join((above, *names[:depth]))


def _mounting(plan: Mapping[str, _Access]) -> Iterator[str]:
    # A mount covers all that was mounted beneath it before, so that the upper ones have to come first.
    for path in sorted(plan, key=lambda path: path.count("/")):
        match plan[path]:
            case _Access.WRITE:
                yield from ("--bind", path, path)
            case _Access.READ:
                yield from ("--ro-bind", path, path)
            case _Access.NONE if stat.S_ISDIR(os.lstat(path).st_mode):
                yield from ("--tmpfs", path, "--remount-ro", path)
            case _Access.NONE:  # a device on a mount without devices: it cannot be opened
                yield from ("--ro-bind", "/dev/null", path)


def _system(*, network: bool) -> Iterator[str]:
    for path in _SYSTEM:
        if os.path.islink(path):  # noqa: PTH114 - a text
            yield from ("--symlink", os.readlink(path), path)  # noqa: PTH115 - a text
        else:
            yield from ("--ro-bind-try", path, path)
    for name in (*_ETC, *_ETC_OF_NETWORKS) if network else _ETC:
        yield from ("--ro-bind-try", f"/etc/{name}", f"/etc/{name}")
    yield from ("--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--tmpfs", "/run")  # noqa: S108 - a fresh one


def _is_beneath(path: str, top: str) -> bool:
    return path == top or path.startswith(f"{top}/")


def _nearest(path: str, tops: Iterable[str]) -> str | None:
    return max((top for top in tops if _is_beneath(path, top)), key=len, default=None)


def _check_mount(path: str) -> None:
    _check_real(path)
    if path == "/" or _nearest(path, _OF_THE_KERNEL) is not None:
        raise ToolError(f"{path!r} cannot be part of the sandbox: it would open the machine; name a folder of files")
    if not os.path.lexists(path):
        raise ToolError(f"{path!r} cannot be part of the sandbox: it does not exist; create it first")


def _check_real(path: str) -> None:
    """Refuse a link, whose target can change at any time, and which cannot be mounted over."""
    if (real := _real(path)) != path:
        raise ToolError(f"{path!r} cannot be part of the sandbox: it is no real path, but leads to {real!r}")


def _real(path: str) -> str:
    try:
        return resolve(path)
    except OSError as error:
        raise ToolError(f"{path!r} cannot be part of the sandbox: {error.strerror}") from None


def _check_seen(path: str, plan: Mapping[str, _Access]) -> None:
    for each in (path, _real(path)):
        nearest = _nearest(each, [*plan, *_SYSTEM])
        if nearest is None or plan.get(nearest) is _Access.NONE:
            raise ToolError(
                f"{path!r} cannot be seen in the sandbox: {each!r} lies outside /usr and every zone, or is hidden; "
                "name its folder as `readable`"
            )
