"""Outbox of an agent: a write-behind queue whose thread sends results and audit lines to the hub in batches.

Order is kept, and each batch is applied once: all attempts of a batch carry the same idempotency key.

Tests: tests/stores/remote/test_store.py
"""

from __future__ import annotations

import logging
import threading
import time
from concurrent.futures import Future
from typing import TYPE_CHECKING

import msgspec

from sayso.core import audit
from sayso.core.agent_protocol import LONGEST_LINE, MOST_NEWS, Append
from sayso.core.backoff import backoff
from sayso.core.model import AuditEntry, Result, new_id
from sayso.errors import StoreError, UnknownRequest
from sayso.stores.remote.transport import HubTransport, HubUnavailable
from sayso.stores.waiters import deliver
from sayso.stores.write_queue import WriterThread

if TYPE_CHECKING:
    from sayso.core.ports import QueuedWrite
    from sayso.stores.remote.transport import HubAddress

_LOG = logging.getLogger("sayso")
_LARGEST_BATCH = 1_000_000  # bytes
_FAREWELL_SECONDS = 10.0

Item = AuditEntry | bytes | tuple[str, Result] | Future[None]  # a future is settled when all items before it are sent


class _OutboxBatch(msgspec.Struct):
    """Items of one request to the hub, with one idempotency key for all attempts."""

    attempt: str
    news: list[QueuedWrite]
    waiting: list[Future[None]]
    size: int = 0


class Outbox(WriterThread[Item]):
    """Write-behind queue and its thread; while the hub does not accept a batch, `enqueue` raises."""

    def __init__(self, hub: HubAddress) -> None:
        super().__init__(f"the store at {hub.url}", thread_name="sayso-outbox")
        self._transport = HubTransport(hub)
        self._url, self._patience = hub.url, hub.patience
        self._stopping = threading.Event()
        self._deadline = float("inf")
        self.unsent_results: dict[str, Result] = {}  # by request: valid here, and not at the hub yet
        self._start()

    def enqueue(self, item: Item) -> None:
        """Queue an item, or raise if the hub does not accept the items before it."""
        if self._broken is not None:
            raise self._broken
        self.check_open()
        if isinstance(item, tuple):
            self.unsent_results[item[0]] = item[1]  # before it is queued, as sending it removes it here
        self._put(item, is_awaited=isinstance(item, Future))

    def _close(self) -> None:
        """Refuse new items; those in the queue are still sent, within a grace period."""
        self._deadline = min(self._deadline, time.monotonic() + _FAREWELL_SECONDS)
        self._stopping.set()
        super()._close()

    def _serve(self) -> None:
        batch, is_sent = _OutboxBatch("", [], []), True
        while is_sent and self._wait_for_items():
            batch = self._gather()
            is_sent = self._send_batch(batch)
        if not is_sent:
            _LOG.critical("%d entries could not be told to the hub %s: %s", self.backlog, self._url, self._broken)
        self._fail(batch, self._broken or StoreError(f"{self._store_name} is closed"))
        self._transport.close()

    def _gather(self) -> _OutboxBatch:
        batch = _OutboxBatch(new_id(), [], [])
        while self._items and len(batch.news) < MOST_NEWS and batch.size <= _LARGEST_BATCH:
            self._add(batch, self._items.popleft())
        return batch

    def _add(self, batch: _OutboxBatch, item: Item) -> None:
        if isinstance(item, Future):
            batch.waiting.append(item)
            return
        entry = audit.encode(item) if isinstance(item, AuditEntry) else item
        if len(entry) > LONGEST_LINE and isinstance(entry, bytes):
            entry = _truncate_line(entry)
        batch.size += len(entry)
        batch.news.append(entry)

    def _send_batch(self, batch: _OutboxBatch) -> bool:
        """Send a batch with back-off, without limit while the store is open; false if it could not be sent."""
        began, waiting = time.monotonic(), backoff()
        while batch.news and not self._try(batch, began):
            if time.monotonic() >= self._deadline:
                return False
            pause = next(waiting)
            if self._stopping.is_set():
                time.sleep(min(pause, 1.0))
            else:
                self._stopping.wait(pause)
        self._broken = None
        self._settle_owed(len(batch.news))
        for each in batch.news:
            if isinstance(each, tuple):
                self.unsent_results.pop(each[0], None)
        deliver([(each, None) for each in batch.waiting])
        return True

    def _try(self, batch: _OutboxBatch, began: float) -> bool:
        try:
            self._transport.send_once("append", Append(news=batch.news, attempt=batch.attempt))
        except HubUnavailable as error:
            if time.monotonic() - began > self._patience:
                self._break(batch, error)
            return False
        except (StoreError, UnknownRequest) as error:
            self._break(batch, StoreError(str(error)))
            return False
        return True

    def _break(self, batch: _OutboxBatch, error: StoreError) -> None:
        if self._broken is None:
            _LOG.error("the audit cannot be told to the hub, so no call runs until it can: %s", error)
        self._broken = error
        self._fail(batch, error)

    def _fail(self, batch: _OutboxBatch, error: StoreError) -> None:
        """Fail the waiters of a batch that cannot be sent, and all that are queued behind it."""
        with self._gate:
            queued = [each for each in self._items if isinstance(each, Future)]
        deliver([(each, error) for each in [*batch.waiting, *queued]])


def _truncate_line(line: bytes) -> bytes:
    """Return the line without its long values; the digest of the arguments stays."""
    whole = msgspec.json.decode(line, type=audit.EntryBody)
    whole.args = whole.final_args = whole.result = None
    whole.error = f"its values are too long to be told to the hub: {len(line)} bytes"
    return msgspec.json.encode(whole)
