"""What a keeper (keeper.py) runs for processes that ask it: the agent of a host, or the controller of all hosts."""

from __future__ import annotations

import hashlib
import ipaddress
import os
import socket
import time
from collections.abc import Mapping

from farandole.base.variables import start_timeout_s
from farandole.launch.hosts.addresses import address_towards_controller, own_address
from farandole.launch.processes.access import Access, fetch
from farandole.launch.processes.agents import AgentSpec, LocalAgent, Say
from farandole.launch.processes.controller import Controller, certificate
from farandole.launch.processes.tokens import member_token
from farandole.session.placement import Place


def read_key(path: str) -> str:
    """The secret in a file: a key, or two while one is exchanged for another, each in a line.

    Raises:
        ValueError: it cannot be read, is empty, or others may read it.
    """
    try:
        with open(path) as file:
            status = os.fstat(file.fileno())
            mode = status.st_mode & 0o777
            key = file.read(4096).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"FARANDOLE_KEY_FILE={path}: {getattr(error, 'strerror', None) or 'is not text'}") from None
    # Kubernetes mounts a secret as root's, and lets the group of the pod read it.
    if mode & 0o077 and not (status.st_uid == 0 and mode == 0o440):
        raise ValueError(f"FARANDOLE_KEY_FILE={path} has mode {mode:o}; others may read it: chmod 600 {path}")
    shortest = min(len(line.strip()) for line in key.split("\n"))
    if shortest < 16:
        raise ValueError(f"FARANDOLE_KEY_FILE={path} holds {shortest} characters, too few for a secret")
    return key


class AgentService:
    """The agent of one host, for one job. On one host also its controller.

    Args:
        place: of a process of the job.
        environment: of what is started.
        say: prints a sentence.
    """

    def __init__(self, place: Place, environment: Mapping[str, str], say: Say) -> None:
        self._place, self._say = place, say
        # What an agent of the same job must not take from these processes.
        self._environment = {n: v for n, v in environment.items() if n != "FARANDOLE_DATA_ADDRESS"}
        self._controller: Controller | None = None
        self._agent: LocalAgent | None = None
        self._variables: dict[str, str] = {}

    def start(self) -> None:
        """Raises OSError, ValueError or RuntimeError."""
        place = self._place
        access = self._access()
        address = place.data_address or ("" if self._controller is not None else address_for_others(access.controller))
        spec = AgentSpec(
            job=access.job,
            controller=access.controller,
            token=access.token,
            certificate=access.certificate,
            first_rank=0,
            local_sizes=(place.size,),
            host=0,
            data_address=address,
            prefix_output=False,
            command=(),
        )
        self._agent = LocalAgent(spec, self._environment, self._say)
        if not self._agent.start():
            raise RuntimeError("the agent of this host did not start; it said why on stderr")
        self._variables = {"FARANDOLE_AGENT_SOCKET": self._agent.socket_name, "FARANDOLE_JOB": access.job}
        if address:
            self._variables["FARANDOLE_DATA_ADDRESS"] = address

    def _access(self) -> Access:
        place = self._place
        digest = hashlib.sha256(place.job.encode()).hexdigest()[:16]
        if place.launcher:
            whole = fetch(place.launcher)
            return Access(f"{whole.job}/{digest}", whole.controller, whole.token, whole.certificate)
        job = f"{''.join(c for c in place.by.split()[0].lower() if c.isalnum())}-{digest}"
        if place.controller:
            key = read_key(place.key_file)
            return Access(job, place.controller, member_token(key, job), certificate(key))
        self._controller = _start(Controller("127.0.0.1:0", False, self._environment, self._say))
        return Access(job, self._controller.address, member_token(self._controller.key, job), "")

    def asked(self, place: Place) -> dict[str, str]:
        """What the library of a process there is told, by variables."""
        return self._variables

    def waits_on(self) -> list[socket.socket]:
        """What to select on before `alive`, besides SIGCHLD."""
        return [] if self._agent is None else self._agent.waits_on()

    def alive(self) -> bool:
        """Whether it runs, perhaps again."""
        running = self._agent is not None and self._agent.poll() is None
        return running and (self._controller is None or self._controller.alive())

    def leave(self) -> bool:
        """No process is left that has asked: whether it may end."""
        return True

    def end(self) -> None:
        """Returns when it has ended."""
        if self._agent is not None:
            self._agent.end()
        if self._controller is not None:
            self._controller.end()


class ControllerService:
    """The controller for the agents of several hosts, those of the whole job and of its parts.

    It ends with the last of these agents, but not before those processes that have asked for it.

    Args: as for AgentService.
    """

    def __init__(self, place: Place, environment: Mapping[str, str], say: Say) -> None:
        self._place, self._environment, self._say = place, environment, say
        self._controller: Controller | None = None
        self._patience_s = start_timeout_s(environment)
        # Agents may be on their way until then.
        self._until = 0.0

    def start(self) -> None:
        """Raises OSError, ValueError or RuntimeError."""
        listen = f"0.0.0.0:{self._place.controller.rpartition(':')[2]}"
        key = read_key(self._place.key_file)
        self._controller = _start(Controller(listen, True, self._environment, self._say, key=key))

    def asked(self, place: Place) -> dict[str, str]:
        """Rank 0 does not wait for the processes of other parts: it stays as long as they may take to come. Nothing is
        told by variables."""
        if self._controller is not None:
            self._controller.stay()
        self._until = time.monotonic() + self._patience_s if place.is_part else 0.0
        return {}

    def waits_on(self) -> list[socket.socket]:
        """What to select on before `alive`, besides SIGCHLD."""
        return []

    def alive(self) -> bool:
        """Whether it runs, perhaps again; then its agents have to find it first."""
        before = None if self._controller is None else self._controller.child
        if self._controller is None or not self._controller.alive():
            return False
        if self._controller.child is not before:
            self._until = time.monotonic() + self._patience_s
        return True

    def leave(self) -> bool:
        """No process is left that has asked: whether it may end. If not, `alive` says when it has ended."""
        if self._controller is not None and time.monotonic() >= self._until:
            self._controller.end_when_empty()
        return False

    def end(self) -> None:
        """Returns when it has ended."""
        if self._controller is not None:
            self._controller.end()


def _start(controller: Controller) -> Controller:
    if not controller.start():
        controller.end()
        raise RuntimeError(f"the controller did not start at {controller.address}; it said why on stderr")
    return controller


def address_for_others(controller: str) -> str:
    """Where workers of other hosts find those of this one; empty: the agent will know, once it has reached the
    controller. The controller's own host may know itself by loopback."""
    address = address_towards_controller(controller)
    loopback = address and ipaddress.ip_address(address).is_loopback
    return own_address() or address if loopback else address
