"""Opening of a SQLite store: file checks, schema migrations, and the translation of errors into one sentence.

Tests: tests/stores/sqlite/test_store.py
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections.abc import Generator, Iterator
from functools import cache
from importlib import resources
from pathlib import Path

from sayso.errors import StoreError

_APPLICATION = 0x5A150  # SQLite's application_id of a sayso store
_BUSY_MS = 10_000
_PAUSE_SECONDS = 0.02
_SMALLEST = 512  # bytes: one page of the smallest kind


def connect(path: Path, *, synchronous: str) -> sqlite3.Connection:
    """Open the file, created private to its owner if it is new, and migrate it."""
    with translate_errors(path):
        with contextlib.suppress(FileExistsError):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        _check_size(path)
        connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        try:
            _prepare_with_retry(connection, path, synchronous)
        except BaseException:
            connection.close()
            raise
    return connection


def _check_size(path: Path) -> None:
    """Refuse a file too short for a database, which SQLite would treat as empty and overwrite.

    By its size and not by its content: closing any handle on the file would drop the locks that this process's other
    connections hold on it.
    """
    if 0 < path.stat().st_size < _SMALLEST:
        raise sqlite3.DatabaseError("file is not a database")


@contextlib.contextmanager
def translate_errors(path: Path) -> Generator[None]:
    """Translate errors of SQLite and the file system into one sentence with a remedy."""
    try:
        yield
    except sqlite3.Error as error:
        raise StoreError(_sentence(path, error)) from error
    except OSError as error:
        raise StoreError(
            f"the store {path} cannot be opened: {error.strerror}; choose a file in a folder that you may write to"
        ) from error


def _sentence(path: Path, error: sqlite3.Error) -> str:
    text = str(error)
    if "full" in text:
        return f"the store {path} cannot be written: the disk is full; make room, nothing acknowledged is lost"
    if "readonly" in text or "unable to open" in text:
        return f"the store {path} cannot be written: {text}; check the rights of the file and its folder"
    if "locked" in text or "busy" in text:
        return f"the store {path} is held by another process for too long ({text}); try again"
    if "not a database" in text or "malformed" in text or "corrupt" in text:
        return (
            f"the store {path} is damaged or not a SQLite file ({text}); "
            "sayso left it untouched: move it away or restore a copy"
        )
    return f"the store {path} failed: {text}"


def _prepare_with_retry(connection: sqlite3.Connection, path: Path, synchronous: str) -> None:
    """Prepare the file; retry while another process does, as the busy timeout does not cover all its locks."""
    deadline = time.monotonic() + _BUSY_MS / 1000
    while True:
        try:
            _prepare(connection, path, synchronous)
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() >= deadline:
                raise
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            time.sleep(_PAUSE_SECONDS)
        else:
            return


def _prepare(connection: sqlite3.Connection, path: Path, synchronous: str) -> None:
    connection.execute(f"PRAGMA busy_timeout = {_BUSY_MS}")
    latest = _migrations()
    connection.execute("BEGIN")  # one snapshot: another process may be creating the file
    version, application = _read_version(connection)
    foreign = application != _APPLICATION and (version > 0 or _has_tables(connection))
    connection.execute("COMMIT")
    if version > len(latest):
        raise StoreError(
            f"the store {path} has the form {version} of a newer sayso, and this one knows {len(latest)}; upgrade sayso"
        )
    if foreign:
        raise StoreError(f"{path} is a database of another program; choose another file for sayso's store")
    mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
    if mode != "wal":
        raise StoreError(f"the store {path} lies on a file system without shared memory; put it on a local disk")
    connection.execute(f"PRAGMA synchronous = {synchronous}")
    _migrate(connection, latest)


def _read_version(connection: sqlite3.Connection) -> tuple[int, int]:
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    return version, application


def _has_tables(connection: sqlite3.Connection) -> bool:
    return connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0] > 0


@cache
def _migrations() -> tuple[str, ...]:
    folder = resources.files("sayso.stores.sqlite") / "sql"
    files = sorted(folder.iterdir(), key=lambda file: file.name)
    return tuple(file.read_text(encoding="utf-8") for file in files)


def _migrate(connection: sqlite3.Connection, migrations: tuple[str, ...]) -> None:
    # Taking the write lock also proves, before anything is asked, that the file can be written.
    connection.execute("BEGIN IMMEDIATE")
    try:
        version, application = _read_version(connection)  # again: another process may have been faster
        for number, script in enumerate(migrations[version:], version + 1):
            for statement in _statements(script):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {number}")
        if application != _APPLICATION:
            connection.execute(f"PRAGMA application_id = {_APPLICATION}")
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def _statements(script: str) -> Iterator[str]:
    statement = ""
    for line in script.splitlines():
        statement += line + "\n"
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
