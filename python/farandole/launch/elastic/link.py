"""The driver's end of what runs on one host (helper.py is the other): commands down, events up, never waiting."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

READ_BYTES = 1 << 16
# An event is shorter; what sends more is something else.
EVENT_BYTES_MAX = 1 << 22
# For the host's processes to end.
END_S = 10.0


class HostLink:
    """A helper process for one host.

    Args:
        host: its name.
        command: starts the helper, here or there.
        environment: of `command`.
        job: the first line that it gets.

    Raises:
        OSError: `command` cannot be started.
    """

    def __init__(
        self, host: str, command: Sequence[str], environment: Mapping[str, str], job: Mapping[str, Any]
    ) -> None:
        self.host = host
        self._process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
        )
        self._unsent = bytearray()
        self._received = bytearray()
        for pipe in (self._process.stdin, self._process.stdout):
            os.set_blocking(pipe.fileno(), False)
        self.send(**job)

    @property
    def reader(self) -> int:
        """What to select on before `read`."""
        return self._process.stdout.fileno()

    @property
    def writers(self) -> list[int]:
        """What to select on before `flush`."""
        return [self._process.stdin.fileno()] if self._unsent else []

    def send(self, **command: Any) -> None:
        """Sends a command, now or by a later `flush`. One to a helper that has ended is lost."""
        self._unsent += json.dumps(command).encode() + b"\n"
        self.flush()

    def flush(self) -> None:
        """Sends what was not sent yet."""
        try:
            del self._unsent[: os.write(self._process.stdin.fileno(), self._unsent)]
        except BlockingIOError:
            pass
        except BrokenPipeError:
            self._unsent.clear()

    def read(self) -> list[dict[str, Any]] | None:
        """Events that have come; None: the helper has ended."""
        try:
            chunk = os.read(self.reader, READ_BYTES)
        except BlockingIOError:
            return []
        self._received += chunk
        *lines, rest = self._received.split(b"\n")
        self._received = bytearray(rest)
        if not chunk or len(rest) > EVENT_BYTES_MAX:
            return None
        return [json.loads(line) for line in lines]

    def describe_end(self) -> str:
        """How the helper has ended, as a phrase."""
        try:
            return f"ended with code {self._process.wait(1.0)}"
        except subprocess.TimeoutExpired:
            return "does not answer sensibly"

    def close(self) -> None:
        """Has the helper end everything. The first of two steps, so that hosts end at the same time."""
        self._process.stdin.close()

    def wait(self) -> None:
        """Waits for its end, after `close`; it is killed after a while."""
        try:
            # Its last words have no reader.
            self._process.stdout.close()
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
