"""Abstract Unix sockets, by which processes of one user on one host ask each other something: a line of JSON each."""

from __future__ import annotations

import json
import os
import socket
import struct

ANSWER_BYTES_MAX = 65536


class ForeignSocketError(Exception):
    """The socket belongs to another user; the text says to whom."""


def peer_of(connection: socket.socket) -> tuple[int, int]:
    """Pid and user of the process at the other end."""
    pid, user, _ = struct.unpack("iII", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return pid, user


def ask(name: str, request: dict | None, timeout_s: float) -> dict | None:
    """What is answered at a socket; None if nobody is there, or just ending, or does not answer in time.

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
            connection.connect(f"\0{name}")
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
