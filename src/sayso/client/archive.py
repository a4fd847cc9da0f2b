"""Archive file of pruned requests and audit entries; their hash chain still verifies.

Tests: tests/client/test_retention.py
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from sayso.core import audit
from sayso.core.json_codec import request_to_dict, to_json
from sayso.errors import AuditError, StoreError

if TYPE_CHECKING:
    from sayso.core.model import ApprovalRequest

_VERSION = 1


class _Record(msgspec.Struct, omit_defaults=True):
    """One line of the archive: header, request, or sealed audit entry."""

    archive: int | None = None
    after: audit.EntryRef | None = None  # the entry before the first one of a batch
    request: msgspec.Raw = msgspec.Raw(b"")
    number: int | None = None
    line: str = ""
    hash: str = ""


class Archive:
    """New private file with one JSON object per line (JSON Lines); each batch is synced to disk."""

    def __init__(self, path: Path) -> None:
        """Set the path; the file is created with the first batch."""
        self.path = path
        self._file: int | None = None

    def add_requests(self, requests: Iterable[ApprovalRequest]) -> None:
        """Append requests."""
        self._write([f'{{"request":{to_json(request_to_dict(each))}}}'.encode() for each in requests])

    def add_entries(self, after: audit.EntryRef, entries: Iterable[audit.SealedEntry]) -> None:
        """Append audit entries that follow `after`, once their chain is verified.

        Raises:
            AuditError: the entries were changed.
        """
        page = list(entries)
        audit.verify_page(after, page)
        records = [_Record(number=number, line=line.decode(), hash=sealed) for number, line, sealed in page]
        self._write(msgspec.json.encode(each) for each in [_Record(after=after), *records])

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            os.close(self._file)

    def _write(self, lines: Iterable[bytes]) -> None:
        """Append whole lines, and fsync."""
        try:
            if self._file is None:
                self._file = new_file(self.path)
                lines = [msgspec.json.encode(_Record(archive=_VERSION)), *lines]
                _sync_folder(self.path)
            _write_all(self._file, b"".join(line + b"\n" for line in lines))
            os.fsync(self._file)
        except OSError as error:
            raise StoreError(
                f"the archive {self.path} cannot be written ({error.strerror}); what it lacks is still in the store"
            ) from error


def new_file(path: Path) -> int:
    """Create a file, private to its owner; never overwrite.

    Raises:
        StoreError: the file exists, or cannot be created.
    """
    try:
        return os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    except FileExistsError:
        raise StoreError(f"{path} is there already; name another file") from None
    except OSError as error:
        raise StoreError(f"{path} cannot be written ({error.strerror}); name another place") from None


def _write_all(file: int, content: bytes) -> None:
    while content:
        content = content[os.write(file, content) :]


def _sync_folder(path: Path) -> None:
    folder = os.open(path.absolute().parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def verify(path: Path, known: audit.EntryRef | None = None) -> tuple[audit.EntryRef, audit.EntryRef] | None:
    """Verify the chain in an archive; return the entry before its first and its last one, or None without entries.

    `known` is an entry that was noted earlier; if the archive has that number, the hash must be the same.

    Raises:
        AuditError: names the first entry that was changed, dropped or moved.
        StoreError: the file is not an archive, or cannot be read.
    """
    start: audit.EntryRef | None = None
    end: audit.EntryRef | None = None
    try:
        for record in _records(path):
            if record.after is not None:
                start = start or record.after
                end = end or record.after
                if record.after != end:
                    raise AuditError(f"the archive {path} lacks what comes after audit entry {end[0]}")
                audit.check_known_entry(end, known)
            if record.number is not None:
                if end is None:
                    raise AuditError(f"the archive {path} does not say what audit entry {record.number} comes after")
                end = audit.verify_page(end, [(record.number, record.line.encode(), record.hash)])
                audit.check_known_entry(end, known)
    except (OSError, UnicodeEncodeError) as error:
        raise StoreError(f"the archive {path} cannot be read: {error}") from error
    return None if start is None or end is None else (start, end)


def join(paths: Sequence[Path], start: audit.EntryRef, known: audit.EntryRef | None = None) -> audit.EntryRef | None:
    """Verify archives, named in any order: each continues the chain of an older one, and the store's audit the last.

    Returns `known`, an entry that was noted earlier, if the archives do not contain it; then the store must.

    Raises:
        AuditError: names the first entry that was changed, dropped or moved.
        StoreError: a file is not an archive, or cannot be read.
    """
    ends = [(path, found) for path in dict.fromkeys(paths) if (found := verify(path, known)) is not None]
    ends.sort(key=lambda each: (each[1][0][0], each[1][1][0]))
    places = [(str(path), first) for path, (first, _) in ends] + [("the store", start)]
    for (path, (_, last)), (place, first) in zip(ends, places[1:], strict=True):
        if last != first:
            raise AuditError(
                f"{path} ends with audit entry {last[0]}, but {place} goes on after entry {first[0]}; name all archives"
            )
    is_there = known is not None and any(first[0] <= known[0] <= last[0] for _, (first, last) in ends)
    return None if is_there else known


def start(path: Path) -> audit.EntryRef | None:
    """Return the audit entry after which the entries of an archive begin; None if it has none."""
    return next((record.after for record in _records(path) if record.after is not None), None)


def _records(path: Path) -> Iterator[_Record]:
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.endswith(b"\n") and number > 1:
                return  # a partial write: its record is still in the store
            try:
                record = msgspec.json.decode(line, type=_Record)
            except (msgspec.MsgspecError, UnicodeDecodeError) as error:
                raise StoreError(f"line {number} of {path} is no line of an archive: {error}") from None
            if number == 1 and record.archive != _VERSION:
                raise StoreError(f"{path} is no archive that this sayso can read; it begins with {line[:40]!r}")
            yield record
