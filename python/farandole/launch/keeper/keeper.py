"""Keeps the agent of a host for the processes of a job that no launcher of ours has made, or the controller of several
hosts beside rank 0.

Started by the first of these processes, which hands it the socket where all of them ask. Ends with the last of them.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time

from farandole.base import sockets
from farandole.launch.keeper.services import AgentService, ControllerService
from farandole.launch.processes.waiting import Loop
from farandole.session.placement import Place

LINE_BYTES_MAX = 65536
# A process that has connected says at once who it is.
ASK_S = 5.0
# Nobody has come: the one that started this has died.
FIRST_S = 60.0


def say(sentence: str) -> None:
    """One line on stderr."""
    print(f"farandole: {sentence}", file=sys.stderr, flush=True)


class Keeper:
    """What one host has for one job.

    Args:
        place: of the process that started this.
        pid: its number; this ends with it if nobody else has asked by then.
        listener: where processes ask.
    """

    def __init__(self, place: Place, pid: int, listener: socket.socket) -> None:
        self._listener = sockets.Listener(listener)
        self._service = (ControllerService if place.keeps_controller else AgentService)(place, os.environ, say)
        self._error = ""
        self._processes: dict[int, int] = {}  # pidfd by pid
        try:
            self._processes[pid] = os.pidfd_open(pid)
        except ProcessLookupError:
            pass  # others may come

    def run(self) -> None:
        """Until the last process has ended, and what is kept is not needed by others."""
        loop = Loop()
        try:
            try:
                self._service.start()
            except (OSError, ValueError, RuntimeError) as error:
                self._error = str(error)
            self._serve(loop)
        finally:
            self._listener.close()
            self._service.end()
            loop.close()

    def _serve(self, loop: Loop) -> None:
        deadline = 0.0 if self._processes else time.monotonic() + FIRST_S
        while self._processes or time.monotonic() < deadline or not (self._error or self._service.leave()):
            ends = [] if self._error else self._service.waits_on()
            askers = self._listener.waits_on()
            ready = loop.wait([*askers, *ends, *self._processes.values()], 1.0)
            for pid in [pid for pid, pidfd in self._processes.items() if pidfd in ready]:
                os.close(self._processes.pop(pid))
            if any(asker.fileno() in ready for asker in askers):
                self._accept()
                deadline = 0.0
            if not self._error and not self._service.alive():
                return

    def _accept(self) -> None:
        connection = self._listener.accept()
        if connection is None:
            return
        with connection:
            connection.settimeout(ASK_S)
            pid, owner = sockets.peer_of(connection)
            if owner != os.geteuid():
                return
            try:
                with connection.makefile("rwb") as stream:
                    asked = Place(**json.loads(stream.readline(LINE_BYTES_MAX)))
                    if pid not in self._processes:
                        self._processes[pid] = os.pidfd_open(pid)
                    variables = {} if self._error else self._service.asked(asked)
                    stream.write(json.dumps({"error": self._error, "variables": variables}).encode() + b"\n")
            except (OSError, ValueError, TypeError):
                pass  # it has gone, and asks again if not


def main() -> int:
    """Runs the program: returns at once in the process that was started, after the last process in one of its own."""
    place, starter = Place(**json.load(sys.stdin)), os.getppid()
    if os.fork():
        return 0
    os.setsid()
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    Keeper(place, starter, socket.socket(fileno=int(sys.argv[1]))).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
