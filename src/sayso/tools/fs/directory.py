"""Open directory: a folder held by descriptor, and all operations of the file tools below it.

The policy has judged a path below the folder, without links or `..`. Exactly that path is used here, from the
descriptor of the folder and never by an absolute path that could have been redirected since (TOCTOU): a link on the
path is refused. Every failure is a `ToolError` of one sentence.
"""

from __future__ import annotations

import os
import secrets
import threading
import weakref
from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from itertools import islice

import msgspec

from sayso.errors import ConfigurationError, ToolError
from sayso.tools.fs import atomic_write
from sayso.tools.fs.atomic_write import DirFdPath
from sayso.tools.fs.openat import (
    FOLDER,
    FileKind,
    FileStat,
    closing_fd,
    file_kind,
    open_folder,
    open_or_make_folder,
    os_errors_explained,
    split_path,
)

_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY | os.O_CLOEXEC
_LIST = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_CHUNK = 1 << 20
_OTHERS_WRITE = 0o022
_MOST_OF_A_NAME = 180  # bytes; with the time before it, a name in the trash fits wherever 255 bytes do
_NOT_READ = {"folder": "is a folder", "link": "is a link", "other": "is a device, a pipe or a socket"}


class FileContent(msgspec.Struct, frozen=True):
    """Content of a file, and its stat at that moment."""

    data: bytes
    stat: FileStat


class DirectoryEntry(msgspec.Struct, frozen=True):
    r"""Entry of a folder; bytes of its name that are not UTF-8 are shown as `\xff`, and no path leads there."""

    name: str
    kind: FileKind


