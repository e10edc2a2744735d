"""Bases of data loaders, with one that reads ahead in a thread. No framework is needed."""

from __future__ import annotations

import logging
import queue
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

_log = logging.getLogger("farandole.data")
# A thread that waits for room in its queue looks this often whether it is still wanted.
_LOOK_S = 0.1


class BaseDataLoader(ABC):
    """Base of a data loader: a subclass defines `__len__` and `_iterate`."""

    @abstractmethod
    def __len__(self) -> int:
        """Number of batches in one pass."""

    @abstractmethod
    def _iterate(self) -> Iterable[Any]:
        """The batches of one pass."""

    def __iter__(self) -> Iterator[Any]:
        for batch in self._iterate():
            yield self._process_batch(batch)

    def _process_batch(self, batch: Any) -> Any:
        """Returns what is handed out for a batch; runs in the consumer's thread."""
        return batch


# What stands behind the mixin is said by who uses it.
if TYPE_CHECKING:
    _Loader = BaseDataLoader
else:
    _Loader = object


class AsyncDataLoaderMixin(_Loader):
    """Lets a loader read ahead in a thread: ``class Loader(AsyncDataLoaderMixin, SomeLoader)``.

    Each pass has a thread that calls ``_iterate`` and puts the batches into a queue. An exception in the thread is
    raised by the iteration. The thread ends with the pass, also when the consumer stops early.

    Args:
        async_loader_queue_size: number of batches to read ahead; 0: none, and no thread.
        debug_data_loader: whether to log start and end of each thread (logger ``farandole.data``, level INFO).
        *args: for the loader.
        **kwargs: for the loader.
    """

    def __init__(
        self, async_loader_queue_size: int = 64, debug_data_loader: bool = False, *args: Any, **kwargs: Any
    ) -> None:
        self.async_loader_queue_size = async_loader_queue_size
        self.debug_data_loader = debug_data_loader
        self._passes: list[_Pass] = []
        super().__init__(*args, **kwargs)

    def close_async_loader(self) -> None:
        """Ends the threads of all passes under way. Their iterations end as if there were no more batches."""
        for under_way in self._passes:
            under_way.close()

    def __iter__(self) -> Iterator[Any]:
        if self.async_loader_queue_size <= 0:
            yield from super().__iter__()
            return
        under_way = _Pass(self._iterate, self.async_loader_queue_size, self.debug_data_loader)
        self._passes.append(under_way)
        try:
            for batch in under_way.batches():
                yield self._process_batch(batch)
        finally:
            self._passes.remove(under_way)
            under_way.close()


class _Pass:
    """A thread that fills a queue with one pass over the data."""

    def __init__(self, iterate: Callable[[], Iterable[Any]], size: int, debug: bool) -> None:
        self._iterate = iterate
        self._debug = debug
        self._queue: queue.Queue[tuple[str, Any]] = queue.Queue(size)
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._fill, name="farandole-data", daemon=True)
        self._thread.start()

    def batches(self) -> Iterator[Any]:
        """Until the pass ends or is closed. Raises what `iterate` raises."""
        while not self._closed.is_set():
            try:
                kind, value = self._queue.get(timeout=_LOOK_S)
            except queue.Empty:
                continue
            if kind == "error":
                raise value
            if kind == "end":
                return
            yield value

    def close(self) -> None:
        """Ends the thread, as soon as `iterate` comes back to it."""
        self._closed.set()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _fill(self) -> None:
        self._tell("begins to read ahead")
        try:
            for batch in self._iterate():
                if not self._put(("batch", batch)):
                    return
            self._put(("end", None))
        except BaseException as error:
            self._put(("error", error))
        finally:
            self._tell("has ended")

    def _put(self, entry: tuple[str, Any]) -> bool:
        """False if the pass was closed before there was room."""
        while not self._closed.is_set():
            try:
                self._queue.put(entry, timeout=_LOOK_S)
                return True
            except queue.Full:
                pass
        return False

    def _tell(self, what: str) -> None:
        if self._debug:
            _log.info("thread %s %s", self._thread.name, what)
