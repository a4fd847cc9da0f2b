"""A PostgreSQL store for the length of a test, and what its audit says."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from typing import Any

from sayso.core import audit
from sayso.core.ports import Store
from sayso.stores.postgres import PostgresStore


@contextlib.asynccontextmanager
async def opened(url: str, **options: Any) -> AsyncGenerator[PostgresStore]:
    store = await asyncio.to_thread(PostgresStore, url, **options)
    try:
        yield store
    finally:
        await store.aclose()


async def steps(store: Store) -> list[str]:
    """Return what the audit says, if its chain is whole."""
    await audit.verify(store)
    return [entry["step"] async for entry in audit.entries(store)]
