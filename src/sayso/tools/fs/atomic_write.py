"""Atomic writes and deletes in an open folder: write to a temporary file, lock, compare (TOCTOU), rename.

A file is written under a random name (`.sayso-….part`) and then moved to its place. A process that is killed meanwhile
may leave such a file behind, with the new or the old content: no program reads it, its name is never reused, and it may
be deleted when no write is under way. (Without the calls of Linux it can be a second name of a new file.)

Tests: tests/tools/fs/test_directory.py
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import secrets
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any, NamedTuple

import msgspec

from sayso.errors import ToolError
from sayso.tools.fs.openat import FileStat, closing_fd, fsync_folder

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_OLD = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
_PERMISSIONS = 0o777  # without setuid, setgid and the sticky bit
_OWNER_WRITES = 0o200
_NOREPLACE, _EXCHANGE = 1, 2
# No such call, a file system that cannot do it, or a filter; if it is something else, the other way fails as well.
_UNSUPPORTED = {errno.ENOSYS, errno.EINVAL, errno.EPERM, errno.EOPNOTSUPP}


class DirFdPath(NamedTuple):
    """Path relative to a descriptor: a name in an open folder, and the path as it was given."""

    folder: int
    name: bytes
    path: str
    portable: bool


class _TempFile(NamedTuple):
    name: bytes
    file: int


def create(place: DirFdPath, data: bytes) -> FileStat:
    """Create a file; one that another process creates meanwhile is kept, and an error."""
    if _is_there(place):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
    # Made with the mode that it will have: the kernel subtracts the umask, which cannot be read without changing it
    # for all threads.
    with _temp_file(place, data, mode=0o666) as temp:
        _move_without_replacing(place._replace(name=temp.name), place)
        return _done(place, temp)


def replace(place: DirFdPath, data: bytes, facts: FileStat) -> FileStat:
    """Replace the file with these facts (compare and swap)."""
    check_replaceable(place.path, facts)
    with _locked(place, facts) as old, _temp_file(place, data, mode=0o600) as temp:
        with suppress(PermissionError):
            os.fchown(temp.file, old.st_uid, old.st_gid)
        made = os.fstat(temp.file)
        if (made.st_uid, made.st_gid) != (old.st_uid, old.st_gid):  # the permissions would be for another user
            raise ToolError(f"{place.path!r} belongs to a user or group that a new file cannot be given to")
        os.fchmod(temp.file, facts.mode & _PERMISSIONS)
        _check_plain(place)
        _check_same(place, facts)
        _exchange(place, temp, facts)
        return _done(place, temp)


def remove(place: DirFdPath, facts: FileStat, trash: DirFdPath | None) -> None:
    """Remove the file with these facts, or move it to a new name in the trash."""
    if facts.kind != "file":
        raise ToolError(f"{place.path!r} is no regular file, and nothing else is deleted")
    # Moved first and compared then: a file under a random name cannot be replaced by another process.
    away = trash or place._replace(name=_unknown_name())
    with _locked(place, facts):
        os.rename(place.name, away.name, src_dir_fd=place.folder, dst_dir_fd=away.folder)
        if not _is_moved(away, facts):
            with _report_displaced_file(away, place):
                _move_without_replacing(away, place)
            raise _changed(place.path)
    if trash is None:
        os.unlink(away.name, dir_fd=away.folder)
    else:
        fsync_folder(trash.folder)
    fsync_folder(place.folder)


def _move_without_replacing(source: DirFdPath, target: DirFdPath) -> None:
    """Move a file with a random name to a path that does not exist; never replace a file."""
    if target.portable or not _rename(source, target, _NOREPLACE):
        os.link(source.name, target.name, src_dir_fd=source.folder, dst_dir_fd=target.folder, follow_symlinks=False)
        os.unlink(source.name, dir_fd=source.folder)


@contextmanager
def _locked(place: DirFdPath, facts: FileStat) -> Generator[os.stat_result]:
    """Hold the lock of the file with these facts, so that only one process changes it."""
    file = None
    try:
        _check_same(place, facts)
        file = _open_to_lock(place)
        _lock(place, file)
        yield _check_same(place, facts)
    except FileNotFoundError:
        raise _changed(place.path) from None
    finally:
        if file is not None:
            os.close(file)


def _open_to_lock(place: DirFdPath) -> int | None:
    try:
        return os.open(place.name, _OLD, dir_fd=place.folder)
    except PermissionError:
        return None  # a file that may be replaced or removed but not read


def _lock(place: DirFdPath, file: int | None) -> None:
    try:
        if file is not None:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise ToolError(f"{place.path!r} is locked: somebody else is changing it; look at it again") from None
    except OSError:
        return  # a file system without locks: a concurrent change is detected when the file is moved


@contextmanager
def _temp_file(place: DirFdPath, data: bytes, *, mode: int) -> Generator[_TempFile]:
    """Hold a temporary file with these bytes next to the target; it is deleted at the end, unless it was moved."""
    temp = _TempFile(name := _unknown_name(), os.open(name, _NEW, mode, dir_fd=place.folder))
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(temp.file, rest) :]
        os.fsync(temp.file)
        yield temp
    finally:
        with suppress(OSError):
            # An exchange may have put another process's file under this name.
            if os.path.samestat(os.lstat(name, dir_fd=place.folder), os.fstat(temp.file)):
                os.unlink(name, dir_fd=place.folder)
        os.close(temp.file)


def _exchange(place: DirFdPath, temp: _TempFile, facts: FileStat) -> None:
    """Exchange the temporary file with the target, and remove the old file if it is the one with these facts."""
    away = place._replace(name=temp.name)
    if place.portable or not _rename(away, place, _EXCHANGE):
        # A file put there without a lock just before this line is lost; only an exchange would detect it.
        os.rename(temp.name, place.name, src_dir_fd=place.folder, dst_dir_fd=place.folder)
        return
    if not _is_moved(away, facts):
        with _report_displaced_file(away, place):
            _rename(away, place, _EXCHANGE)
        raise _changed(place.path)
    os.unlink(temp.name, dir_fd=place.folder)


def _done(place: DirFdPath, temp: _TempFile) -> FileStat:
    fsync_folder(place.folder)
    return FileStat.from_stat(os.fstat(temp.file))


@contextmanager
def _report_displaced_file(away: DirFdPath, place: DirFdPath) -> Generator[None]:
    """Report the new name of another process's file, if it cannot be moved back."""
    try:
        yield
    except OSError as error:
        kept = os.fsdecode(away.name)
        raise ToolError(f"{place.path!r} was changed meanwhile, and what was there is called {kept!r} now") from error


