"""Wakes a loop that waits in select."""

from __future__ import annotations

import os
import signal


class Wakeup:
    """A descriptor that is readable once a signal has come for which there is a handler; SIGCHLD has one as well.

    Only in the main thread, and one at a time.
    """

    def __init__(self) -> None:
        self.reader, self._writer = os.pipe()
        os.set_blocking(self._writer, False)
        self._handler = signal.signal(signal.SIGCHLD, lambda number, frame: None)
        self._before = signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)

    def drain(self, ready: list) -> None:
        """Makes it wait for the next signal, if it is among what `select` has found ready."""
        if self.reader in ready:
            os.read(self.reader, 4096)

    def close(self) -> None:
        """Everything is as it was before."""
        signal.set_wakeup_fd(self._before)
        signal.signal(signal.SIGCHLD, self._handler)
        os.close(self.reader)
        os.close(self._writer)
