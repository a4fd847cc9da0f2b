"""SQL statements and schema migrations of a PostgreSQL store.

Tests: tests/stores/postgres/test_store.py
"""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

from sayso.errors import StoreError

if TYPE_CHECKING:
    from sayso.stores.postgres.connection import Connection, Server

_LOCK = 0x5A150  # number of sayso's advisory lock
_ENCODING = "UTF8"
_OLDEST_SERVER = 14
_CHANGE_SECONDS = 600.0  # building an index is slow, and a second process waits for it


@cache
def statement(name: str) -> str:
    """Return the statement in the file of that name."""
    return (resources.files("sayso.stores.postgres") / "sql" / f"{name}.sql").read_text(encoding="utf-8")


@cache
def _migrations() -> tuple[str, ...]:
    folder = resources.files("sayso.stores.postgres") / "sql" / "migrations"
    files = sorted(folder.iterdir(), key=lambda file: file.name)
    return tuple(file.read_text(encoding="utf-8") for file in files)


async def migrate(connection: Connection, server: Server) -> None:
    """Create the tables or migrate them, under an advisory lock; refuse the schema of a newer sayso."""
    if await _version(connection, server) == len(_migrations()):
        return  # the usual case needs no lock, and no right to change tables
    await connection.execute(f"SELECT pg_advisory_xact_lock({_LOCK})", timeout=_CHANGE_SECONDS)
    version = await _version(connection, server)  # again: another process may have migrated meanwhile
    if not await connection.fetch("SELECT 1 FROM pg_namespace WHERE nspname = 'sayso'"):
        await connection.execute("CREATE SCHEMA sayso")
    for number, script in enumerate(_migrations()[version:], version + 1):
        await connection.execute(script, timeout=_CHANGE_SECONDS)
        await connection.fetch(statement("schema_write"), number)


async def _version(connection: Connection, server: Server) -> int:
    major, named, encoding, is_there, is_owner = (await connection.fetch(statement("schema_find")))[0]
    if major < _OLDEST_SERVER:
        raise StoreError(
            f"the store {server.shown} is PostgreSQL {named}, and sayso needs {_OLDEST_SERVER} or newer; "
            "upgrade the server"
        )
    if encoding != _ENCODING:
        raise StoreError(f"the store {server.shown} has the encoding {encoding}; make a database with UTF8")
    version = (await connection.fetch(statement("schema_read")))[0][0] if is_there else 0
    if version > len(_migrations()):
        raise StoreError(
            f"the store {server.shown} has the form {version} of a newer sayso, "
            f"and this one knows {len(_migrations())}; upgrade sayso"
        )
    if is_there and not is_owner and version < len(_migrations()):
        raise StoreError(
            f"the store {server.shown} has the form {version} of an older sayso; open it once as the owner of its "
            "tables, for example with `sayso doctor`"
        )
    return version
