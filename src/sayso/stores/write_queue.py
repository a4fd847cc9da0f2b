"""Write-behind queue: any thread adds items, one writer removes them in order; closed or forked, it refuses work."""

from __future__ import annotations

import atexit
import os
import threading
from abc import ABC, abstractmethod
from collections import deque
from typing import Generic, TypeVar

from sayso.errors import StoreError

T = TypeVar("T")

_LINGER_SECONDS = 0.02  # at most so old are the lines of unasked calls that a crash can take


class WriteBehindQueue(ABC, Generic[T]):
    """Base of the writers: the queue, the number of unacknowledged items, and the error that stops writing, if any."""

    def __init__(self, store_name: str) -> None:
        self._store_name = store_name  # for error messages
        self._items: deque[T] = deque()  # only the writer removes items
        self._gate = threading.Lock()
        self._owed = 0  # items that no future waits for and that are not durable yet
        self._broken: StoreError | None = None
        self._is_awake = self._is_closed = False
        self._process = os.getpid()

    @abstractmethod
    def _wake(self) -> None:
        """Wake the writer, from any thread."""

    def _hurry(self) -> None:
        """Tell the writer, from any thread, that somebody waits for an item."""

    @property
    def backlog(self) -> int:
        """Number of items that are not durable yet and that no future waits for."""
        return self._owed

    def check_process(self) -> None:
        """Refuse to work in a forked process, which has none of the store's threads."""
        if self._process != os.getpid():
            raise StoreError(f"{self._store_name} was opened before a fork; open it again in the child process")

    def check_open(self) -> None:
        """Refuse to work when the store is closed, or in a forked process."""
        self.check_process()
        if self._is_closed:
            raise StoreError(f"{self._store_name} is closed")

    def _put(self, item: T, *, is_awaited: bool) -> None:
        self.check_process()  # before the lock, which another thread may have held during the fork
        with self._gate:
            self.check_open()
            self._items.append(item)
            self._owed += not is_awaited
            if is_awaited:
                self._hurry()
            if not self._is_awake:
                self._wake()
                self._is_awake = True  # last: an interrupt before this line costs a second wake-up, never the only one

    def _has_items(self) -> bool:
        """Whether the queue has items; if not, the next item wakes the writer."""
        with self._gate:
            self._is_awake = bool(self._items)
            return self._is_awake

    def _is_drained(self) -> bool:
        """Whether the queue is closed and empty."""
        with self._gate:
            return self._is_closed and not self._items

    def _settle_owed(self, count: int) -> None:
        """Note that this many items that no future waits for are durable now."""
        with self._gate:
            self._owed -= count

    def _close(self) -> None:
        """Refuse new items; those in the queue are still written."""
        with self._gate:
            self._is_closed = True
            self._wake()
            self._hurry()


class WriterThread(WriteBehindQueue[T]):
    """Write-behind queue that a thread of its own empties, also when the process ends.

    While nobody waits for an item, the thread lingers, so that one batch takes many: an agent that makes one call after
    another would pay for a commit each time.
    """

    def __init__(self, store_name: str, *, thread_name: str) -> None:
        super().__init__(store_name)
        self._awake, self._awaited = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._serve, name=thread_name, daemon=True)

    @abstractmethod
    def _serve(self) -> None:
        """Write batches until the queue is closed and empty."""

    def _start(self) -> None:
        self._thread.start()
        atexit.register(self.stop)

    def _wake(self) -> None:
        self._awake.set()

    def _hurry(self) -> None:
        self._awaited.set()

    def _linger(self) -> None:
        """Let more items join the batch, until somebody waits for one, or the time is up."""
        self._awaited.wait(_LINGER_SECONDS)
        self._awaited.clear()  # before the batch is gathered: what comes later belongs to the next one

    def _wait_for_items(self) -> bool:
        """Wait for the next item; false if the queue is closed and empty."""
        while not self._has_items():
            if self._is_drained():
                return False
            self._awake.wait()
            self._awake.clear()
        return True

    def stop(self) -> None:
        """Write the queue, then end the thread."""
        atexit.unregister(self.stop)
        if self._process == os.getpid():
            self._close()
            self._thread.join()
