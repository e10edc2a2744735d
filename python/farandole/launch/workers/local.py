"""The workers of this host, as the launcher has them; those of another one are remote/link.py's."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from typing import Any

from farandole.launch.workers.lines import LineReader
from farandole.launch.workers.ranks import RankWorkers
from farandole.launch.workers.slots import SlotWorkers
from farandole.launch.workers.workers import HostJob, Tell, Workers


def make(job: HostJob, environment: Mapping[str, str], tell: Tell) -> Workers:
    """Those of a job, which are not started yet."""
    return (SlotWorkers if job.elastic else RankWorkers)(job, environment, tell)


class LocalHost:
    """Agent and workers of this host.

    Args:
        job: what runs.
    """

    def __init__(self, job: HostJob) -> None:
        self.name = job.host
        self._told: list[dict[str, Any]] = []
        self._workers = make(job, job.environment, self._told.append)
        self._workers.start()

    @property
    def over(self) -> bool:
        """Whether nothing runs there any more."""
        return self._workers.over

    def readers(self, hold: bool) -> Sequence[socket.socket | LineReader]:
        """What to wait for before `events`; `hold`: without output, which nobody takes at the moment."""
        return self._workers.waits_on(hold)

    def writers(self) -> list[int]:
        """Likewise."""
        return []

    def events(self, ready: set[int]) -> list[dict[str, Any]]:
        """What has happened (workers.py); `ready` are descriptors among `readers` and `writers`."""
        self._workers.poll(ready)
        told = self._told[:]
        self._told.clear()
        return told

    def send(self, **command: Any) -> None:
        """Has a command (workers.py) obeyed."""
        self._workers.obey(command)

    def give_up(self) -> None:
        """Has everything there end. The first of two steps, so that all hosts end at the same time."""
        self._workers.give_up()

    def end(self) -> None:
        """Returns when nothing is left."""
        self._workers.end()
