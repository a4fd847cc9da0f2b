"""Write-behind queue: order, the backlog, closing, and a process that was forked."""

import os
import threading

import pytest

from sayso.errors import StoreError
from sayso.stores.write_queue import WriterThread


class Writer(WriterThread[int]):
    """Writes into a list, once it may."""

    def __init__(self) -> None:
        super().__init__("the store x", thread_name="test-writer")
        self.may_write = threading.Event()
        self.written: list[int] = []
        self._start()

    def put(self, item: int, *, is_awaited: bool = False) -> None:
        self._put(item, is_awaited=is_awaited)

    def _serve(self) -> None:
        while self._wait_for_items():
            self.may_write.wait()
            item = self._items.popleft()
            self.written.append(item)
            self._settle_owed(item >= 0)


def test_what_is_queued_is_written_in_order_also_when_the_queue_is_closed_meanwhile() -> None:
    writer = Writer()
    for item in range(1000):
        writer.put(item)
    assert writer.backlog == 1000
    writer.may_write.set()
    writer.stop()
    assert writer.written == list(range(1000))
    assert writer.backlog == 0


def test_an_item_that_comes_when_the_writer_has_nothing_to_do_wakes_it() -> None:
    writer = Writer()
    writer.may_write.set()
    for item in range(200):
        writer.put(item)
        while writer.backlog:
            assert writer._thread.is_alive()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    writer.stop()
    assert writer.written == list(range(200))


def test_what_many_threads_queue_is_all_written_and_each_keeps_its_order() -> None:
    writer = Writer()
    writer.may_write.set()

    def put(first: int) -> None:
        for item in range(first, first + 1000):
            writer.put(item)

    threads = [threading.Thread(target=put, args=(each * 1000,)) for each in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    writer.stop()
    assert sorted(writer.written) == list(range(4000))
    for each in range(4):
        own = [item for item in writer.written if item // 1000 == each]
        assert own == sorted(own)


def test_what_a_future_waits_for_is_not_in_the_backlog() -> None:
    writer = Writer()
    writer.put(-1, is_awaited=True)
    assert writer.backlog == 0
    writer.put(1)
    assert writer.backlog == 1
    writer.may_write.set()
    writer.stop()
    assert writer.backlog == 0


def test_a_closed_queue_takes_nothing_and_can_be_stopped_again() -> None:
    writer = Writer()
    writer.stop()
    writer.stop()
    with pytest.raises(StoreError, match=r"^the store x is closed$"):
        writer.put(1)


def test_a_forked_process_is_refused_in_one_sentence_and_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    writer = Writer()
    with monkeypatch.context() as patch:
        patch.setattr(os, "getpid", lambda: -1)  # what a child sees: another number, and none of the threads
        with pytest.raises(StoreError, match=r"^the store x was opened before a fork; open it again in the child"):
            writer.put(1)
        writer.stop()
    writer.put(2)
    writer.may_write.set()
    writer.stop()
    assert writer.written == [2]