class OpenDirectory(AbstractContextManager["OpenDirectory"]):
    """Open descriptor of a folder, which stays the same folder whatever happens to its path; thread-safe.

    A path is relative to the folder and has single slashes; the empty path is the folder itself.
    """

    def __init__(self, path: str, *, portable: bool = False) -> None:
        """Open a real absolute path.

        Args:
            path: no part of it may be a link.
            portable: do without the calls that only Linux has, which is slower; then a file that another
                process puts in the place of one that is being replaced can be lost.
        """
        self._path = path
        self._portable = portable
        self._lock = threading.Lock()
        try:
            with os_errors_explained(path):
                self._folder = self._open(path)
        except ToolError as error:
            raise ConfigurationError(f"the folder of a zone cannot be opened: {error}") from error
        self._closing = weakref.finalize(self, os.close, self._folder)
        status = os.fstat(self._folder)
        self.identity = (status.st_dev, status.st_ino)

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the descriptor; operations under way in other threads complete."""
        with self._lock:
            self._closing()

    def stat(self, path: str) -> FileStat | None:
        """Return the stat of a path, without following a link at the end, or None if it does not exist."""
        with os_errors_explained(path):
            try:
                with self._open_parent(path) as place:
                    return FileStat.from_stat(os.lstat(place.name, dir_fd=place.folder))
            except FileNotFoundError:
                return None

    def read(self, path: str, most: int) -> FileContent:
        """Read a regular file of at most `most` bytes, as a consistent snapshot."""
        with os_errors_explained(path), self._open_parent(path) as place:
            # Checked before it is opened, because opening a device or a pipe can already do something.
            _check_readable(path, os.lstat(place.name, dir_fd=place.folder))
            with closing_fd(os.open(place.name, _READ, dir_fd=place.folder)) as file:
                return _read_open_file(path, file, most)

    def list_entries(self, path: str, most: int) -> list[DirectoryEntry]:
        """List a folder, sorted; more than `most` names are refused."""
        with os_errors_explained(path):
            with closing_fd(self._enter(split_path(path), None)) as folder:
                readable = os.open(".", _LIST, dir_fd=folder)
            with closing_fd(readable):
                return _names(path, readable, most)

    def write(self, path: str, data: bytes, *, instead_of: FileStat | None, most: int) -> FileStat:
        """Write a whole file atomically, and return the stat of the new one; missing folders are made for a new file.

        Args:
            path: of the file.
            data: all of its bytes.
            instead_of: the file that must still be there, untouched; None if nothing may be there.
            most: more bytes than this are refused.
        """
        _check_size(path, data, most)
        mode = 0o777 if instead_of is None else None
        with os_errors_explained(path), self._open_parent(path, changing=True, mode=mode) as place:
            if instead_of is None:
                return atomic_write.create(place, data)
            return atomic_write.replace(place, data, instead_of)

    def check_write(self, path: str, data: bytes, *, instead_of: FileStat | None, most: int) -> None:
        """Refuse a write that is bound to fail, before a person is asked about it."""
        _check_size(path, data, most)
        if instead_of is not None:
            atomic_write.check_replaceable(path, instead_of)

    def delete(self, path: str, *, facts: FileStat, trash: str | None) -> str | None:
        """Delete the very file with these facts, or move it into the folder `trash` and return its path there."""
        with os_errors_explained(path), self._open_parent(path, changing=True) as place:
            if trash is None:
                atomic_write.remove(place, facts, None)
                return None
            moved = f"{trash}/{_name_in_trash(place.name)}"
            with ExitStack() as stack:
                with os_errors_explained(trash):
                    into = stack.enter_context(self._open_parent(moved, changing=True, mode=0o700))
                    _check_trash(trash, into.folder)
                atomic_write.remove(place, facts, into)
            return moved

    def duplicated_fd(self) -> AbstractContextManager[int]:
        """Hold a duplicate descriptor of the folder, which stays open if this object is closed meanwhile."""
        return closing_fd(self._dup_fd())

    def _open(self, path: str) -> int:
        if not path.startswith("/"):
            raise ToolError(f"{path!r} is not absolute")
        names = split_path(path[1:])
        return open_folder(os.open("/", FOLDER), names, portable=self._portable)

    @contextmanager
    def _open_parent(self, path: str, *, changing: bool = False, mode: int | None = None) -> Generator[DirFdPath]:
        """Hold the parent folder of a path; with a mode, missing folders are created."""
        names = split_path(path)
        if changing and not names:
            raise ToolError(f"{path!r} is the folder itself, and no file in it")
        with closing_fd(self._enter(names[:-1], mode)) as folder:
            yield DirFdPath(folder, names[-1] if names else b".", path, self._portable)

    def _enter(self, names: Sequence[bytes], mode: int | None) -> int:
        try:
            return open_folder(self._dup_fd(), names, portable=self._portable)
        except FileNotFoundError:
            if mode is None:
                raise
            return open_or_make_folder(self._dup_fd(), names, mode=mode)

    def _dup_fd(self) -> int:
        """Duplicate the descriptor for each use: a number closed by another thread may be reused for another folder."""
        with self._lock:
            if not self._closing.alive:
                raise ToolError(f"the folder {self._path!r} is closed; open it again")
            return os.dup(self._folder)


def _check_size(path: str, data: bytes, most: int) -> None:
    if len(data) > most:
        raise ToolError(f"{path!r} would have {len(data)} bytes, and {most} is the most that is written")


def _check_readable(path: str, status: os.stat_result) -> None:
    words = _NOT_READ.get(file_kind(status))
    if words is not None:
        raise ToolError(f"{path!r} {words}, and only regular files are read")


def _read_open_file(path: str, file: int, most: int) -> FileContent:
    before = os.fstat(file)
    _check_readable(path, before)
    if before.st_size > most:
        raise ToolError(f"{path!r} has {before.st_size} bytes, and {most} is the most that is read")
    # One byte more than expected reveals a file that has grown.
    data = _read_bytes(file, min(before.st_size + 1, most))
    facts = FileStat.from_stat(before)
    # Two writes within one clock tick differ only in the size.
    if len(data) != facts.size or FileStat.from_stat(os.fstat(file)) != facts:
        raise ToolError(f"{path!r} was changed while it was read; read it again")
    return FileContent(data, facts)


def _read_bytes(file: int, most: int) -> bytes:
    pieces: list[bytes] = []
    while most > 0 and (piece := os.read(file, min(most, _CHUNK))):
        pieces.append(piece)
        most -= len(piece)
    return b"".join(pieces)


def _names(path: str, folder: int, most: int) -> list[DirectoryEntry]:
    with os.scandir(folder) as found:
        raw = sorted(os.fsencode(each.name) for each in islice(found, most + 1))
    if len(raw) > most:
        raise ToolError(f"{path!r} has more than {most} names in it, which is the most that is listed")
    entries: list[DirectoryEntry] = []
    for name in raw:
        with suppress(FileNotFoundError):  # it was deleted meanwhile
            kind = file_kind(os.lstat(name, dir_fd=folder))
            entries.append(DirectoryEntry(name.decode(errors="backslashreplace"), kind))
    return entries


def _name_in_trash(name: bytes) -> str:
    short = name[:_MOST_OF_A_NAME].decode(errors="ignore")
    return f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(8)}-{short}"


def _check_trash(trash: str, folder: int) -> None:
    status = os.fstat(folder)
    if status.st_uid != os.geteuid() or status.st_mode & _OTHERS_WRITE:
        raise ToolError(f"{trash!r} cannot be the trash: it belongs to somebody else, or others may write into it")
