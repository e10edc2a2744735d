"""The launcher's end of what runs on another host (host.py is the other): commands there, events back."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from typing import IO, Any

from farandole.launch.processes.child import pipe
from farandole.launch.remote.events import EventReader
from farandole.launch.remote.messages import MARK
from farandole.launch.workers.workers import HostJob

READ_BYTES = 1 << 16
# An event is shorter; what sends more is something else.
EVENT_BYTES_MAX = 1 << 22
# Read from a host after it was told to hold its output back: more than is on its way then.
LATE_BYTES_MAX = 1 << 23
# For ssh to end once its output has.
END_S = 1.0
# Of what it says, in sentences.
QUOTED_MAX = 80
_MARK = MARK.encode()


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
        self._stdin, self._stdout = pipe(self._process.stdin), pipe(self._process.stdout)
        for end in (self._stdin, self._stdout):
            os.set_blocking(end.fileno(), False)
        self._unsent = bytearray(job.to_json().encode() + b"\n")
        self._received = bytearray()
        self._reader = EventReader(job)
        self._ended = self._greeted = False
        self._hold = False
        self._late_bytes = 0
        self._flush()

    @property
    def over(self) -> bool:
        """As LocalHost.over."""
        return self._ended

    def readers(self, hold: bool) -> list[IO[bytes]]:
        """As LocalHost.readers. The host is told of `hold`, as other events come behind output."""
        if hold != self._hold:
            self._hold, self._late_bytes = hold, 0
            self.send(do="hold", hold=hold)
        return [] if self._ended or self._late_bytes > LATE_BYTES_MAX else [self._stdout]

    def writers(self) -> list[IO[bytes]]:
        """As LocalHost.writers."""
        return [self._stdin] if self._unsent and not self._stdin.closed else []

    def send(self, **command: Any) -> None:
        """As LocalHost.send. A command to a host that has ended is lost."""
        if command["do"] == "start":
            self._reader.expect(command["slot"])
        self._unsent += json.dumps(command).encode() + b"\n"
        self._flush()

    def _flush(self) -> None:
        if not self._unsent or self._stdin.closed:
            return
        try:
            del self._unsent[: os.write(self._stdin.fileno(), self._unsent)]
        except BlockingIOError:
            pass
        except BrokenPipeError:
            self._unsent.clear()

    def events(self, ready: set[int]) -> list[dict[str, Any]]:
        """As LocalHost.events."""
        self._flush()
        gone = self._process.poll() is not None
        if self._ended or not (gone or self._stdout.fileno() in ready):
            return []
        try:
            chunk = os.read(self._stdout.fileno(), READ_BYTES)
        except BlockingIOError:
            if not gone:
                return []
            chunk = b""  # what ssh has started holds the pipe open
        self._received += chunk
        self._late_bytes += len(chunk) if self._hold else 0
        *lines, rest = self._received.split(b"\n")
        self._received = bytearray(rest)
        found: list[dict[str, Any]] = []
        for line in lines:
            problem = self._take(line, found)
            if problem:
                return self._end_with(found, problem)
        if len(rest) > EVENT_BYTES_MAX:
            return self._end_with(found, _something_else("a line without end", rest))
        return found if chunk else self._end_with(found, "")

    def _take(self, line: bytearray, found: list[dict[str, Any]]) -> str:
        """Adds to `found` what a line says; returns what is wrong with it."""
        if line.startswith(_MARK):
            try:
                found.append(self._reader.read(line[len(_MARK) :]))
            except ValueError as error:
                return _something_else(str(error), line)
        elif line.strip() and not self._greeted:
            self._greeted = True
            text = f"the login on host {self.name} prints {_quoted(line)}; such lines are left out"
            found.append({"event": "note", "text": text})
        return ""

    def _end_with(self, found: list[dict[str, Any]], how: str) -> list[dict[str, Any]]:
        """Nothing more is read; `how` is empty at the end of the connection. A host that has finished, or was given up,
        may go."""
        self._ended = True
        if self._reader.finished or self._stdin.closed:
            return found
        code = 1
        if not how:
            try:
                status = self._process.wait(END_S)
                code = 128 - status if status < 0 else status or 1
                how = f"ssh exited with code {status if status >= 0 else code}"
            except subprocess.TimeoutExpired:
                how = "ssh has closed it and goes on"
        text = f"the connection to host {self.name} ended ({how}), and its workers with it"
        return [*found, {"event": "finished", "code": code, "text": text}]

    def give_up(self) -> None:
        """As LocalHost.give_up."""
        if not self._stdin.closed:
            self._flush()
            self._stdin.close()

    def end(self) -> None:
        """Nothing of it is left here; whoever has not ended by now learns that from the connection's end."""
        self.give_up()
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self._ended = True
        self._stdout.close()


def _something_else(reason: str, line: bytearray) -> str:
    return f"it answers with something else, {_quoted(line)}: {reason}"


def _quoted(line: bytearray) -> str:
    return ascii(line[:QUOTED_MAX].decode(errors="replace").rstrip())
