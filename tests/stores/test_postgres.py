"""The PostgreSQL store: the contract, with two handles as far apart as two machines, and what servers can do."""

import contextlib
from collections.abc import Generator
from pathlib import Path

import pytest
from tests.postgres import Postgres

from sayso.ports import Store
from sayso.stores.postgres import PostgresStore
from sayso.testing import StoreContract


class TestPostgresStore(StoreContract):
    @pytest.fixture(autouse=True)
    def server(self, postgres: Postgres, database: str) -> None:
        self.postgres, self.url = postgres, database

    def open_two(self, folder: Path) -> tuple[Store, Store]:
        return PostgresStore(self.url), PostgresStore(self.url)

    @contextlib.contextmanager
    def held(self, folder: Path) -> Generator[None]:
        """Hold the row that every writer needs, so that both handles wait for it with their operation in hand."""
        with self.postgres.holding(self.url):
            yield
