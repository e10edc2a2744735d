"""How a keeper of a part (launch/keeper) learns from our launcher where the job's controller is, and what opens it.

Whoever keeps the agent of a host, the launcher or what it has started there through ssh, has a socket for that, whose
name follows from the agent's, open to processes of the same user alone. So the secret stands on no command line, in no
environment and in no file.
"""

from __future__ import annotations

import json
import os
import socket
from dataclasses import asdict, dataclass

from farandole.base import sockets

# Askers that wait; beyond them the kernel has others wait.
WAITING_MAX = 128
FETCH_S = 10.0


@dataclass(frozen=True)
class Access:
    """What an agent needs to take part in a job.

    Attributes:
        job: its name.
        controller: HOST:PORT.
        token: of a member of this job, which holds for its parts.
        certificate: the controller's own, in PEM; empty: no TLS.
    """

    job: str
    controller: str
    token: str
    certificate: str


def _name(agent_socket: str) -> str:
    return f"{agent_socket}-access"


class AccessServer:
    """Tells every process of this user that asks.

    Args:
        agent_socket: name of the agent's socket.
        access: what is told.
    """

    def __init__(self, agent_socket: str, access: Access) -> None:
        self._answer = json.dumps(asdict(access)).encode() + b"\n"
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listening.bind(f"\0{_name(agent_socket)}")
        listening.listen(WAITING_MAX)
        self._listener = sockets.Listener(listening)

    def waits_on(self) -> list[socket.socket]:
        """What to select on before `serve`."""
        return self._listener.waits_on()

    def serve(self) -> None:
        """Answers those that have come, as many as may wait at once. Does not wait itself."""
        for _ in range(WAITING_MAX):
            connection = self._listener.accept()
            if connection is None:
                return
            with connection:
                connection.setblocking(False)
                try:
                    if sockets.peer_of(connection)[1] == os.geteuid():
                        connection.sendall(self._answer)
                except OSError:
                    pass  # it has gone

    def close(self) -> None:
        """Nobody is answered any more."""
        self._listener.close()


def fetch(agent_socket: str) -> Access:
    """What is told at the socket beside an agent.

    Raises:
        RuntimeError: there is none within seconds.
    """
    try:
        answer = sockets.ask(_name(agent_socket), None, FETCH_S)
    except sockets.ForeignSocketError as error:
        raise RuntimeError(str(error)) from None
    if answer is None:
        raise RuntimeError(
            "what the launcher runs on this host does not say where the controller is; "
            "look at its output, and whether it still runs"
        )
    return Access(**answer)
