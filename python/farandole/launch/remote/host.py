"""Runs on a remote host, started through ssh: does there what a launcher does on its own host (launch/workers).

What it is to do comes as a line of JSON on stdin; then commands, one a line. Events go to stdout, likewise. The end of
stdin ends everything: the launcher has ended, in whatever way, or the connection has. A command is this program's own:

    {"do": "hold", "hold": true}    nobody takes output at the moment; false: again
"""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import signal
import socket
import sys
import time
from typing import Any

from farandole.base import locate
from farandole.launch.hosts.addresses import address_of, address_towards_controller
from farandole.launch.processes import descriptors
from farandole.launch.processes.waiting import Loop
from farandole.launch.remote.messages import line_of
from farandole.launch.workers import local
from farandole.launch.workers.workers import HostJob
from farandole.version import __version__

LINE_BYTES_MAX = 64 << 20
READ_BYTES = 1 << 16
# Events that the launcher has not taken: workers wait when it is more.
UNSENT_BYTES_MAX = 1 << 20
# From the end of the connection to that of the agent, which kills what does not end.
END_S = 8.0


def _problem(request: dict[str, Any]) -> str:
    try:
        os.environ.update(request["environment"])
        os.chdir(request["folder"])
        locate.find("farandole-agent")
    except OSError as error:
        return (
            str(error)
            if isinstance(error, FileNotFoundError) and not error.errno
            else (f"no folder {request['folder']} there: {error.strerror}")
        )
    if shutil.which(request["program"]) is None:
        return f"command {request['program']!r} was not found there"
    if request["interfaces"] and not address_of(request["interfaces"]):
        return f"none of the network interfaces {', '.join(request['interfaces'])} has an address there"
    return ""


def _answer(request: dict[str, Any]) -> dict[str, str]:
    return {
        "version": __version__,
        "error": _problem(request),
        "host": socket.gethostname(),
        "seen": os.environ.get("SSH_CONNECTION", "").split(" ")[0],
        "address": address_of(request["interfaces"]),
    }


class _Server:
    """Passes commands from stdin on to the workers of this host, and what they tell to `events`."""

    def __init__(self, job: HostJob, commands: bytes, events: int) -> None:
        self._commands, self._events = bytearray(commands), events
        os.set_blocking(events, False)
        self._unsent = bytearray()
        self._hold = False
        self._last: dict[str, Any] | None = None
        self._connected = True
        self._deadline = float("inf")
        self._workers = local.make(job, dict(os.environ), self._tell)

    def run(self) -> None:
        """Until the workers have ended, or a while after the connection has."""
        for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda number, frame: self._disconnect())
        for number in (signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2):
            # Not ignored: that would be passed on to the workers.
            signal.signal(number, lambda number, frame: None)
        with Loop() as loop:
            try:
                self._workers.start()
                self._obey_all()
                while not (self._workers.over or time.monotonic() > self._deadline):
                    self._turn(loop)
            finally:
                self._workers.end()
            if self._last is not None:
                self._unsent += line_of(self._last)
            self._deadline = min(self._deadline, time.monotonic() + END_S)
            while self._unsent and time.monotonic() < self._deadline:
                loop.wait([], 1.0, [self._events])
                self._send()

    def _turn(self, loop: Loop) -> None:
        hold = self._hold or len(self._unsent) > UNSENT_BYTES_MAX
        readers = [*self._workers.waits_on(hold), *([0] if self._connected else [])]
        ready = loop.wait(readers, 1.0, [self._events] if self._unsent else [])
        if 0 in ready:
            chunk = os.read(0, READ_BYTES)
            self._commands += chunk
            self._obey_all()
            if not chunk:
                self._disconnect()
        self._workers.poll(ready)
        self._send()

    def _obey_all(self) -> None:
        *lines, rest = self._commands.split(b"\n")
        self._commands = bytearray(rest)
        for line in lines:
            command = json.loads(line)
            if command["do"] == "hold":
                self._hold = command["hold"]
            else:
                self._workers.obey(command)

    def _tell(self, event: dict[str, Any]) -> None:
        if event["event"] == "finished":
            self._last = event  # once the workers' end has told what is left
        else:
            self._unsent += line_of(event)

    def _send(self) -> None:
        try:
            if self._unsent:
                del self._unsent[: os.write(self._events, self._unsent)]
        except BlockingIOError:
            pass
        except OSError:
            self._unsent.clear()
            self._disconnect()

    def _disconnect(self) -> None:
        if self._connected:
            self._connected = False
            self._deadline = time.monotonic() + END_S
            self._workers.give_up()


def _first_line() -> tuple[bytes, bytes]:
    """The first line on stdin, and what has come behind it."""
    received = bytearray()
    while b"\n" not in received[-READ_BYTES:]:
        chunk = os.read(0, READ_BYTES)
        if not chunk or len(received) > LINE_BYTES_MAX:
            raise SystemExit("farandole run: the launcher said nothing")
        received += chunk
    line, _, rest = received.partition(b"\n")
    return bytes(line), bytes(rest)


def main() -> None:
    """Runs the program."""
    line, rest = _first_line()
    if sys.argv[1:] == ["--check"]:
        sys.stdout.buffer.write(line_of(_answer(json.loads(line))))
        return
    job = HostJob.from_json(line)
    os.environ.update(job.environment)
    os.chdir(job.folder)
    if job.elastic and not job.spec.data_address:
        address = address_of(job.interfaces) or address_towards_controller(job.spec.controller)
        job = dataclasses.replace(job, spec=dataclasses.replace(job.spec, data_address=address))
    events = os.dup(1)
    os.dup2(2, 1)  # what others print here would not be events
    descriptors.raise_limit()
    _Server(job, rest, events).run()


if __name__ == "__main__":
    main()
