"""Safe reading of hand-written files: whole, regular files only, with a size limit, as UTF-8.

Tests: tests/config/test_yaml_toml.py
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import NamedTuple

from sayso.errors import Mistake, PolicyError


class Mark(NamedTuple):
    """Position in a file: line and column, both counted from 1."""

    line: int
    column: int


class FileSpec(NamedTuple):
    """Requirements of a kind of file: its limits, and the advice for one that is missing, empty or of another kind."""

    what: str
    missing: str
    empty: str
    start: str
    largest: int


def read_bytes(path: Path, spec: FileSpec) -> bytes:
    """Read a file up to one byte over the size limit, which `check_size` then refuses."""
    try:
        return _read_regular_file(path, spec.largest + 1)
    except FileNotFoundError:
        raise file_error(str(path), f"there is no such file; {spec.missing}") from None
    except (OSError, ValueError) as failure:  # ValueError: an impossible path, such as one with a NUL
        reason = failure.strerror if isinstance(failure, OSError) else failure
        raise file_error(str(path), f"this cannot be read ({reason}); check its name and who may read it") from None


def _read_regular_file(path: Path, most: int) -> bytes:
    # Checked before it is opened, because opening a device may have effects, and after, because the file may have been
    # replaced meanwhile (TOCTOU). O_NONBLOCK, which Windows lacks, keeps a pipe from blocking the second check.
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
    """Refuse a content over the size limit."""
    if len(content) > spec.largest:
        raise file_error(source, f"this is larger than {spec.largest // 1_000_000} MB; {spec.what} has to be smaller")


def decode(content: bytes, source: str, spec: FileSpec) -> str:
    """Decode UTF-8, without a byte order mark."""
    check_size(content, source, spec)
    content = content.removeprefix(b"\xef\xbb\xbf")  # the byte order mark
    try:
        return content.decode()
    except UnicodeDecodeError as failure:
        mark = mark_at_end(content[: failure.start].decode())
        raise file_error(source, "this is not UTF-8; save it as UTF-8", mark) from None


def mark_at_end(text: str) -> Mark:
    """Return the position of the end of a text."""
    return Mark(text.count("\n") + 1, len(text) - text.rfind("\n"))


def file_error(source: str, problem: str, mark: Mark | None = None) -> PolicyError:
    """Build the error for one mistake in a file."""
    return PolicyError([Mistake(source, *(mark or (None, None)), problem)])
