"""The SQLite store keeps the contract, with two handles that are as far apart as two processes."""

import contextlib
import sqlite3
from collections.abc import Generator
from pathlib import Path

from sayso.ports import Store
from sayso.stores.sqlite import SqliteStore
from sayso.testing import StoreContract


class TestSqliteStore(StoreContract):
    def open_two(self, folder: Path) -> tuple[Store, Store]:
        return SqliteStore(folder / "sayso.db"), SqliteStore(folder / "sayso.db")

    @contextlib.contextmanager
    def held(self, folder: Path) -> Generator[None]:
        """Take the write lock, so that both handles wait for it with their operation in hand."""
        holder = sqlite3.connect(folder / "sayso.db", isolation_level=None)
        with contextlib.closing(holder):
            holder.execute("BEGIN IMMEDIATE")
            yield
            holder.execute("ROLLBACK")
