"""Lower bound for rows in PostgreSQL: one table, no logic; a statement for each batch, or for each row."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, Self

import asyncpg

TABLE = """
CREATE TABLE IF NOT EXISTS rows (id text PRIMARY KEY, status text NOT NULL, body bytea NOT NULL);
CREATE INDEX IF NOT EXISTS rows_open ON rows (id) WHERE status = 'open'
"""
OPEN = "SELECT id FROM rows WHERE status = 'open' AND abs(hashtext(id)) % 2 = $1"
CLOSED = "SELECT id FROM rows WHERE id = ANY ($1::text[]) AND status = 'approved'"
BOTH = """
WITH added AS (INSERT INTO rows SELECT id, 'open', body FROM unnest($1::text[], $2::bytea[]) AS new (id, body)),
changed AS (UPDATE rows SET status = 'approved' WHERE id = ANY ($3::text[]))
SELECT pg_notify('rows', '')
"""
ADD = "WITH added AS (INSERT INTO rows VALUES ($1, 'open', $2)) SELECT pg_notify('rows', '')"
CHANGE = "WITH changed AS (UPDATE rows SET status = 'approved' WHERE id = $1) SELECT pg_notify('rows', '')"

Job = tuple[str, "bytes | None", "asyncio.Future[None]"]


class Waiting:
    """Futures of the waiters, by row."""

    def __init__(self) -> None:
        self._waiting: dict[str, asyncio.Future[None]] = {}

    def closed(self, request_id: str) -> asyncio.Future[None]:
        return self._waiting.setdefault(request_id, asyncio.get_running_loop().create_future())

    def wake(self, request_id: str) -> None:
        future = self._waiting.pop(request_id, None)
        if future is not None and not future.done():
            future.set_result(None)


class RawBatches(Waiting):
    """Group commit on one connection; a statement takes the rows that arrived during the last one."""

    def __init__(self, connection: Any) -> None:  # noqa: ANN401 - asyncpg has no types
        super().__init__()
        self._connection = connection
        self._jobs: list[Job] = []
        self._has_jobs = asyncio.Event()
        self._task = asyncio.create_task(self._serve())

    @classmethod
    async def at(cls, url: str) -> Self:
        connection = await asyncpg.connect(url)
        await connection.execute(TABLE)
        return cls(connection)

    def open(self, request_id: str, body: bytes) -> Awaitable[object]:
        self.closed(request_id)
        return self._put(request_id, body)

    def close(self, request_id: str) -> Awaitable[object]:
        return self._put(request_id, None)

    def _put(self, request_id: str, body: bytes | None) -> asyncio.Future[None]:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._jobs.append((request_id, body, future))
        self._has_jobs.set()
        return future

    async def _serve(self) -> None:
        while True:
            await self._has_jobs.wait()
            self._has_jobs.clear()
            jobs, self._jobs = self._jobs, []
            added = [(each, body) for each, body, _ in jobs if body is not None]
            changed = [each for each, body, _ in jobs if body is None]
            await self._connection.fetch(BOTH, [each for each, _ in added], [body for _, body in added], changed)
            for each, body, future in jobs:
                future.set_result(None)
                if body is None:
                    self.wake(each)

    async def aclose(self) -> None:
        self._task.cancel()
        await self._connection.close()


class RawFar(RawBatches):
    """The same, where another process closes the rows: NOTIFY is a hint to poll."""

    async def listen(self, url: str, query: str) -> None:
        """Subscribe to the changes of other processes, and run the query for each."""
        self._listener, self._query, self._hint = await asyncpg.connect(url), query, asyncio.Event()
        self._hint.set()
        await self._listener.add_listener("rows", lambda *_: self._hint.set())

    async def news(self, *values: object) -> list[str]:
        """Wait for a hint, and return the rows that the query finds."""
        await self._hint.wait()
        self._hint.clear()
        return [each for (each,) in await self._listener.fetch(self._query, *values)]

    async def follow(self) -> None:
        """Wake the waiters of closed rows."""
        while True:
            for each in await self.news(list(self._waiting)):
                self.wake(each)

    async def aclose(self) -> None:
        await super().aclose()
        await self._listener.close()


class RawEach(Waiting):
    """Eight connections; a statement for each row."""

    def __init__(self, pool: Any) -> None:  # noqa: ANN401 - as above
        super().__init__()
        self._pool = pool

    @classmethod
    async def at(cls, url: str) -> Self:
        pool = await asyncpg.create_pool(url, min_size=8, max_size=8)
        await pool.execute(TABLE)
        return cls(pool)

    async def open(self, request_id: str, body: bytes) -> None:
        self.closed(request_id)
        await self._pool.fetch(ADD, request_id, body)

    async def close(self, request_id: str) -> None:
        await self._pool.fetch(CHANGE, request_id)
        self.wake(request_id)

    async def aclose(self) -> None:
        await self._pool.close()
