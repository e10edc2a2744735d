"""Abstract Unix sockets, by which processes of one user on one host ask each other something: a line of JSON each."""

from __future__ import annotations

import json
import os
import socket
import struct
import time
from typing import Any

ANSWER_BYTES_MAX = 65536
# How long a listening socket is left alone when this process has no descriptors left.
PAUSE_S = 0.1
# How long one waits at a socket whose queue is full before one comes again.
QUEUE_PAUSE_S = 0.01


class ForeignSocketError(Exception):
    """The socket belongs to another user; the text says to whom."""


class Listener:
    """A listening socket among what a loop selects on.

    When the process has run out of descriptors it stays readable: it is left alone for a moment, so that the loop does
    not spin, and then asked again, for ever. The loop has to look again within about a second.

    Args:
        listening: the socket, from now on of this object, and not blocking.
    """

    def __init__(self, listening: socket.socket) -> None:
        listening.setblocking(False)
        self._socket = listening
        self._again = 0.0

    def waits_on(self) -> list[socket.socket]:
        """What to select on; nothing while it is left alone."""
        return [self._socket] if time.monotonic() >= self._again else []

    def accept(self) -> socket.socket | None:
        """The next connection, blocking; None if there is none, or none can be taken now."""
        try:
            return self._socket.accept()[0]
        except BlockingIOError:
            return None
        except OSError:
            self._again = time.monotonic() + PAUSE_S
            return None

    def close(self) -> None:
        """Nobody is taken any more."""
        self._socket.close()


def peer_of(connection: socket.socket) -> tuple[int, int]:
    """Pid and user of the process at the other end."""
    pid, user, _ = struct.unpack("iII", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return pid, user


def _connect(connection: socket.socket, name: str, timeout_s: float) -> bool:
    """False if the socket's queue stays full; the kernel lets nobody with a timeout wait in it."""
    until = time.monotonic() + timeout_s
    while True:
        try:
            connection.connect(f"\0{name}")
            return True
        except BlockingIOError:
            if time.monotonic() >= until:
                return False
            time.sleep(QUEUE_PAUSE_S)


def ask(name: str, request: dict[str, Any] | None, timeout_s: float) -> dict[str, Any] | None:
    """What is answered at a socket; None if nobody is there, or just ending, or takes or answers nobody in time.

    Args:
        name: of the socket, without the zero byte.
        request: what is said first; None: nothing.
        timeout_s: for each step.

    Raises:
        ForeignSocketError: another user listens there.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(timeout_s)
        received = b""
        try:
            if not _connect(connection, name, timeout_s):
                return None
            owner = peer_of(connection)[1]
            if owner != os.geteuid():
                raise ForeignSocketError(f"the socket @{name} belongs to user {owner}, not to this one")
            if request is not None:
                connection.sendall(json.dumps(request).encode() + b"\n")
            while not received.endswith(b"\n") and len(received) < ANSWER_BYTES_MAX:
                chunk = connection.recv(4096)
                if not chunk:
                    return None
                received += chunk
        except (ConnectionError, socket.timeout):
            return None
    return json.loads(received)
