"""The thread that tells a hub what happened: in order, in batches, each exactly once, and before the process ends."""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

import msgspec

from sayso.core import audit
from sayso.core.agent_protocol import MOST_NEWS, Append
from sayso.core.backoff import backoff
from sayso.core.model import AuditEntry, Result, new_id
from sayso.errors import StoreError, UnknownRequest
from sayso.stores.remote.transport import HubTransport, HubUnavailable
from sayso.stores.waiters import deliver

if TYPE_CHECKING:
    from sayso.core.ports import QueuedWrite
    from sayso.stores.remote.transport import HubAddress

_LOG = logging.getLogger("sayso")
_LARGEST_BATCH = 1_000_000  # bytes
_LONGEST_LINE = 1_000_000
_FAREWELL_SECONDS = 10.0

Item = AuditEntry | bytes | tuple[str, Result] | Future[None]  # whoever waits for all before has a future


class _OutboxBatch(msgspec.Struct):
    """What is told at once, under one name, however often it has to be tried."""

    attempt: str
    news: list[QueuedWrite]
    waiting: list[Future[None]]
    size: int = 0


class Outbox:
    """A queue and a thread; if the hub does not take what is told, the next caller is told so."""

    def __init__(self, hub: HubAddress) -> None:
        """Start the thread."""
        self._transport = HubTransport(hub)
        self._url, self._patience = hub.url, hub.patience
        self._queue: SimpleQueue[Item | None] = SimpleQueue()
        self._gate = threading.Lock()
        self._stopping = threading.Event()
        self._ends = float("inf")
        self._unsent = 0
        self._waiting: list[Future[None]] = []
        self._broken: StoreError | None = None
        self._process = os.getpid()
        self.unsent_results: dict[str, Result] = {}  # what holds in this process, and may not be known to the hub yet
        self._thread = threading.Thread(target=self._serve, name="sayso-teller", daemon=True)
        self._thread.start()
        atexit.register(self.stop)

    def enqueue(self, item: Item) -> None:
        """Queue this."""
        if self._broken is not None:
            raise self._broken
        self.check_process()
        with self._gate:  # nothing may come behind the item that ends the thread
            if self._stopping.is_set():
                raise StoreError(f"the store at {self._url} is closed")
            if isinstance(item, tuple):
                self.unsent_results[item[0]] = item[1]
            elif isinstance(item, Future):
                self._waiting.append(item)
            self._queue.put(item)

    def check_process(self) -> None:
        """Refuse to work in a process that has none of the threads."""
        if self._process != os.getpid():
            raise StoreError(f"the store at {self._url} was opened before a fork; open it again in the child process")

    @property
    def backlog(self) -> int:
        """How much has not been told yet."""
        return self._queue.qsize() + self._unsent

    def stop(self) -> None:
        """Tell what is queued, for a while, and end the thread."""
        atexit.unregister(self.stop)
        if self._process != os.getpid():
            return
        with self._gate:
            if not self._stopping.is_set():
                self._ends = time.monotonic() + _FAREWELL_SECONDS
                self._stopping.set()
                self._queue.put(None)
        self._thread.join()

    def _serve(self) -> None:
        last, told = False, True
        while told and not last:
            batch, last = self._gather()
            told = self._send_batch(batch)
        if not told:
            _LOG.critical("%d entries could not be told to the hub %s: %s", self.backlog, self._url, self._broken)
        self._fail(self._broken or StoreError(f"the store at {self._url} is closed"))
        self._transport.close()

    def _gather(self) -> tuple[_OutboxBatch, bool]:
        """Wait for one item and take what else is there."""
        batch = _OutboxBatch(new_id(), [], [])
        item = self._queue.get()
        while item is not None:
            self._add(batch, item)
            if len(batch.news) >= MOST_NEWS or batch.size > _LARGEST_BATCH:
                return batch, False
            try:
                item = self._queue.get_nowait()
            except Empty:
                return batch, False
        return batch, True

    def _add(self, batch: _OutboxBatch, item: Item) -> None:
        if isinstance(item, Future):
            batch.waiting.append(item)
            return
        told = audit.encode(item) if isinstance(item, AuditEntry) else item
        if len(told) > _LONGEST_LINE and isinstance(told, bytes):
            told = _truncate_line(told)
        batch.size += len(told)
        batch.news.append(told)
        self._unsent += 1

    def _send_batch(self, batch: _OutboxBatch) -> bool:
        """Tell a batch, however long that takes; false if the process ends before."""
        began, waiting = time.monotonic(), backoff()
        while batch.news and not self._try(batch, began):
            if time.monotonic() >= self._ends:
                return False
            pause = next(waiting)
            if self._stopping.is_set():
                time.sleep(min(pause, 1.0))
            else:
                self._stopping.wait(pause)
        self._broken, self._unsent = None, 0
        for each in batch.news:
            if isinstance(each, tuple):
                self.unsent_results.pop(each[0], None)
        deliver([(each, None) for each in batch.waiting])
        with self._gate:
            self._waiting = [each for each in self._waiting if not each.done()]
        return True

    def _try(self, batch: _OutboxBatch, began: float) -> bool:
        try:
            self._transport.send_once("append", Append(news=batch.news, attempt=batch.attempt))
        except HubUnavailable as error:
            if time.monotonic() - began > self._patience:
                self._break(error)
            return False
        except (StoreError, UnknownRequest) as error:
            self._break(StoreError(str(error)))
            return False
        return True

    def _break(self, error: StoreError) -> None:
        if self._broken is None:
            _LOG.error("the audit cannot be told to the hub, so no call runs until it can: %s", error)
        self._broken = error
        self._fail(error)

    def _fail(self, error: StoreError) -> None:
        """Tell all who wait, also those behind what could not be told."""
        with self._gate:
            self._waiting, failed = [], self._waiting
        deliver([(each, error) for each in failed])


def _truncate_line(line: bytes) -> bytes:
    """Return a line that a hub takes: the digest still stands for the arguments."""
    whole = msgspec.json.decode(line, type=audit.EntryBody)
    whole.args = whole.final_args = whole.result = None
    whole.error = f"its values are too long to be told to the hub: {len(line)} bytes"
    return msgspec.json.encode(whole)
