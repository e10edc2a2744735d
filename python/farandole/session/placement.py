"""Who this process is when no launcher of ours started it: mpirun, srun, torchrun, or plain variables.

The first process of a host that calls init() starts a keeper for all of them (farandole/launch/keeper/keeper.py), which
runs the host's agent and, on one host, the controller. They meet at a socket whose name follows from the job's and a
secret of the user. Of several hosts rank 0's process starts the controller, in a keeper of its own, for the whole job
and for all its parts.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from farandole.base import sockets
from farandole.base.private import user_secret
from farandole.base.variables import START_TIMEOUT_S, start_timeout_s
from farandole.exceptions import InitializationError
from farandole.session import started_by

PAUSE_S = 0.05


@dataclass(frozen=True)
class Place:
    """Where a process belongs.

    Attributes:
        by: who says so.
        job: the same on all processes of the job, and on no others of this user at this time.
        rank, size: in the job.
        local_rank, local_size: on the host; -1: not told.
        controller: HOST:PORT at which the controller is, or is to be started beside rank 0; empty: on this host.
        key_file: holds the controller's key, on all hosts; empty: none is needed.
        data_address: where ranks of other hosts find those of this one; empty: the keeper finds out.
        launcher: socket of the agent of our launcher on this host; empty: there is none, or it is not needed.
        is_part: only some of what was started together are in the job.
        keeps_controller: what is asked for is the controller of several hosts, not an agent.
    """

    by: str
    job: str
    rank: int
    size: int
    local_rank: int
    local_size: int
    controller: str
    key_file: str
    data_address: str
    launcher: str = ""
    is_part: bool = False
    keeps_controller: bool = False

    @property
    def several_hosts(self) -> bool:
        """Whether ranks run on other hosts."""
        return bool(self.controller) or 0 <= self.local_size < self.size

    def part(self, ranks: Sequence[int]) -> Place:
        """In a job of these ranks. Which of them share a host is not known; the controller will tell."""
        return replace(
            self,
            job=f"{self.job}/ranks {','.join(map(str, ranks))}",
            rank=ranks.index(self.rank),
            size=len(ranks),
            local_rank=-1,
            local_size=-1,
            launcher=self.launcher if self.several_hosts else "",
            is_part=True,
        )

    def socket_name(self) -> str:
        """Abstract name of the keeper's socket, which another user cannot take before: it follows from a secret."""
        what = "controller" if self.keeps_controller else "keeper"
        digest = hashlib.sha256(f"{user_secret()}/{self.job}".encode()).hexdigest()[:32]
        return f"farandole-{what}-{os.geteuid()}-{digest}"


def _controller(variables: Mapping[str, str], says: started_by.Told) -> str:
    """Empty: on this host, or nobody knows."""
    given = variables.get("FARANDOLE_CONTROLLER", "")
    if given and not re.fullmatch(r".+:[1-9]\d{0,4}", given):
        raise InitializationError(f"FARANDOLE_CONTROLLER={given!r} is not HOST:PORT")
    return given or ("" if says.one_host else says.meeting)


def find(variables: Mapping[str, str]) -> Place | None:
    """Who this process is, whoever has started it; None if it is alone.

    Raises:
        InitializationError: the variables contradict each other, or do not suffice and no launcher of ours has told the
            library the rest.
    """
    launcher = variables.get("FARANDOLE_AGENT_SOCKET", "")
    says = started_by.told(variables)
    if says is None:
        if not launcher:
            started_by.refuse_half(variables)
        return None
    place = Place(
        says.family.by,
        says.job,
        says.rank,
        says.size,
        says.local_rank,
        says.local_size,
        # A launcher has told its controller from others.
        controller="" if launcher else _controller(variables, says),
        key_file=variables.get("FARANDOLE_KEY_FILE", ""),
        data_address=variables.get("FARANDOLE_DATA_ADDRESS", ""),
        launcher=launcher,
    )
    if launcher:
        return place
    if not place.controller and not says.one_host:
        raise InitializationError(_where_are_the_others(says))
    if place.controller and not place.key_file:
        raise InitializationError(
            f"the ranks of several hosts need a common secret to join the controller at {place.controller}: write one "
            "into a file of mode 0600 on every host (openssl rand -hex 32), and set FARANDOLE_KEY_FILE to its path"
            + (f"; or, if all ranks run on this host, set {says.family.local_size}" if says.local_size < 0 else "")
        )
    return place


def _where_are_the_others(says: started_by.Told) -> str:
    how = (
        "set FARANDOLE_CONTROLLER=HOST:PORT on all of them, HOST being the one of rank 0 and PORT a free one there, "
        "and FARANDOLE_KEY_FILE to a file with a secret"
    )
    if says.local_size >= 0:
        return f"{says.family.by}: there are ranks on several hosts: {how}"
    return (
        f"{says.family.by}: it is not said how many of the {says.size} ranks run on this host: set "
        f"{says.family.local_size} to their number; if they run on several hosts, {how}"
    )


def _start_keeper(place: Place) -> bool:
    """Starts it if this process is the first of the host; False: another one was."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        try:
            listener.bind(f"\0{place.socket_name()}")
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return False
            raise
        listener.listen(1024)
        command = [sys.executable, "-m", "farandole.launch.keeper.keeper", str(listener.fileno())]
        # It leaves this process at once, and holds no stdout that somebody waits for.
        started = subprocess.run(
            command,
            input=json.dumps(asdict(place)),
            text=True,
            stdout=subprocess.DEVNULL,
            pass_fds=[listener.fileno()],
            timeout=START_TIMEOUT_S,
        )
    if started.returncode:
        raise InitializationError(
            f"{' '.join(command[:-1])} ended with code {started.returncode}; it said why on stderr"
        )
    return True


def ask_keeper(place: Place) -> dict[str, str]:
    """The variables that the keeper of this place tells the library: where the agent is, and of which job.

    Raises:
        InitializationError: there is no keeper within the start timeout, or it cannot start what it keeps.
    """
    deadline = time.monotonic() + start_timeout_s(os.environ)
    while True:
        left = deadline - time.monotonic()
        if left <= 0:
            raise InitializationError(
                f"the keeper process of this host (started for {place.by}) does not answer at the socket "
                f"@{place.socket_name()}; ss -xp tells whether it, or somebody else, has that name"
            )
        _start_keeper(place)
        try:
            answer = sockets.ask(place.socket_name(), asdict(place), left)
        except sockets.ForeignSocketError as error:
            raise InitializationError(str(error)) from None
        if answer is not None:
            break
        time.sleep(PAUSE_S)
    if answer["error"]:
        raise InitializationError(answer["error"])
    return answer["variables"]
