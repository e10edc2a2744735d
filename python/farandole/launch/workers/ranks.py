"""Workers that stay: ranks, which the agent starts, and with the first failure of which it ends the others."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from farandole.launch.workers.lines import LINE_BYTES_MAX, LineReader
from farandole.launch.workers.workers import HostJob, Tell, Workers

# The agent writes "[N] " before lines that it has cut at the same bound.
PREFIX_BYTES_MAX = 64


class RankWorkers(Workers):
    """Those of a job whose size is fixed."""

    def __init__(self, job: HostJob, environment: Mapping[str, str], tell: Tell) -> None:
        super().__init__(job, environment, tell)
        # Kept: an agent that takes over from a killed one writes there, too.
        self._outputs: list[int] = []

    def _start_agent(self) -> None:
        if not self._job.captured:
            return self._run_agent(self._job.spec)
        pipes = {stream: os.pipe() for stream in ("stdout", "stderr")}
        most = LINE_BYTES_MAX + PREFIX_BYTES_MAX
        self._readers = [LineReader(pipe[0], stream, line_bytes_max=most) for stream, pipe in pipes.items()]
        self._outputs = [writer for _, writer in pipes.values()]
        self._run_agent(self._job.spec, self._outputs)

    def obey(self, command: Mapping[str, Any]) -> None:
        """Passes signals on; there are no other commands for ranks."""
        if command["do"] == "signal" and self._agent is not None:
            self._agent.send(command["number"])

    def poll(self, ready: set[int]) -> None:
        """As Workers.poll."""
        super().poll(ready)
        code = None if self._agent is None or self.over else self._agent.poll()
        if code is not None:
            for reader in self._readers:
                self._show(reader, reader.read_last())
            self._finish(code)

    def give_up(self) -> None:
        """The agent ends the workers, and then itself."""
        if self._agent is not None:
            self._agent.give_up()

    def end(self) -> None:
        """As Workers.end."""
        super().end()
        while self._outputs:
            os.close(self._outputs.pop())
