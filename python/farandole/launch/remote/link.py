"""The launcher's end of what runs on another host (host.py is the other): commands there, events back."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

from farandole.launch.workers.workers import HostJob

READ_BYTES = 1 << 16
# An event is shorter; what sends more is something else.
EVENT_BYTES_MAX = 1 << 22
# For ssh to end once its output has.
END_S = 1.0


class RemoteHost:
    """Agent and workers of another host, as LocalHost has those of this one.

    The connection is also the lifeline: when it ends, the agent there and its workers end.

    Args:
        job: what runs there.
        command: reaches the host.
        environment: of `command`.

    Raises:
        OSError: `command` cannot be started.
    """

    def __init__(self, job: HostJob, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self.name = job.host
        self._process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
        )
        for pipe in (self._process.stdin, self._process.stdout):
            os.set_blocking(pipe.fileno(), False)
        self._unsent = bytearray(job.to_json().encode() + b"\n")
        self._received = bytearray()
        self._finished = False
        self._ended = False
        self._flush()

    @property
    def over(self) -> bool:
        """As LocalHost.over; the connection may have ended before that was told."""
        return self._ended or self._process.poll() is not None

    def readers(self, hold: bool) -> list:
        """As LocalHost.readers."""
        return [] if hold or self._ended else [self._process.stdout]

    def writers(self) -> list:
        """As LocalHost.writers."""
        return [self._process.stdin] if self._unsent and not self._process.stdin.closed else []

    def send(self, **command: Any) -> None:
        """As LocalHost.send. A command to a host that has ended is lost."""
        self._unsent += json.dumps(command).encode() + b"\n"
        self._flush()

    def _flush(self) -> None:
        if not self._unsent or self._process.stdin.closed:
            return
        try:
            del self._unsent[: os.write(self._process.stdin.fileno(), self._unsent)]
        except BlockingIOError:
            pass
        except BrokenPipeError:
            self._unsent.clear()

    def events(self, ready: set[int]) -> list[dict[str, Any]]:
        """As LocalHost.events."""
        self._flush()
        if self._ended or self._process.stdout.fileno() not in ready:
            return []
        chunk = os.read(self._process.stdout.fileno(), READ_BYTES)
        self._received += chunk
        *lines, rest = self._received.split(b"\n")
        self._received = bytearray(rest)
        try:
            found = [json.loads(line) for line in lines]
        except ValueError:
            chunk, found = b"", []
        self._finished = self._finished or any(event["event"] == "finished" for event in found)
        if chunk and len(rest) <= EVENT_BYTES_MAX:
            return found
        self._ended = True
        return found if self._finished else [*found, self._lost()]

    def _lost(self) -> dict[str, Any]:
        try:
            code = self._process.wait(END_S)
            how = f"ssh exited with code {code if code >= 0 else 128 - code}"
        except subprocess.TimeoutExpired:
            code, how = 1, "it answers with something else"
        text = f"the connection to host {self.name} ended ({how}), and its workers with it"
        return {"event": "finished", "code": code if code > 0 else 128 - code, "text": text}

    def give_up(self) -> None:
        """As LocalHost.give_up."""
        if not self._process.stdin.closed:
            self._flush()
            self._process.stdin.close()

    def end(self) -> None:
        """Nothing of it is left here; whoever has not ended by now learns that from the connection's end."""
        self.give_up()
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self._ended = True
        self._process.stdout.close()
