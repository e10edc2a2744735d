"""``farandole run``: a controller, an agent for each host, and the wait for their end."""

from __future__ import annotations

import os
import secrets
import select
import shlex
import signal
import time
from collections.abc import Mapping
from types import FrameType

from farandole.base import locate
from farandole.launch.hosts.addresses import address_of
from farandole.launch.hosts.hosts import is_local
from farandole.launch.job.output import Output
from farandole.launch.processes.agents import AgentSpec, LocalAgent
from farandole.launch.processes.children import end_leftovers, member_token, observer_token
from farandole.launch.processes.controller import Controller, certificate
from farandole.launch.remote import ssh
from farandole.launch.remote.ssh import RemoteAgent
from farandole.launch.settings.settings import Settings, allowed_cores
from farandole.launch.status import job_files

# The controller tells ranks on other hosts of a failure; what has not ended after this time is ended, and what does not
# end by that is killed.
OTHERS_S = 3.0
KILL_OTHERS_S = 10.0
START_TIMEOUT_S = 30.0
RELAYED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)


def run(settings: Settings) -> int:
    """Runs the command on all processes. Returns the exit code of the first agent that failed, or 0."""
    if settings.dry_run:
        print("\n".join(describe(settings)))
        return 0
    try:
        for name in ("farandole-controller", "farandole-agent"):
            locate.find(name)
    except FileNotFoundError as error:
        settings.say(str(error))
        return 1
    cores = allowed_cores()
    environment = settings.environment(os.environ, cores)
    if "OMP_NUM_THREADS" not in os.environ:
        threads, here = environment["OMP_NUM_THREADS"], max(place.local_size for place in settings.places())
        settings.say(f"OMP_NUM_THREADS={threads} ({cores} cores for {here} processes); set it to choose otherwise")
    return _Run(settings, environment).run()


def describe(settings: Settings) -> list[str]:
    """What would be started, a line for each host, and how a remote one would be reached."""
    lines = []
    for place in settings.places():
        last = place.first_rank + place.local_size - 1
        ranks = f"rank {last} runs" if place.local_size == 1 else f"ranks {place.first_rank} to {last} run"
        lines.append(f"{place.host}: {ranks} {shlex.join(settings.command)}")
        if not is_local(place.host):
            lines.append(f"  by {shlex.join(ssh.command(settings, place.host, start_timeout_s(settings, os.environ)))}")
    return lines


def start_timeout_s(settings: Settings, environment: Mapping[str, str]) -> float:
    """How long the checks of remote hosts may take."""
    given = environment.get("FARANDOLE_START_TIMEOUT") or environment.get("HOROVOD_START_TIMEOUT") or ""
    try:
        return settings.start_timeout_s or float(given or START_TIMEOUT_S)
    except ValueError:
        return START_TIMEOUT_S


