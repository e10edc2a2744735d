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


# Who: rank, size, local rank, local size, and what tells the job from others.
_FAMILIES = {
    "FARANDOLE_RANK and FARANDOLE_SIZE": (
        ("FARANDOLE_RANK", "FARANDOLE_SIZE", "FARANDOLE_LOCAL_RANK", "FARANDOLE_LOCAL_SIZE"),
        ("FARANDOLE_JOB", "FARANDOLE_CONTROLLER"),
        (),
    ),
    "mpirun": (
        ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"),
        ("PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"),
        (),
    ),
    "torchrun": (
        ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"),
        ("TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RESTART_COUNT"),
        ("MASTER_ADDR", "MASTER_PORT"),
    ),
    "srun": (
        ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", ""),
        ("SLURM_JOB_ID", "SLURM_STEP_ID"),
        ("SLURM_STEP_ID",),
    ),
}


def _number(variables: Mapping[str, str], name: str) -> int:
    text = variables.get(name, "")
    if not text:
        return -1
    if not text.isdecimal():
        raise InitializationError(f"{name}={text!r} is not a number")
    return int(text)


def _slurm_local_size(variables: Mapping[str, str]) -> int:
    """Of this node from ``2(x3),1``: three nodes with two tasks each, one with one."""
    sizes: list[int] = []
    for part in variables.get("SLURM_STEP_TASKS_PER_NODE", "").split(","):
        found = re.fullmatch(r"(\d+)(?:\(x(\d+)\))?", part)
        if not found or len(sizes) > 100000:
            return -1
        sizes += [int(found.group(1))] * int(found.group(2) or 1)
    node = _number(variables, "SLURM_NODEID")
    return sizes[node] if 0 <= node < len(sizes) else -1


def _controller(variables: Mapping[str, str], by: str, several_hosts: bool) -> str:
    given = variables.get("FARANDOLE_CONTROLLER", "")
    if given and not re.fullmatch(r".+:[1-9]\d{0,4}", given):
        raise InitializationError(f"FARANDOLE_CONTROLLER={given!r} is not HOST:PORT")
    if given or not several_hosts:
        return given
    if by == "torchrun" and variables.get("MASTER_PORT", "").isdecimal():
        # The port itself is that of torch's own store.
        return f"{variables['MASTER_ADDR']}:{int(variables['MASTER_PORT']) + 1}"
    raise InitializationError(
        f"{by} has put ranks on several hosts: set FARANDOLE_CONTROLLER=HOST:PORT on all of them, HOST being the one "
        "of rank 0 and PORT a free one there, and FARANDOLE_KEY_FILE to a file with a secret"
    )


def told(variables: Mapping[str, str]) -> Place | None:
    """Who this process is, whoever has started it; None if it is alone.

    Raises:
        InitializationError: the variables contradict each other.
    """
    for by, (names, of_job, needed) in _FAMILIES.items():
        if not all(variables.get(name) for name in (*names[:2], *needed)):
            continue
        rank, size, local_rank, local_size = (_number(variables, name) for name in names)
        if by == "srun":
            local_size = _slurm_local_size(variables)
        if size <= 1:
            return None
        if not 0 <= rank < size or local_size > size or (local_size >= 0 and local_rank >= local_size):
            values = ", ".join(f"{name}={variables[name]}" for name in names if variables.get(name))
            raise InitializationError(f"the place of this process makes no sense: {values}")
        job = "/".join([by, *(variables.get(name, "") for name in of_job)])
        launcher = variables.get("FARANDOLE_AGENT_SOCKET", "")
        # A launcher has told its controller from others.
        controller = "" if launcher else variables.get("FARANDOLE_CONTROLLER", "")
        key_file, data_address = variables.get("FARANDOLE_KEY_FILE", ""), variables.get("FARANDOLE_DATA_ADDRESS", "")
        return Place(by, job, rank, size, local_rank, local_size, controller, key_file, data_address, launcher)
    return None


def find(variables: Mapping[str, str]) -> Place | None:
    """Who this process is; None if it is alone, or a launcher of ours has told the library.

    Raises:
        InitializationError: the variables contradict each other, or do not suffice.
    """
    place = None if variables.get("FARANDOLE_AGENT_SOCKET") else told(variables)
    if place is None:
        return None
    place = replace(place, controller=_controller(variables, place.by, place.several_hosts))
    if place.controller and not place.key_file:
        raise InitializationError(
            f"the ranks of several hosts need a common secret to join the controller at {place.controller}: write one "
            "into a file of mode 0600 on every host (openssl rand -hex 32), and set FARANDOLE_KEY_FILE to its path"
        )
    return place


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
                f"the keeper of this host's processes (started for {place.by}) does not answer at the socket "
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