def _is_there(place: DirFdPath) -> bool:
    try:
        os.lstat(place.name, dir_fd=place.folder)
    except FileNotFoundError:
        return False
    return True


def check_replaceable(path: str, facts: FileStat) -> None:
    """Refuse a file that cannot be replaced without loss."""
    if facts.kind != "file":
        raise ToolError(f"{path!r} is no regular file, and nothing else is written")
    if facts.links > 1:
        raise ToolError(
            f"{path!r} is one of {facts.links} names (hard links) of a file, of which writing would make two"
        )
    if not facts.mode & _OWNER_WRITES:  # replacing it would bypass that
        raise ToolError(f"{path!r} is write-protected (its mode is {facts.mode:04o})")


def _check_plain(place: DirFdPath) -> None:
    """Refuse a file with access rules besides its mode: the new file would lose them (an ACL)."""
    if sys.platform != "linux":
        return
    file = _open_to_lock(place)
    if file is None:
        return
    with closing_fd(file):
        try:
            found = os.listxattr(file)
        except OSError:  # a file system without them
            found = []
    if any(name.startswith("system.posix_acl") for name in found):
        raise ToolError(f"{place.path!r} has access rules of its own (an ACL), which writing would take away")


def _check_same(place: DirFdPath, facts: FileStat) -> os.stat_result:
    status = os.lstat(place.name, dir_fd=place.folder)
    if FileStat.from_stat(status) != facts:
        raise _changed(place.path)
    return status


def _is_moved(place: DirFdPath, facts: FileStat) -> bool:
    """Whether this is the file with these facts after a rename, which changes the ctime."""
    seen = FileStat.from_stat(os.lstat(place.name, dir_fd=place.folder))
    return seen == msgspec.structs.replace(facts, ctime_ns=seen.ctime_ns)


def _changed(path: str) -> ToolError:
    return ToolError(f"{path!r} was changed meanwhile; look at it again")


def _unknown_name() -> bytes:
    return f".sayso-{secrets.token_hex(16)}.part".encode()


def _rename(source: DirFdPath, target: DirFdPath, flag: int) -> bool:
    """Rename by `renameat2` with the flag; false if that is unsupported here."""
    renameat2 = _renameat2()
    if renameat2 is None:
        return False
    if renameat2(source.folder, source.name, target.folder, target.name, flag) == 0:
        return True
    number = ctypes.get_errno()
    if number in _UNSUPPORTED:
        return False
    raise OSError(number, os.strerror(number))


@cache
def _renameat2() -> Any:  # noqa: ANN401 - a function of C
    try:
        function = ctypes.CDLL(None, use_errno=True).renameat2
    except AttributeError:
        return None
    function.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint]
    return function
