"""``farandole run``: a controller, an agent for each host, and the wait for their end."""

from __future__ import annotations

import os
import shlex
import signal
import time
from collections.abc import Mapping

from farandole.launch.hosts.addresses import LOOPBACK, address_for, address_of
from farandole.launch.hosts.hosts import is_local
from farandole.launch.job.control import Control, missing_program
from farandole.launch.job.output import Output
from farandole.launch.job.signals import Signals
from farandole.launch.processes.agents import AgentSpec, LocalAgent
from farandole.launch.processes.children import end_leftovers
from farandole.launch.processes.descriptors import explain
from farandole.launch.remote import ssh
from farandole.launch.remote.agent import RemoteAgent
from farandole.launch.settings.settings import Settings, allowed_cores

# The controller tells ranks on other hosts of a failure; what has not ended after this time is ended, and what does not
# end by that is killed.
OTHERS_S = 3.0
KILL_OTHERS_S = 10.0


def run(settings: Settings) -> int:
    """Runs the command on all processes. Returns the exit code of the first agent that failed, or 0."""
    if settings.dry_run:
        print("\n".join(describe(settings)))
        return 0
    missing = missing_program()
    if missing:
        settings.say(missing)
        return 1
    cores = allowed_cores()
    environment = settings.environment(os.environ, cores)
    if "OMP_NUM_THREADS" not in os.environ:
        threads, here = environment["OMP_NUM_THREADS"], max(each.local_size for each in settings.ranks_by_host())
        settings.say(f"OMP_NUM_THREADS={threads} ({cores} cores for {here} processes); set it to choose otherwise")
    return _Run(settings, environment).run()


def describe(settings: Settings) -> list[str]:
    """What would be started, a line for each host, and how a remote one would be reached."""
    lines = []
    for each in settings.ranks_by_host():
        last = each.first_rank + each.local_size - 1
        ranks = f"rank {last} runs" if each.local_size == 1 else f"ranks {each.first_rank} to {last} run"
        lines.append(f"{each.host}: {ranks} {shlex.join(settings.command)}")
        if not is_local(each.host):
            lines.append(f"  by {shlex.join(ssh.command(settings, each.host, settings.remote_timeout_s(os.environ)))}")
    return lines


class _Run:
    """One run from start to end. Everything that it starts has ended when `run` returns.

    A controller or an agent that is killed is started again: the workers do not depend on either. They are children of
    this process, or of the one that keeps the agent of a remote host.
    """

    def __init__(self, settings: Settings, environment: dict[str, str]) -> None:
        self._settings, self._environment, self._say = settings, environment, settings.say
        self._hosts = settings.ranks_by_host()
        self._remote = [each.host for each in self._hosts if not is_local(each.host)]
        self._control = Control(settings, environment)
        self._output: Output | None = None
        self._agents: list[LocalAgent | RemoteAgent] = []
        self._signals = Signals()

    def run(self) -> int:
        with self._signals:
            try:
                return self._run()
            except (OSError, RuntimeError) as error:
                self._say(explain(error))
                return 1
            finally:
                for agent in self._agents:
                    agent.give_up()
                for agent in self._agents:
                    agent.end()
                self._control.end()
                end_leftovers(f"FARANDOLE_JOB={self._control.job}")
                if self._output is not None:
                    self._output.close()

    def _run(self) -> int:
        answers: dict[str, dict] = {}
        own: dict[str, str] = {}
        if self._remote:
            timeout_s = self._settings.remote_timeout_s(self._environment)
            found = ssh.preflight(self._settings, self._remote, self._environment, timeout_s)
            if found is None:
                return 1
            answers, own = found, self._own_addresses(found)
        if self._signals.pending:
            return 128 + self._signals.pending[0]
        listen = _common(own)
        if not self._control.start(listen, bool(own)):
            return 1
        self._control.show(listen)
        if self._signals.pending:
            return 128 + self._signals.pending[0]
        return self._wait() if self._start_agents(answers, own) else 1

    def _start_agents(self, answers: Mapping[str, dict], own: Mapping[str, str]) -> bool:
        settings = self._settings
        as_horovod = settings.prefix_output and settings.prefix_as_horovod
        if settings.output_folder is not None or settings.timestamps or as_horovod:
            self._output = Output(
                settings.output_folder, settings.processes, settings.timestamps, settings.prefix_output, as_horovod
            )
        for index in range(len(self._hosts)):
            agent = self._make_agent(index, answers, own)
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
            seen = answer["seen"]
            found[host] = address_for(host, seen)
            if not found[host]:
                raise RuntimeError(
                    f"host {host} sees us as {seen or 'nobody'}, which is no address of this host: name the network "
                    "interface that it can reach (--network-interfaces)"
                )
        return found

    def _make_agent(self, index: int, answers: Mapping[str, dict], own: Mapping[str, str]) -> LocalAgent | RemoteAgent:
        host, settings = self._hosts[index], self._settings
        remote = host.host in answers
        ours = own.get(host.host) or next(iter(own.values()), LOOPBACK)
        spec = AgentSpec(
            job=self._control.job,
            controller=self._control.endpoint(ours),
            token=self._control.token(),
            certificate=self._control.certificate,
            first_rank=host.first_rank,
            local_sizes=tuple(other.local_size for other in self._hosts),
            host=index,
            data_address=answers[host.host]["address"] if remote else ours,
            prefix_output=settings.prefix_output or self._output is not None,
            command=settings.command,
        )
        output = self._output.descriptors if self._output is not None else ()
        if not remote:
            return LocalAgent(spec, self._environment, self._say, output)
        timeout_s = settings.remote_timeout_s(self._environment)
        return RemoteAgent(settings, host.host, spec, self._environment, timeout_s, output)

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
            if not controller_lost and not self._control.alive():
                controller_lost = True
                self._signals.pending.append(signal.SIGTERM)
                continue
            # The time-out covers a signal that came just before.
            watched = [end for agent in running for end in agent.waits_on()]
            self._signals.loop.wait(watched, 1.0 if first_failure == 0 else 0.1)

    def _pass_signals_on(self, running: list[LocalAgent | RemoteAgent]) -> None:
        while self._signals.pending:
            number = self._signals.pending.pop(0)
            for agent in running:
                agent.send(number)


def _common(own: Mapping[str, str]) -> str:
    """Where the controller listens for hosts that find this one under the addresses `own`, by host."""
    addresses = set(own.values())
    if len(addresses) <= 1:
        return addresses.pop() if addresses else LOOPBACK
    return "::" if any(":" in address for address in addresses) else "0.0.0.0"
