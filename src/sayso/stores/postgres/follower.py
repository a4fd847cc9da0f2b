"""Follower of a PostgreSQL store: polls the change feed after each notification (NOTIFY), and periodically.

Tests: tests/stores/postgres/test_connection.py
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from sayso.core.backoff import backoff
from sayso.core.model import new_id
from sayso.errors import StoreError
from sayso.stores.postgres.schema import statement

if TYPE_CHECKING:
    from sayso.stores.postgres.connection import Connection, ReadPool, Row, Server
    from sayso.stores.postgres.server_clock import ServerClock
    from sayso.stores.postgres.subscribers import Subscribers
    from sayso.stores.postgres.writer import PostgresWriter

_LOG = logging.getLogger("sayso")
_POLL_SECONDS = 5.0  # besides notifications
_ONLY_POLL_SECONDS = 0.5
_REST, _LONGEST_REST_SECONDS = 4, 0.05  # times the duration of a poll, so that many hints share one poll
_STALE_SECONDS = 60.0
_PAGE = 1000


class PostgresFollower:
    """Delivers the changes of other processes: closed requests and remembered decisions."""

    def __init__(
        self, server: Server, clock: ServerClock, readers: ReadPool, subscribers: Subscribers, writer: PostgresWriter
    ) -> None:
        self._server, self._clock, self._readers = server, clock, readers
        self._subscribers, self._writer = subscribers, writer
        self._connection: Connection | None = None
        self._fetch_changes: Callable[[int, int], Awaitable[list[Row]]]  # prepared for the connection
        self._hinted = asyncio.Event()
        self._echo, self._echoed = "", asyncio.Event()
        self._last_reply_at = time.monotonic()
        self._is_over = False
        self.point = 0

    async def use_connection(self, connection: Connection) -> None:
        """Poll over this connection; behind a pooler there are no notifications, and the read pool polls."""
        if self._server.pooler:
            _LOG.info("the store %s is behind a pooler: it is polled, so answers take longer", self._server.shown)
            await connection.close()
            return
        try:
            with self._server.translate_errors():
                self._fetch_changes = (await connection.prepare(statement("changes_poll"))).fetch
        except BaseException:
            connection.terminate()  # lost, or cancelled because the store is closed: no other task refers to it
            raise
        self._connection = connection

    def on_hint(self, payload: str) -> None:
        """Receive a notification."""
        if payload and payload == self._echo:
            self._echoed.set()
        else:
            self._hinted.set()

    async def measure_hint_delay(self) -> float | None:
        """Return the delay of a notification in seconds; None if none arrives."""
        if self._server.pooler:
            return None
        await self._writer.submit(lambda _: None)  # from here on the writer is connected, and listens
        self._echo, began = new_id(), time.monotonic()
        await self._readers.fetch(statement("echo"), self._echo)
        try:
            async with asyncio.timeout(_POLL_SECONDS):
                await self._echoed.wait()
        except TimeoutError:
            return None
        finally:
            self._echoed.clear()
        return time.monotonic() - began

    async def run(self) -> None:
        """Follow until stopped, or cancelled."""
        waiting, lost = backoff(), False
        while not self._is_over:
            try:
                rest = await self._timed_poll()
                if lost:
                    _LOG.warning("the store %s is heard again; nothing was missed", self._server.shown)
                waiting, lost = backoff(), False
                await asyncio.sleep(rest)
                await self._wait_for_hint()
            except StoreError as error:
                if self._is_over:
                    return
                if not lost:
                    _LOG.warning("nothing is heard from the store, trying again: %s", error)
                lost = True
                if time.monotonic() - self._last_reply_at > _STALE_SECONDS:
                    self._subscribers.distrust()
                await asyncio.sleep(next(waiting))

    async def _wait_for_hint(self) -> None:
        """Wait for a notification, or until the next poll is due."""
        try:
            async with asyncio.timeout(_POLL_SECONDS if self._writer.is_listening else _ONLY_POLL_SECONDS):
                await self._hinted.wait()
        except TimeoutError:
            return

    async def _timed_poll(self) -> float:
        """Poll, and return the seconds to pause after it."""
        began = time.monotonic()
        await self.poll()
        return min(_REST * (time.monotonic() - began), _LONGEST_REST_SECONDS)

    async def poll(self) -> None:
        """Read and deliver the changes since the last poll."""
        self._hinted.clear()
        reached, changes = -1, 0
        while reached < changes:
            began, point = time.monotonic(), self.point  # this store's own commits advance it meanwhile
            changes, version, server_time, closed, last = (await self._fetch())[0]
            self._last_reply_at = time.monotonic()
            self._clock.synchronize(server_time, began)
            if changes < point:
                _LOG.warning(
                    "the store %s has an older past than before: perhaps a copy was restored", self._server.shown
                )
                self.point = changes
                await self._subscribers.resync()
            await self._subscribers.refresh(version)
            reached = last if len(closed) == _PAGE else changes
            await self._subscribers.on_remote_change(closed, reached)
            self.point = max(self.point, reached)

    async def _fetch(self) -> list[Row]:
        if self._server.pooler:
            return await self._readers.fetch(statement("changes_poll"), self.point, _PAGE)
        if self._connection is None or self._connection.is_closed():
            self._connection = None
            await self.use_connection(await self._server.connect(cached=False))
        with self._server.translate_errors():
            return await self._fetch_changes(self.point, _PAGE)

    def skip_own_commit(self, began: int, reached: int) -> None:
        """Skip a commit of this store, if no other change came before it."""
        if self.point == began:
            self.point = reached

    def stop(self) -> None:
        """Stop following, and drop the connection."""
        self._is_over = True
        self._hinted.set()
        if self._connection is not None:
            self._connection.terminate()
