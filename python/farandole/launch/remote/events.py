"""Which events (workers/workers.py) another host may tell: those of the job that runs there, and no others."""

from __future__ import annotations

import re
from typing import Any

from farandole.launch.remote.messages import check, message_of
from farandole.launch.workers.workers import HostJob

_TYPES: dict[str, dict[str, type]] = {
    "output": {"stream": str, "text": str},
    "note": {"text": str},
    "function": {},
    "ready": {},
    "started": {"slot": int, "pid": int},
    "ended": {"slot": int, "pid": int, "code": int, "killed": bool, "how": str},
    "finished": {"code": int, "text": str},
}
# At the beginning of lines, as in job/output.py.
_NUMBERS = re.compile(r"(?<![^\r\n])\[(\d+)\] ", re.ASCII)


class EventReader:
    """Reads the events of one host.

    Args:
        job: what runs there.
    """

    def __init__(self, job: HostJob) -> None:
        spec = job.spec
        ranks = range(spec.first_rank, spec.first_rank + spec.local_sizes[spec.host])
        self._numbers = set() if job.elastic else {str(rank) for rank in ranks}
        self._slots: set[int] = set()  # in which a worker is to run
        self._function = job.function is not None
        self.finished = False

    def expect(self, slot: int) -> None:
        """A worker is started in this slot."""
        self._slots.add(slot)
        self._numbers.add(str(slot))

    def read(self, text: bytes | bytearray) -> dict[str, Any]:
        """Raises ValueError: this is no event, or none that this host can have."""
        event = message_of(text)
        check(event, {"event": str})
        kind = event["event"]
        if kind not in _TYPES:
            raise ValueError(f"no event is called {kind}")
        check(event, _TYPES[kind])
        if self.finished:
            raise ValueError("it had finished")
        if kind == "output":
            self._check_output(event)
        if kind == "function":
            if not self._function:
                raise ValueError("no folder was asked for")
            self._function = False
        if "slot" in _TYPES[kind] and event["slot"] not in self._slots:
            raise ValueError("no worker is in this slot")
        if "code" in _TYPES[kind] and not 0 <= event["code"] <= 255:
            raise ValueError("no exit code is that")
        if kind == "ended":
            self._slots.remove(event["slot"])
        self.finished = kind == "finished"
        return event

    def _check_output(self, event: dict[str, Any]) -> None:
        """Stream and worker become names of files."""
        if event["stream"] not in ("stdout", "stderr"):
            raise ValueError("no stream is called that")
        if not self._numbers.issuperset(_NUMBERS.findall(event["text"])):
            raise ValueError("no worker there has that number")
