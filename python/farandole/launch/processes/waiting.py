"""The one way in which the launcher's programs wait: for descriptors, for signals, for a time."""

from __future__ import annotations

import math
import os
import select
import signal
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import FileDescriptorLike

    Descriptors = Iterable[FileDescriptorLike]

# Both are sockets, pipes, or anything else that has a descriptor.
_READABLE = select.POLLIN | select.POLLPRI
_ENDED = select.POLLHUP | select.POLLERR | select.POLLNVAL


def wait(readers: Descriptors, writers: Descriptors = (), timeout_s: float | None = None) -> set[int]:
    """Descriptors that can be read or written without waiting, or have ended; as many as the process may open.

    Args:
        readers, writers: descriptors, or what has one.
        timeout_s: None: until there is one.
    """
    poller = select.poll()
    asked: dict[int, int] = {}
    for things, events in ((readers, _READABLE), (writers, select.POLLOUT)):
        for thing in things:
            descriptor = thing if isinstance(thing, int) else thing.fileno()
            asked[descriptor] = asked.get(descriptor, 0) | events
    for descriptor, events in asked.items():
        poller.register(descriptor, events)
    found = poller.poll(None if timeout_s is None else math.ceil(timeout_s * 1000))
    return {descriptor for descriptor, events in found if events & (asked[descriptor] | _ENDED)}


class Loop:
    """Waits for descriptors, and for every signal for which there is a handler; SIGCHLD has one as well.

    Only in the main thread, and one at a time.
    """

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe()
        for end in (self._reader, self._writer):
            os.set_blocking(end, False)
        self._handler = signal.signal(signal.SIGCHLD, lambda number, frame: None)
        self._before = signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)

    def __enter__(self) -> Loop:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def wait(self, readers: Descriptors, timeout_s: float, writers: Descriptors = ()) -> set[int]:
        """As the function `wait`; a signal ends it as well."""
        ready = wait([*readers, self._reader], writers, timeout_s)
        if self._reader in ready:
            ready.remove(self._reader)
            os.read(self._reader, 4096)
        return ready

    def close(self) -> None:
        """Everything is as it was before."""
        signal.set_wakeup_fd(self._before)
        signal.signal(signal.SIGCHLD, self._handler)
        os.close(self._reader)
        os.close(self._writer)
