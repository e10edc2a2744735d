"""Keeps the agent of a host, and the controller beside rank 0, for processes that somebody else has started.

Started by the first of these processes, which hands it the socket where all of them ask for the agent. Ends with the
last of them.
"""

from __future__ import annotations

import hashlib
import json
import os
import select
import signal
import socket
import struct
import sys
import time

from farandole._placement import Place
from farandole.launch.agents import AgentSpec, LocalAgent
from farandole.launch.children import member_token
from farandole.launch.controller import Controller, certificate

LINE_BYTES_MAX = 65536
# A process that has connected says at once who it is.
ASK_S = 5.0
# Nobody has come: the one that started this has died.
FIRST_S = 60.0
# Ranks of other hosts may still be leaving.
LINGER_S = 5.0


def say(sentence: str) -> None:
    """One line on stderr."""
    print(f"farandole: {sentence}", file=sys.stderr, flush=True)


def read_key(path: str) -> str:
    """The secret in a file.

    Raises:
        ValueError: it cannot be read, is empty, or others may read it.
    """
    try:
        with open(path) as file:
            mode = os.fstat(file.fileno()).st_mode & 0o777
            key = file.read(4096).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"FARANDOLE_KEY_FILE={path}: {getattr(error, 'strerror', None) or 'is not text'}") from None
    if mode & 0o077:
        raise ValueError(f"FARANDOLE_KEY_FILE={path} has mode {mode:o}; others may read it: chmod 600 {path}")
    if len(key) < 16:
        raise ValueError(f"FARANDOLE_KEY_FILE={path} holds {len(key)} characters, too few for a secret")
    return key


class Keeper:
    """One host of one job.

    Args:
        place: of the process that started this.
        pid: its number; this ends with it if nobody else has asked by then.
        listener: where processes ask.
    """

    def __init__(self, place: Place, pid: int, listener: socket.socket) -> None:
        self._place, self._listener = place, listener
        digest = hashlib.sha256(place.job.encode()).hexdigest()[:16]
        self._job = f"{''.join(c for c in place.by.split()[0].lower() if c.isalnum())}-{digest}"
        # What an agent of the same job must not take from these processes.
        self._environment = {n: v for n, v in os.environ.items() if n != "FARANDOLE_DATA_ADDRESS"}
        self._controller: Controller | None = None
        self._agent: LocalAgent | None = None
        self._error = ""
        self._processes: dict[int, int] = {}  # pidfd: pid
        try:
            self._processes[os.pidfd_open(pid)] = pid
        except ProcessLookupError:
            pass  # others may come

    def run(self) -> None:
        """Until the last process has ended."""
        wake_reader, wake_writer = os.pipe()
        os.set_blocking(wake_writer, False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.set_wakeup_fd(wake_writer, warn_on_full_buffer=False)
        try:
            try:
                self._start()
            except (OSError, ValueError, RuntimeError) as error:
                self._error = str(error)
            self._serve(wake_reader)
        finally:
            self._listener.close()
            if self._agent is not None:
                self._agent.end()
            if self._controller is not None:
                if self._place.several_hosts:
                    time.sleep(LINGER_S)
                self._controller.end()

    def _start(self) -> None:
        place = self._place
        key = read_key(place.key_file) if place.controller else None
        address = place.controller
        if not address:
            self._start_controller("127.0.0.1:0", None)
            key, address = self._controller.key, self._controller.address
        spec = AgentSpec(
            job=self._job,
            controller=address,
            token=member_token(key, self._job),
            certificate=certificate(key) if place.controller else "",
            first_rank=0,
            local_sizes=(place.size,),
            host=0,
            data_address=place.data_address,
            prefix_output=False,
            command=(),
        )
        self._agent = LocalAgent(spec, self._environment, say)
        if not self._agent.start():
            raise RuntimeError("the agent of this host did not start; it said why on stderr")

    def _start_controller(self, listen: str, key: str | None) -> None:
        self._controller = Controller(listen, bool(key), self._environment, say, key=key)
        if not self._controller.start():
            raise RuntimeError(f"the controller did not start at {listen}; it said why on stderr")

    def _serve(self, wake_reader: int) -> None:
        deadline = 0.0 if self._processes else time.monotonic() + FIRST_S
        while self._processes or time.monotonic() < deadline:
            ends = self._agent.waits_on() if self._agent is not None else []
            ready = select.select([self._listener, wake_reader, *ends, *self._processes], [], [], 1.0)[0]
            if wake_reader in ready:
                os.read(wake_reader, 4096)
            if self._listener in ready:
                self._accept()
                deadline = 0.0
            for pidfd in [fd for fd in self._processes if fd in ready]:
                del self._processes[pidfd]
                os.close(pidfd)
            if self._agent is not None and self._agent.poll() is not None:
                return
            if self._controller is not None and not self._controller.alive():
                return

    def _accept(self) -> None:
        connection, _ = self._listener.accept()
        with connection:
            connection.settimeout(ASK_S)
            pid, owner, _ = struct.unpack("iII", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
            if owner != os.geteuid():
                return
            try:
                with connection.makefile("rwb") as stream:
                    asked = Place(**json.loads(stream.readline(LINE_BYTES_MAX)))
                    self._processes[os.pidfd_open(pid)] = pid
                    stream.write(json.dumps(self._answer(asked)).encode() + b"\n")
            except (OSError, ValueError, TypeError):
                pass  # it has gone, and asks again if not

    def _answer(self, asked: Place) -> dict:
        if not self._error and asked.rank == 0 and self._controller is None:
            port = asked.controller.rpartition(":")[2]
            try:
                self._start_controller(f"0.0.0.0:{port}", read_key(asked.key_file))
            except (OSError, ValueError, RuntimeError) as error:
                self._error = str(error)
        if self._error:
            return {"error": self._error, "variables": {}}
        return {
            "error": "",
            "variables": {"FARANDOLE_AGENT_SOCKET": self._agent.socket_name, "FARANDOLE_JOB": self._job},
        }


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
