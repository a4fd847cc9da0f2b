"""Path resolution without limits: symlinks followed folder by folder, as the kernel does, for paths of any length.

Past PATH_MAX, `os.path.realpath` silently stops resolving and may return a link that leads out as if it stayed inside.
Here each folder is opened relative to the handle of its parent (openat), so no path is too long, and a path that cannot
be resolved is an error.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Callable
from functools import cache
from typing import Never

from sayso.errors import PathEscape

_FOLDER: int = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_MOST_LINKS = 40  # as many as the kernel follows
_MAGIC_LINK_FILE_SYSTEMS = {0x9FA0, 0x73636673, 0x5A3C69F0}  # the types of procfs, securityfs and apparmorfs


def resolve(path: str, *, beneath: str | None = None) -> str:
    """Return the absolute real path; its last components need not exist.

    With `beneath`, which has to be a real path itself, `path` is relative to it and must not lead out at any point: a
    `..` above it or an absolute link raises `PathEscape`. A path that cannot be resolved raises OSError.
    """
    _check_path(path)
    if beneath is None:
        if not path.startswith("/"):
            raise OSError(errno.EINVAL, "the path is not absolute")
    elif path.startswith("/"):
        _raise_escape()
    walk = _Walk(beneath)
    try:
        return walk.follow(path)
    finally:
        walk.close()


def absolute(path: str | os.PathLike[str]) -> str:
    """Return the absolute path, with links unresolved."""
    return os.path.abspath(os.fspath(path))  # noqa: PTH100 - str in, str out


def may_exist(path: str) -> bool:
    """Whether something is at a path, if only a broken link; True if that cannot be found out."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except (OSError, ValueError):  # too long, not allowed, or no path at all
        return True
    return True


class _Walk:
    """Path walk: a handle of the current folder, and the names from `/` to it."""

    def __init__(self, beneath: str | None) -> None:
        self._beneath = beneath is not None
        self._links = 0
        self._folder = os.open("/", _FOLDER)
        self._names: list[str] = []
        try:
            for name in [] if beneath is None else _root_names(beneath):
                self._open(name)  # refuses a link, which was put there after the root was resolved
                self._names.append(name)
            # Of the top folder and of each folder entered below it, compared again on the way up.
            self._identities = [_identity(os.fstat(self._folder))]
        except OSError:
            self.close()
            raise

    def close(self) -> None:
        os.close(self._folder)

    def follow(self, path: str) -> str:
        remaining = _components(path)[::-1]
        while remaining:
            name = remaining.pop()
            if name == "..":
                self._ascend()
                continue
            try:
                facts = os.lstat(name, dir_fd=self._folder)
            except FileNotFoundError:
                if ".." in remaining:
                    raise
                return self._path(name, *reversed(remaining))
            if stat.S_ISLNK(facts.st_mode):
                remaining += self._read_link(name)[::-1]
            elif stat.S_ISDIR(facts.st_mode):
                self._descend(name, facts)
            elif remaining:
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
            else:
                return self._path(name)
        return self._path()

    def _path(self, *rest: str) -> str:
        return "/" + "/".join((*self._names, *(name for name in rest if name != ".")))

    def _open(self, name: str) -> None:
        folder = os.open(name, _FOLDER, dir_fd=self._folder)
        os.close(self._folder)
        self._folder = folder

    def _descend(self, name: str, facts: os.stat_result) -> None:
        if name != ".":
            self._open(name)
            self._names.append(name)
            self._identities.append(_identity(facts))

    def _ascend(self) -> None:
        if len(self._identities) == 1:
            if self._beneath:
                _raise_escape()
            return  # the folder above `/` is `/`
        self._open("..")
        self._names.pop()
        self._identities.pop()
        if self._identities[-1] != _identity(os.fstat(self._folder)):
            raise OSError(errno.EAGAIN, "a folder on the way was moved meanwhile")

    def _read_link(self, name: str) -> list[str]:
        self._links += 1
        if self._links > _MOST_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        if _file_system_type(self._folder) in _MAGIC_LINK_FILE_SYSTEMS:
            raise OSError(errno.ELOOP, "a link of the kernel's does not lead where its text says")
        text = os.readlink(name, dir_fd=self._folder)
        if text.startswith("/"):
            if self._beneath:
                _raise_escape()
            self._open("/")
            self._names.clear()
            del self._identities[1:]
        return _components(text)


def _components(path: str) -> list[str]:
    names = [name for name in path.split("/") if name]
    return [*names, "."] if path.endswith("/") and names else names


def _identity(facts: os.stat_result) -> tuple[int, int]:
    return facts.st_dev, facts.st_ino


def _root_names(path: str) -> list[str]:
    _check_path(path)
    names = _components(path)
    if not path.startswith("/") or "." in names or ".." in names:
        raise OSError(errno.EINVAL, "the folder to stay beneath is not a real path")
    return names


def _check_path(path: str) -> None:
    """Refuse a path that no file can have; the functions of `os` would raise other errors than OSError."""
    if not path:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    if "\0" in path:
        raise OSError(errno.EINVAL, "the path has a NUL character in it")
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        raise OSError(errno.EILSEQ, os.strerror(errno.EILSEQ)) from None


def _file_system_type(folder: int) -> int:
    return _file_system_type_reader()(folder) if sys.platform == "linux" else 0


@cache
def _file_system_type_reader() -> Callable[[int], int]:
    import ctypes  # noqa: PLC0415 - slow to import, and most paths contain no link

    fstatfs = ctypes.CDLL(None, use_errno=True).fstatfs

    def read(folder: int) -> int:
        facts = (ctypes.c_uint * 64)()  # larger than a `struct statfs`, whose first field is the type
        if fstatfs(folder, facts) != 0:
            raise OSError(ctypes.get_errno(), "the type of the file system cannot be read")
        return facts[0]

    return read


def _raise_escape() -> Never:
    raise PathEscape(errno.EXDEV, "the path leads out of the folder that it has to stay in")
