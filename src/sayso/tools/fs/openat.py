"""openat2 without symlinks (TOCTOU): opens folders from a descriptor by the judged names; a link was put there since.

Where the kernel has `openat2` it walks the names at once; elsewhere each folder is opened from its parent.

Tests: tests/tools/fs/test_directory.py
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import sys
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any, Literal

import msgspec

from sayso.errors import ToolError

FOLDER: int = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

_OPENAT2 = 437  # the same number on every architecture but Alpha
_NO_MAGICLINKS, _NO_SYMLINKS, _BENEATH = 0x02, 0x04, 0x08
_MOST_BYTES = 4095  # the kernel's limit of a path
# A `struct open_how`: flags, mode, resolve. No O_NOFOLLOW, with which a link at the end is reported as "not a folder".
_HOW = (ctypes.c_uint64 * 3)(FOLDER & ~os.O_NOFOLLOW, 0, _BENEATH | _NO_SYMLINKS | _NO_MAGICLINKS)
_TRIES = 100  # the kernel gives up for now if something is moved on the way
_MISSING = {errno.ENOSYS, errno.EPERM}  # an old kernel, or a filter that does not know the call

_WORDS = {
    errno.ENOENT: "is not there, or a folder on the way to it is not",
    errno.ENOTDIR: "is no folder, or leads through something that is none",
    errno.ELOOP: "is or leads through a link that was not there when it was judged",
    errno.EXDEV: "is on another file system than the folder that it would have to be moved to",
    errno.EEXIST: "is there already",
    errno.EISDIR: "is a folder",
    errno.ENXIO: "is no regular file",
    errno.EACCES: "is out of reach: the operating system does not permit it",
    errno.EPERM: "is out of reach: the operating system does not permit it",
    errno.EROFS: "is on a file system that is read-only",
    errno.ENOSPC: "cannot be written: there is no space left",
    errno.EDQUOT: "cannot be written: there is no space left for this user",
    errno.EFBIG: "cannot be written: the operating system does not permit files that large",
    errno.ENAMETOOLONG: "has a name in it that is too long for the file system",
}

FileKind = Literal["file", "folder", "link", "other"]


class FileStat(msgspec.Struct, frozen=True, kw_only=True):
    """Stat of a file: its kind, size and mode, and the facts that identify this version of it."""

    kind: FileKind
    identity: tuple[int, int]
    size: int
    links: int
    mode: int
    mtime_ns: int
    ctime_ns: int

    @classmethod
    def from_stat(cls, status: os.stat_result) -> FileStat:
        """Convert an `os.stat_result`; `mode` is without the kind."""
        return cls(
            kind=file_kind(status),
            identity=(status.st_dev, status.st_ino),
            size=status.st_size,
            links=status.st_nlink,
            mode=stat.S_IMODE(status.st_mode),
            mtime_ns=status.st_mtime_ns,
            ctime_ns=status.st_ctime_ns,
        )


def file_kind(status: os.stat_result) -> FileKind:
    """Return the kind of a file as a word."""
    if stat.S_ISREG(status.st_mode):
        return "file"
    if stat.S_ISDIR(status.st_mode):
        return "folder"
    return "link" if stat.S_ISLNK(status.st_mode) else "other"


@contextmanager
def os_errors_explained(path: str) -> Generator[None]:
    """Translate an OSError to a `ToolError` about the path as it was given."""
    try:
        yield
    except OSError as error:
        words = _WORDS.get(error.errno or 0) or f"cannot be used: {error.strerror or error}"
        raise ToolError(f"{path!r} {words}") from error


@contextmanager
def closing_fd(fd: int) -> Generator[int]:
    """Close a file descriptor at the end of the block."""
    try:
        yield fd
    finally:
        os.close(fd)


def split_path(path: str) -> list[bytes]:
    """Split a path into names, an empty list for the folder itself; refuse `..`, empty names and absolute paths."""
    try:
        names = path.encode().split(b"/") if path else []
    except UnicodeEncodeError:
        raise ToolError(f"{path!r} has half a character in it") from None
    if b"\0" in path.encode():
        raise ToolError(f"{path!r} has a NUL character in it")
    if {b"", b".", b".."} & set(names):
        raise ToolError(f"{path!r} has an empty name, '.' or '..' in it; name the place that it leads to")
    return names


def open_folder(folder: int, names: Sequence[bytes], *, portable: bool) -> int:
    """Return a descriptor of the folder that the names lead to; the given descriptor is consumed."""
    at_once = sys.platform == "linux" and not portable
    here = folder
    for part in _joined(names) if at_once else names:
        with closing_fd(here):
            here = _open_with_openat2(here, part) if at_once else _step(here, part)
    return here


def open_or_make_folder(folder: int, names: Sequence[bytes], *, mode: int) -> int:
    """Open a folder as `open_folder` does, and create missing folders."""
    here = folder
    for name in names:
        with closing_fd(here):
            here = _step_or_make(here, name, mode)
    return here


def fsync_folder(folder: int) -> None:
    """Make the names in a folder durable."""
    try:
        readable = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
    except PermissionError:
        return  # a folder that may be changed but not listed; the system flushes it in its own time
    with closing_fd(readable):
        try:
            os.fsync(readable)
        except OSError as error:
            if error.errno != errno.EINVAL:  # a file system that has nothing to flush
                raise


def _step(folder: int, name: bytes) -> int:
    try:
        return os.open(name, FOLDER, dir_fd=folder)
    except NotADirectoryError:
        if stat.S_ISLNK(os.lstat(name, dir_fd=folder).st_mode):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP)) from None
        raise


def _step_or_make(folder: int, name: bytes, mode: int) -> int:
    try:
        return _step(folder, name)
    except FileNotFoundError:
        with suppress(FileExistsError):  # another process has created it; it is opened like any other
            os.mkdir(name, mode, dir_fd=folder)
            fsync_folder(folder)
        return _step(folder, name)


def _open_with_openat2(folder: int, path: bytes) -> int:
    number = errno.EAGAIN
    for _ in range(_TRIES):
        handle = _openat2()(_OPENAT2, folder, path, ctypes.byref(_HOW), ctypes.sizeof(_HOW))
        if handle >= 0:
            return handle
        number = ctypes.get_errno()
        if number in _MISSING:
            return open_folder(os.dup(folder), path.split(b"/"), portable=True)
        if number not in {errno.EAGAIN, errno.EINTR}:
            break
    raise OSError(number, os.strerror(number))


def _joined(names: Sequence[bytes]) -> Iterator[bytes]:
    """Join the names to paths of at most the kernel's length."""
    path = b""
    for name in names:
        if path and len(path) + 1 + len(name) > _MOST_BYTES:
            yield path
            path = name
        else:
            path = path + b"/" + name if path else name
    if path:
        yield path


@cache
def _openat2() -> Any:  # noqa: ANN401 - a function of C
    syscall = ctypes.CDLL(None, use_errno=True).syscall
    syscall.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_size_t]
    syscall.restype = ctypes.c_long
    return syscall
