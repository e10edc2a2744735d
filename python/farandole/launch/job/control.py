"""What every job of the launcher has, elastic or not: a name, a controller, and the file that tells of both."""

from __future__ import annotations

import secrets
from collections.abc import Mapping

from farandole.base import locate
from farandole.launch.hosts.addresses import LOOPBACK, endpoint
from farandole.launch.processes.controller import Controller, certificate
from farandole.launch.processes.tokens import member_token, observer_token
from farandole.launch.settings.settings import Settings
from farandole.launch.status import job_files


def missing_program() -> str:
    """Which of the programs that a job needs is not here, as a sentence; empty: none."""
    try:
        for name in ("farandole-controller", "farandole-agent"):
            locate.find(name)
    except FileNotFoundError as error:
        return str(error)
    return ""


class Control:
    """A job and its controller.

    Args:
        settings: of the job.
        environment: of the controller.

    Attributes:
        job: the name.
        certificate: the controller's, in PEM; empty: no TLS.
        started: `start` has been called.
    """

    _controller: Controller  # once it is started

    def __init__(self, settings: Settings, environment: Mapping[str, str]) -> None:
        self._settings, self._environment = settings, environment
        self.job = f"{settings.job_name or 'run'}-{secrets.token_hex(8)}"
        self.certificate = ""
        self._listen = ""
        self.started = False

    def start(self, address: str, beyond: bool) -> bool:
        """Whether the controller listens at an address of this host; beyond loopback with TLS. Raises RuntimeError."""
        settings, say = self._settings, self._settings.say
        self._listen = address
        port = settings.metrics_port
        self._controller = Controller(
            endpoint(address, "0"), beyond, self._environment, say, port, verbose=settings.verbose
        )
        self.started = True
        if not self._controller.start():
            return False
        if beyond:
            self.certificate = certificate(self._controller.key)
        return True

    @property
    def own(self) -> str:
        """The address at which this host reaches it."""
        return LOOPBACK if self._listen in ("0.0.0.0", "::") else self._listen

    @property
    def only_here(self) -> bool:
        """Whether other hosts do not reach it."""
        return self._listen == LOOPBACK

    def move(self, host: str) -> None:
        """Has it listen at another address, on the same port. Agents and workers connect again. Raises RuntimeError."""
        if not self._controller.move(endpoint(host, self._controller.port)):
            raise RuntimeError(f"the controller cannot listen at {host} for other hosts, port {self._controller.port}")
        self._listen = host

    def endpoint(self, own: str) -> str:
        """HOST:PORT for those who find this host under the address `own`."""
        return endpoint(own, self._controller.port)

    def token(self) -> str:
        """Of a member of the job."""
        return member_token(self._controller.key, self.job)

    def show(self) -> None:
        """Lets ``farandole status`` find the job."""
        settings = self._settings
        token = observer_token(self._controller.key, self.job)
        try:
            job_files.write(
                self.job, self.endpoint(self.own), token, settings.processes, settings.command, self.certificate
            )
        except OSError as error:
            settings.say(f"`farandole status` will not show this job: {error}")

    def alive(self) -> bool:
        """Whether the controller runs, perhaps again; False: it does not, for good."""
        return self._controller.alive()

    def end(self) -> None:
        """Returns when the file is gone and the controller has ended."""
        # In this order: a controller that is missed while the file is there is taken for one that has failed.
        job_files.remove(self.job)
        if self.started:
            self._controller.end()
