"""SQLite store: the public class."""

from sayso.stores.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
