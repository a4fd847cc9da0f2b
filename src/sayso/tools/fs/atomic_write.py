"""Writes and removes files in an open folder so that each is whole, and nothing but what was meant is lost.

A file is written under a name that nobody knows (`.sayso-….part`) and then put in its place. Who is killed
meanwhile may leave such a file behind, with the new content or the one that was to go: nobody reads it, no name comes
twice, and it may be deleted whenever nobody writes. (Without the calls of Linux it can be a second name of a new file.)
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
from sayso.tools.fs.openat import FileStat, fsync_folder

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_OLD = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
_PERMISSIONS = 0o777  # without setuid, setgid and the sticky bit
_OWNER_WRITES = 0o200
_NOREPLACE, _EXCHANGE = 1, 2
# No such call, a file system that cannot do it, or a filter; if it is something else, the other way fails as well.
_UNSUPPORTED = {errno.ENOSYS, errno.EINVAL, errno.EPERM, errno.EOPNOTSUPP}


class DirFdPath(NamedTuple):
    """A name in an open folder, and the way to it as it was given."""

    folder: int
    name: bytes
    path: str
    portable: bool


class _TempFile(NamedTuple):
    name: bytes
    file: int


def create(place: DirFdPath, data: bytes) -> FileStat:
    """Write a file where nothing is; what somebody else puts there meanwhile stays."""
    if _is_there(place):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
    # Made with the mode that it will have: the kernel subtracts the umask, which cannot be read without changing it
    # for all threads.
    with _temp_file(place, data, mode=0o666) as temp:
        _move_without_replacing(place._replace(name=temp.name), place)
        return _done(place, temp)


def replace(place: DirFdPath, data: bytes, facts: FileStat) -> FileStat:
    """Write a file instead of the one with these facts."""
    check_replaceable(place.path, facts)
    with _locked(place, facts) as old, _temp_file(place, data, mode=0o600) as temp:
        with suppress(PermissionError):
            os.fchown(temp.file, old.st_uid, old.st_gid)
        made = os.fstat(temp.file)
        if (made.st_uid, made.st_gid) != (old.st_uid, old.st_gid):  # the permissions would be for somebody else
            raise ToolError(f"{place.path!r} belongs to a user or group that a new file cannot be given to")
        os.fchmod(temp.file, facts.mode & _PERMISSIONS)
        _check_plain(place)
        _check_same(place, facts)
        _exchange(place, temp, facts)
        return _done(place, temp)


def remove(place: DirFdPath, facts: FileStat, trash: DirFdPath | None) -> None:
    """Remove the file with these facts, or move it to the place in the trash, whose name has to be new."""
    if facts.kind != "file":
        raise ToolError(f"{place.path!r} is no regular file, and nothing else is deleted")
    # Moved first and looked at then: what has a name that nobody else knows cannot become something else.
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


def restore(source: DirFdPath, target: DirFdPath) -> None:
    """Move a file that was removed to where nothing is."""
    _move_without_replacing(source, target)
    fsync_folder(target.folder)
    fsync_folder(source.folder)


def _move_without_replacing(source: DirFdPath, target: DirFdPath) -> None:
    """Move a file, of which only the caller knows the name, to where nothing is; never replace anything."""
    if target.portable or not _rename(source, target, _NOREPLACE):
        os.link(source.name, target.name, src_dir_fd=source.folder, dst_dir_fd=target.folder, follow_symlinks=False)
        os.unlink(source.name, dir_fd=source.folder)


@contextmanager
def _locked(place: DirFdPath, facts: FileStat) -> Generator[os.stat_result]:
    """Hold the file with these facts, so that of all who would change it here only one does."""
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
        return  # a file system without locks: what others do shows when the file is moved


@contextmanager
def _temp_file(place: DirFdPath, data: bytes, *, mode: int) -> Generator[_TempFile]:
    """Hold a new file with these bytes beside the place; it is gone afterwards, unless it was moved."""
    temp = _TempFile(name := _unknown_name(), os.open(name, _NEW, mode, dir_fd=place.folder))
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(temp.file, rest) :]
        os.fsync(temp.file)
        yield temp
    finally:
        with suppress(OSError):
            # An exchange may have put somebody else's file under this name.
            if os.path.samestat(os.lstat(name, dir_fd=place.folder), os.fstat(temp.file)):
                os.unlink(name, dir_fd=place.folder)
        os.close(temp.file)


def _exchange(place: DirFdPath, temp: _TempFile, facts: FileStat) -> None:
    """Put the draft in its place and remove what was there, if that is the file with these facts."""
    away = place._replace(name=temp.name)
    if place.portable or not _rename(away, place, _EXCHANGE):
        # What somebody who takes no lock puts there just before this line is lost; only an exchange would show it.
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
    """Say where somebody else's file is now, if it cannot be put back."""
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
    """Refuse a file that nothing can be put in the place of."""
    if facts.kind != "file":
        raise ToolError(f"{path!r} is no regular file, and nothing else is written")
    if facts.links > 1:
        raise ToolError(
            f"{path!r} is one of {facts.links} names (hard links) of a file, of which writing would make two"
        )
    if not facts.mode & _OWNER_WRITES:  # putting another file in its place would get round that
        raise ToolError(f"{path!r} is write-protected (its mode is {facts.mode:04o})")


def _check_plain(place: DirFdPath) -> None:
    """Refuse a file with access rules besides its mode: the new one would be without them, and open to others."""
    if sys.platform != "linux":
        return
    file = _open_to_lock(place)
    if file is None:
        return
    try:
        found = os.listxattr(file)
    except OSError:  # a file system without them
        found = []
    finally:
        os.close(file)
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
    """Rename as the flag says; false if that cannot be had here."""
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
