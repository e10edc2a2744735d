"""Signals to the launcher, which are meant for the workers."""

from __future__ import annotations

import signal
from types import FrameType

from farandole.launch.processes.waiting import Loop

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
RELAYED = (*ENDING, signal.SIGUSR1, signal.SIGUSR2)


class Signals:
    """Those that have come and were not passed on yet. Taken down while it is entered; afterwards all is as before.

    Attributes:
        pending: their numbers.
        ended_by: the first that came of those that end a job; 0: none.
        loop: waits for new ones, too, and for children that end.
    """

    loop: Loop

    def __init__(self) -> None:
        self.pending: list[int] = []
        self.ended_by = 0
        self._interrupts = 0
        self._handlers: dict[int, signal._HANDLER] = {}

    def __enter__(self) -> Signals:
        # What is ignored stays so: nohup is told to.
        taken = [number for number in RELAYED if signal.getsignal(number) is not signal.SIG_IGN]
        self._handlers = {number: signal.signal(number, self._take) for number in taken}
        self.loop = Loop()
        return self

    def __exit__(self, *raised: object) -> None:
        self.loop.close()
        for number, handler in self._handlers.items():
            signal.signal(number, handler)

    def _take(self, number: int, frame: FrameType | None) -> None:
        """The second Ctrl-C is a SIGTERM, the third ends at once."""
        if number == signal.SIGINT:
            self._interrupts += 1
            number = {1: signal.SIGINT, 2: signal.SIGTERM}.get(self._interrupts, signal.SIGKILL)
        self.take(number)

    def take(self, number: int) -> None:
        """As if it had come."""
        if number in (*ENDING, signal.SIGKILL):
            self.ended_by = self.ended_by or number
        self.pending.append(number)
