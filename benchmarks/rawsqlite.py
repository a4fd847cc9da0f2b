"""Lower bound for a durable store in SQLite: one thread, one table, no logic, group commit."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from pathlib import Path
from queue import Empty, SimpleQueue

INSERT = "INSERT INTO requests VALUES (?, 'open', ?)"
UPDATE = "UPDATE requests SET status = 'approved' WHERE id = ?"
STATUS = "SELECT status FROM requests WHERE id = ?"

Job = tuple[str, tuple[object, ...], "asyncio.Future[None]"]


def connect(path: Path, synchronous: str) -> sqlite3.Connection:
    """Open the file in WAL mode, with the table in it."""
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA busy_timeout = 10000")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(f"PRAGMA synchronous = {synchronous}")
    connection.execute(
        "CREATE TABLE IF NOT EXISTS requests (id TEXT PRIMARY KEY, status TEXT, body BLOB) WITHOUT ROWID"
    )
    return connection


class RawStore:
    """Rows that are opened and closed; `group` caps how many changes share a commit."""

    def __init__(self, path: Path, *, synchronous: str, group: int = 500) -> None:
        self._connection = connect(path, synchronous)
        self._group = group
        self._queue: SimpleQueue[Job | None] = SimpleQueue()
        self._waiting: dict[str, asyncio.Future[None]] = {}
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def open(self, request_id: str, body: bytes) -> asyncio.Future[None]:
        """Insert a row; the future completes when it is durable."""
        self._waiting[request_id] = self._loop.create_future()
        future: asyncio.Future[None] = self._loop.create_future()
        self._queue.put((INSERT, (request_id, body), future))
        return future

    def close(self, request_id: str) -> asyncio.Future[None]:
        """Update the row; one future wakes both the approver and the waiter."""
        future = self._waiting.pop(request_id)
        self._queue.put((UPDATE, (request_id,), future))
        return future

    def closed(self, request_id: str) -> asyncio.Future[None]:
        """Wait for the answer."""
        return self._waiting[request_id]

    async def aclose(self) -> None:
        self._queue.put(None)
        await asyncio.to_thread(self._thread.join)
        self._connection.close()

    def _serve(self) -> None:
        while (first := self._queue.get()) is not None:
            jobs = [first, *self._more()]
            self._connection.execute("BEGIN IMMEDIATE")
            for statement in (INSERT, UPDATE):
                self._connection.executemany(statement, [values for kind, values, _ in jobs if kind is statement])
            self._connection.execute("COMMIT")
            self._loop.call_soon_threadsafe(_deliver, jobs)

    def _more(self) -> list[Job]:
        """Take the jobs that were queued during the last commit."""
        jobs: list[Job] = []
        while len(jobs) < self._group - 1:
            try:
                job = self._queue.get_nowait()
            except Empty:
                break
            if job is None:
                self._queue.put(None)
                break
            jobs.append(job)
        return jobs


def _deliver(jobs: list[Job]) -> None:
    for _, _, future in jobs:
        future.set_result(None)
