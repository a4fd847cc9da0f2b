"""The store in a PostgreSQL database."""

from sayso.stores.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
