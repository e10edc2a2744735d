"""Runs on a remote host, started through ssh: keeps the agent there for a launcher elsewhere.

What it is to do comes as a line of JSON on stdin; then lines ``signal N``. The end of stdin ends everything.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import sys
import time

from farandole.base import locate
from farandole.launch.hosts.addresses import address_of
from farandole.launch.processes.agents import AgentSpec, LocalAgent
from farandole.launch.processes.waiting import Loop
from farandole.launch.remote.ssh import MARK
from farandole.version import __version__

LINE_BYTES_MAX = 64 << 20
# From the end of the connection to that of the agent, which kills what does not end.
END_S = 8.0


def say(sentence: str) -> None:
    """One line on stderr."""
    print(f"farandole run, host {socket.gethostname()}: {sentence}", file=sys.stderr, flush=True)


def _enter(request: dict) -> None:
    """Takes over environment and folder. Raises OSError."""
    os.environ.update(request["environment"])
    os.chdir(request["folder"])


def _problem(request: dict) -> str:
    try:
        _enter(request)
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


def _answer(request: dict) -> dict:
    return {
        "version": __version__,
        "error": _problem(request),
        "host": socket.gethostname(),
        "seen": os.environ.get("SSH_CONNECTION", "").split(" ")[0],
        "address": address_of(request["interfaces"]),
    }


class _Proxy:
    """Does on this host what a launcher would: keeps the agent until it ends, or the connection does."""

    def __init__(self, request: dict, pending: bytes) -> None:
        fields = request["spec"]
        fields["local_sizes"], fields["command"] = tuple(fields["local_sizes"]), tuple(fields["command"])
        self._agent = LocalAgent(AgentSpec(**fields), dict(os.environ), say)
        self._pending = pending
        self._connected = True
        self._deadline = float("inf")

    def run(self) -> int:
        for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda number, frame: self._disconnect())
        loop = Loop()
        try:
            return self._wait(loop) if self._agent.start() else 1
        finally:
            self._agent.end()
            loop.close()

    def _wait(self, loop: Loop) -> int:
        while True:
            code = self._agent.poll()
            if code is not None:
                return code
            if time.monotonic() > self._deadline:
                return 1
            if 0 in loop.wait([*self._agent.waits_on(), *([0] if self._connected else [])], 1.0):
                self._read()

    def _read(self) -> None:
        chunk = os.read(0, 4096)
        if not chunk:
            self._disconnect()
        *lines, self._pending = (self._pending + chunk).split(b"\n")
        for line in lines:
            verb, _, number = line.partition(b" ")
            if verb == b"signal" and number.isdigit():
                self._agent.send(int(number))

    def _disconnect(self) -> None:
        if self._connected:
            self._connected = False
            self._deadline = time.monotonic() + END_S
            self._agent.give_up()


def _first_line() -> tuple[bytes, bytes]:
    """The first line on stdin, and what has come behind it."""
    received = b""
    while b"\n" not in received:
        chunk = os.read(0, 1 << 16)
        if not chunk or len(received) > LINE_BYTES_MAX:
            raise SystemExit("farandole run: the launcher said nothing")
        received += chunk
    line, _, rest = received.partition(b"\n")
    return line, rest


def main() -> int:
    """Runs the program; returns the agent's exit code."""
    line, rest = _first_line()
    request = json.loads(line)
    if sys.argv[1:] == ["--check"]:
        print(MARK + json.dumps(_answer(request)), flush=True)
        return 0
    _enter(request)
    return _Proxy(request, rest).run()


if __name__ == "__main__":
    sys.exit(main())
