"""Passes on what comes to a listening socket of another network to a port of 127.0.0.1 in its own.

The first argument is the socket's descriptor, the second one the port. It ends with its standard input.
"""

from __future__ import annotations

import socket
import sys

from farandole.launch.kubernetes.cluster import ClusterError
from farandole.launch.kubernetes.forward import Forward


def main(descriptor: str, port: str) -> None:
    """Until nobody holds the other end of stdin."""

    def connect() -> socket.socket:
        try:
            return socket.create_connection(("127.0.0.1", int(port)))
        except OSError as error:
            raise ClusterError(str(error)) from None

    with Forward(connect, socket.socket(fileno=int(descriptor))):
        sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
