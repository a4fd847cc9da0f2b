"""PostgreSQL store: the public class."""

from sayso.stores.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
