"""What is in a file that people write: read whole, only if it is a regular file of a fair size, as UTF-8."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import NamedTuple

from sayso.errors import Mistake, PolicyError


class Mark(NamedTuple):
    """A place in a file; both numbers count from 1."""

    line: int
    column: int


class FileSpec(NamedTuple):
    """What a file has to hold, and what to do if it is missing, empty, or does not start like one."""

    what: str
    missing: str
    empty: str
    start: str
    largest: int


def read_bytes(path: Path, spec: FileSpec) -> bytes:
    """Read a file; of a larger one than the form allows, a little more than that."""
    try:
        return _read_regular_file(path, spec.largest + 1)
    except FileNotFoundError:
        raise file_error(str(path), f"there is no such file; {spec.missing}") from None
    except (OSError, ValueError) as failure:  # ValueError: a path that no system can have, such as one with a NUL
        reason = failure.strerror if isinstance(failure, OSError) else failure
        raise file_error(str(path), f"this cannot be read ({reason}); check its name and who may read it") from None


def _read_regular_file(path: Path, most: int) -> bytes:
    # Looked at before it is opened, because opening a device may already do something, and after it, because the
    # file may be another one by then. O_NONBLOCK, which Windows lacks, keeps a pipe from holding up the second look.
    _check_regular(path.stat())
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with os.fdopen(descriptor, "rb") as file:
        _check_regular(os.fstat(descriptor))
        return file.read(most)


def _check_regular(status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        kind = "folder" if stat.S_ISDIR(status.st_mode) else "pipe, socket or device"
        raise OSError(errno.EINVAL, f"it is a {kind}, no regular file")


def check_size(content: bytes, source: str, spec: FileSpec) -> None:
    """Refuse more than the form allows."""
    if len(content) > spec.largest:
        raise file_error(source, f"this is larger than {spec.largest // 1_000_000} MB; {spec.what} has to be smaller")


def decode(content: bytes, source: str, spec: FileSpec) -> str:
    """Return the text, without a mark of byte order."""
    check_size(content, source, spec)
    content = content.removeprefix(b"\xef\xbb\xbf")  # the mark of byte order, which in UTF-8 says nothing
    try:
        return content.decode()
    except UnicodeDecodeError as failure:
        mark = mark_at_end(content[: failure.start].decode())
        raise file_error(source, "this is not UTF-8; save it as UTF-8", mark) from None


def mark_at_end(text: str) -> Mark:
    """Return the place where a text ends."""
    return Mark(text.count("\n") + 1, len(text) - text.rfind("\n"))


def file_error(source: str, problem: str, mark: Mark | None = None) -> PolicyError:
    """Build the error for one mistake in a file."""
    return PolicyError([Mistake(source, *(mark or (None, None)), problem)])