class _Run:
    """One run from start to end. Everything that it starts has ended when `run` returns.

    A controller or an agent that is killed is started again: the workers do not depend on either. They are children of
    this process, or of the one that keeps the agent of a remote host.
    """

    def __init__(self, settings: Settings, environment: dict[str, str]) -> None:
        self._settings, self._environment, self._say = settings, environment, settings.say
        self._places = () if settings.elastic else settings.places()
        self._remote = [place.host for place in self._places if not is_local(place.host)]
        self._job = f"run-{secrets.token_hex(8)}"
        self._certificate = ""
        self._controller: Controller | None = None
        self._output: Output | None = None
        self._agents: list[LocalAgent | RemoteAgent] = []
        self._interrupts = 0
        self._signals: list[int] = []  # not passed on yet
        self._wake_reader, self._wake_writer = os.pipe()
        os.set_blocking(self._wake_writer, False)

    def run(self) -> int:
        previous = {number: signal.signal(number, self._on_signal) for number in RELAYED}
        previous[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, lambda number, frame: None)
        wakeup = signal.set_wakeup_fd(self._wake_writer, warn_on_full_buffer=False)
        try:
            return self._run()
        except (OSError, RuntimeError) as error:
            self._say(str(error))
            return 1
        finally:
            for agent in self._agents:
                agent.give_up()
            for agent in self._agents:
                agent.end()
            if self._controller is not None:
                self._controller.end()
            end_leftovers(f"FARANDOLE_JOB={self._job}")
            if self._output is not None:
                self._output.close()
            job_files.remove(self._job)
            signal.set_wakeup_fd(wakeup)
            for number, handler in previous.items():
                signal.signal(number, handler)
            for descriptor in (self._wake_reader, self._wake_writer):
                os.close(descriptor)

    def _run(self) -> int:
        hosts: dict[str, dict] = {}
        own: dict[str, str] = {}
        if self._remote:
            timeout_s = start_timeout_s(self._settings, self._environment)
            answers = ssh.preflight(self._settings, self._remote, self._environment, timeout_s)
            if answers is None:
                return 1
            hosts, own = answers, self._own_addresses(answers)
        if self._signals:
            return 128 + self._signals[0]
        if not self._start_controller(own):
            return 1
        self._show_job()
        if self._signals:
            return 128 + self._signals[0]
        return self._wait() if self._start_agents(hosts, own) else 1

    def _start_agents(self, hosts: Mapping[str, dict], own: Mapping[str, str]) -> bool:
        settings = self._settings
        if settings.output_folder is not None or settings.timestamps:
            self._output = Output(
                settings.output_folder, settings.processes, settings.timestamps, settings.prefix_output
            )
        for index in range(len(self._places)):
            agent = self._make_agent(index, hosts, own)
            self._agents.append(agent)
            if not agent.start():
                return False
        return True

    def _own_addresses(self, answers: Mapping[str, dict]) -> dict[str, str]:
        """By remote host, our address under which it finds us. Raises RuntimeError if it cannot be told."""
        names = self._settings.network_interfaces
        if names:
            address = address_of(names)
            if not address:
                raise RuntimeError(f"none of the network interfaces {', '.join(names)} has an address here")
            return dict.fromkeys(answers, address)
        found = {}
        for host, answer in answers.items():
            towards = ssh.address_towards(host)
            seen = answer["seen"]
            found[host] = seen if seen and ssh.is_own(seen) else towards
            if not found[host]:
                raise RuntimeError(
                    f"host {host} sees us as {seen or 'nobody'}, which is no address of this host: name the network "
                    "interface that it can reach (--network-interfaces)"
                )
        return found

    def _start_controller(self, own: Mapping[str, str]) -> bool:
        addresses = set(own.values())
        if not addresses:
            listen = "127.0.0.1"
        elif len(addresses) == 1:
            listen = addresses.pop()
        else:
            listen = "::" if any(":" in address for address in addresses) else "0.0.0.0"
        listen = f"[{listen}]:0" if ":" in listen else f"{listen}:0"
        port = self._settings.metrics_port
        verbose = self._settings.verbose
        self._controller = Controller(listen, bool(own), self._environment, self._say, port, verbose=verbose)
        if not self._controller.start():
            return False
        if own:
            self._certificate = certificate(self._controller.key)
        return True

    def _address_for(self, own: str) -> str:
        """Where an agent finds the controller."""
        return f"[{own}]:{self._controller.port}" if ":" in own else f"{own}:{self._controller.port}"

    def _show_job(self) -> None:
        """Lets ``farandole status`` find the job."""
        token = observer_token(self._controller.key, self._job)
        processes, command = self._settings.processes, self._settings.command
        try:
            job_files.write(self._job, self._controller.address, token, processes, command, self._certificate)
        except OSError as error:
            self._say(f"`farandole status` will not show this job: {error}")

    def _make_agent(self, index: int, hosts: Mapping[str, dict], own: Mapping[str, str]) -> LocalAgent | RemoteAgent:
        place, settings = self._places[index], self._settings
        remote = place.host in hosts
        ours = own.get(place.host) or next(iter(own.values()), "127.0.0.1")
        spec = AgentSpec(
            job=self._job,
            controller=self._address_for(ours),
            token=member_token(self._controller.key, self._job),
            certificate=self._certificate,
            first_rank=place.first_rank,
            local_sizes=tuple(other.local_size for other in self._places),
            host=index,
            data_address=hosts[place.host]["address"] if remote else ours,
            prefix_output=settings.prefix_output or self._output is not None,
            command=settings.command,
        )
        output = self._output.descriptors if self._output is not None else ()
        if not remote:
            return LocalAgent(spec, self._environment, self._say, output)
        timeout_s = start_timeout_s(settings, self._environment)
        return RemoteAgent(settings, place.host, spec, self._environment, timeout_s, output)

    def _wait(self) -> int:
        """Until all agents have ended by themselves, or something has ended for good that the job needs."""
        running = list(self._agents)
        first_failure, failed_at = 0, float("inf")
        controller_lost = False
        while True:
            self._pass_signals_on(running)
            for agent in list(running):
                code = agent.poll()
                if code is None:
                    continue
                running.remove(agent)
                if code and not first_failure:
                    first_failure, failed_at = code, time.monotonic()
            if not running:
                return first_failure or int(controller_lost)
            if time.monotonic() - failed_at > OTHERS_S:
                for agent in running:
                    agent.give_up()
            if time.monotonic() - failed_at > KILL_OTHERS_S:
                return first_failure
            if not controller_lost and not self._controller.alive():
                controller_lost = True
                self._signals.append(signal.SIGTERM)
                continue
            # SIGCHLD and all relayed signals write here; the time-out covers one that came just before.
            watched = [self._wake_reader, *(end for agent in running for end in agent.waits_on())]
            if self._wake_reader in select.select(watched, [], [], 1.0 if first_failure == 0 else 0.1)[0]:
                os.read(self._wake_reader, 4096)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        """Notes it: it goes to all workers. The second Ctrl-C is a SIGTERM, the third ends at once."""
        if number == signal.SIGINT:
            self._interrupts += 1
            number = {1: signal.SIGINT, 2: signal.SIGTERM}.get(self._interrupts, signal.SIGKILL)
        self._signals.append(number)

    def _pass_signals_on(self, running: list[LocalAgent | RemoteAgent]) -> None:
        while self._signals:
            number = self._signals.pop(0)
            for agent in running:
                agent.send(number)
