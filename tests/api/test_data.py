"""Loaders that read ahead in a thread."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator

import pytest

from farandole.data import AsyncDataLoaderMixin, BaseDataLoader


class Numbers(BaseDataLoader):
    def __init__(self, count: int, broken_at: int = -1) -> None:
        self.count = count
        self.broken_at = broken_at
        self.read: list[int] = []

    def __len__(self) -> int:
        return self.count

    def _iterate(self) -> Iterator[int]:
        for i in range(self.count):
            if i == self.broken_at:
                raise OSError("disk on fire")
            self.read.append(i)
            yield i

    def _process_batch(self, batch: int) -> tuple[int, str]:
        return batch, threading.current_thread().name


class AheadNumbers(AsyncDataLoaderMixin, Numbers):
    pass


def wait_until(condition: object, what: str) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.005)


def threads() -> int:
    return sum(thread.name == "farandole-data" for thread in threading.enumerate())


@pytest.mark.parametrize("size", [0, 1, 3, 64])
def test_all_batches_in_order_and_processed_by_the_consumer(size: int) -> None:
    loader = AheadNumbers(size, False, 10)
    for _ in range(2):
        assert list(loader) == [(i, "MainThread") for i in range(10)]
    assert len(loader) == 10 and threads() == 0
    assert list(Numbers(3)) == list(AheadNumbers(size, count=3))


def test_reads_ahead_and_no_further_than_the_queue() -> None:
    loader = AheadNumbers(3, False, 100)
    batches = iter(loader)
    assert next(batches)[0] == 0
    # One handed out, three in the queue, one waiting for room.
    wait_until(lambda: len(loader.read) == 5, "reading ahead")
    batches.close()
    assert threads() == 0 and len(loader.read) == 5


def test_exceptions_come_out_of_the_iteration() -> None:
    batches = iter(AheadNumbers(2, False, 10, broken_at=4))
    assert [next(batches)[0] for _ in range(4)] == [0, 1, 2, 3]
    with pytest.raises(OSError, match="disk on fire"):
        next(batches)
    assert threads() == 0


def test_close_ends_passes_under_way() -> None:
    loader = AheadNumbers(2, False, 100)
    batches = iter(loader)
    next(batches)
    loader.close_async_loader()
    assert threads() == 0 and list(batches) == []
    assert len(list(loader)) == 100


def test_debug(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "farandole.data"):
        list(AheadNumbers(2, False, 2))
        assert not caplog.records
        list(AheadNumbers(2, True, 2))
    assert [r.getMessage() for r in caplog.records] == [
        "thread farandole-data begins to read ahead",
        "thread farandole-data has ended",
    ]


def test_subclasses_have_to_say_what_there_is() -> None:
    with pytest.raises(TypeError, match="abstract"):
        BaseDataLoader()
