"""An elastic job: which processes there are, while the controller decides who are members.

docs/elastic.md says what users see, slots.py holds the decisions.
"""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING, Any

from farandole.launch.hosts.addresses import LOOPBACK, address_for, own_address
from farandole.launch.hosts.hosts import is_local
from farandole.launch.job.discovery import HostDiscoveryScript, RepeatedDiscovery
from farandole.launch.job.driver import Driver
from farandole.launch.job.signals import ENDING, Signals
from farandole.launch.job.slots import Bounds, Slot, Slots
from farandole.launch.job.verdict import Verdict
from farandole.launch.processes.agents import AgentSpec
from farandole.launch.processes.descriptors import explain
from farandole.launch.settings.settings import Settings
from farandole.launch.workers.workers import HostJob

if TYPE_CHECKING:
    from farandole.launch.function.remote import RemoteFolders

ELASTIC_TIMEOUT_S = 600.0
# Between a slot's disappearance and the end of its process, which leaves at a commit by itself.
RETIRE_GRACE_S = 300.0
# At the end, between SIGTERM and SIGKILL.
END_GRACE_S = 5.0
# For the workers to end after Ctrl-C and the like.
INTERRUPT_GRACE_S = 10.0


def given_hosts(settings: Settings) -> dict[str, int]:
    """Of `-H`, or this one alone."""
    return {host.name: host.slots for host in settings.hosts} or {"localhost": settings.processes}


def _bounds(settings: Settings) -> Bounds:
    most = settings.max_processes or 1 << 16
    return Bounds(
        wanted=min(settings.processes, most),
        least=settings.min_processes or settings.processes,
        most=most,
        timeout_s=elastic_timeout_s(settings),
        reset_limit=settings.reset_limit,
        cooldown_s=settings.cooldown_range_s,
        fixed=settings.discovery_script is None,
    )


def elastic_timeout_s(settings: Settings) -> float:
    """How long there may be fewer processes than needed."""
    if settings.elastic_timeout_s is not None:
        return settings.elastic_timeout_s
    for name in ("FARANDOLE_ELASTIC_TIMEOUT", "HOROVOD_ELASTIC_TIMEOUT"):
        try:
            return float(os.environ[name])
        except (KeyError, ValueError):
            pass
    return ELASTIC_TIMEOUT_S


class ElasticJob(Driver):
    """Workers in slots: a host in use has an agent, which serves whoever comes, and a worker in each of some slots."""

    label = "slot"

    def __init__(
        self,
        settings: Settings,
        environment: dict[str, str],
        folders: RemoteFolders | None,
        signals: Signals,
        again: bool,
    ) -> None:
        super().__init__(settings, environment, folders, signals, again)
        self._bounds = _bounds(settings)
        self._slots = Slots(self._bounds)
        self._discovery: RepeatedDiscovery | None = None
        self._data_address = LOOPBACK  # of this host
        if settings.discovery_script is None:
            self._slots.discovered(given_hosts(settings))
        else:
            script = HostDiscoveryScript(settings.discovery_script, settings.slots_per_host or 1)
            self._discovery = RepeatedDiscovery(script, settings.say)

    def _end(self) -> None:
        if self._discovery is not None:
            self._discovery.stop()
        super()._end()

    def _drive(self) -> Verdict:
        verdict = None
        while verdict is None:
            now = time.monotonic()
            if self._discovery is not None:
                hosts = self._discovery.poll(now)
                if hosts is not None:
                    self._slots.discovered(hosts)
            nowhere = self._slots.nowhere
            asked = self._slots.next(now)
            if self._slots.nowhere and not nowhere:
                self._say("no slot is left: the processes go on where they are until there is another one")
            if asked and not self._control.started and not self._start_controller():
                return Verdict(1)
            for ask in asked:
                self._do(ask.verb, ask.slot)
            verdict = self._slots.verdict(now) or self._signalled()
            if verdict is None and self._control.started and not self._control.alive():
                verdict = Verdict(1, "there is no controller")
            if verdict is None:
                self._turn(0.5, [] if self._discovery is None else self._discovery.readers())
        if self._slots.running and signal.SIGKILL not in self._signals.pending:
            self._tell_all(signal.SIGTERM)
            self._await_ends(END_GRACE_S)
        return verdict._replace(sentence=verdict.sentence and f"{verdict.sentence}; ending the job")

    def _do(self, verb: str, slot: Slot) -> None:
        if verb == "dismiss":
            return self._hosts[slot.host].send(do="retire", slot=slot.number, grace_s=None)
        if verb == "retire":
            self._say(
                f"slot {slot} is gone: its process leaves at the next commit, or is ended in {RETIRE_GRACE_S:g} s"
            )
            return self._hosts[slot.host].send(do="retire", slot=slot.number, grace_s=RETIRE_GRACE_S)
        try:
            if slot.host not in self._hosts:
                self._start_host(self._job(slot.host), is_local(slot.host))
        except (OSError, RuntimeError) as error:
            return self._note_end(slot, 127, True, f"could not be started: {explain(error)}")
        self._hosts[slot.host].send(do="start", slot=slot.number)

    def _job(self, host: str) -> HostJob:
        """Raises RuntimeError when the host cannot be used."""
        local = is_local(host)
        if not local and not self._control.certificate:
            raise RuntimeError(
                "the job began on this machine alone, whose address for others was not known: name its network "
                "interface (--network-interfaces)"
            )
        ours = self._control.own if local else self._own_address(host)
        if not local and self._control.only_here and ours != LOOPBACK:
            self._control.move("::" if ":" in ours else "0.0.0.0")
        spec = AgentSpec(
            job=self._control.job,
            controller=self._control.endpoint(ours),
            token=self._control.token(),
            certificate=self._control.certificate,
            first_rank=0,
            local_sizes=(self._bounds.wanted,),
            host=0,
            data_address=self._data_address if local else "",
            prefix_output=False,
            command=self._settings.command,
        )
        return HostJob(
            spec,
            host,
            elastic=True,
            environment={**self._variables(local), **self._of_workers()},
            folder=os.getcwd(),
            interfaces=self._settings.network_interfaces,
            function=self._function(local),
        )

    def _start_controller(self) -> bool:
        """Whether it listens: for this host alone until there is another one. With TLS if there may be one later, whose
        agents will want it. Raises RuntimeError."""
        others = [host for host in self._slots.hosts if not is_local(host)]
        if others:
            if self._ask(others) is None:
                return False
            self._data_address = next(iter(self._own.values()))
        elif self._discovery is not None:
            self._data_address = self._named_address() or own_address() or LOOPBACK
        listen = self._listen_address()
        if others and self._discovery is not None:
            # Those that come later may find this host by another of its addresses.
            listen = "::" if ":" in listen else "0.0.0.0"
        if not self._control.start(listen, bool(others) or self._data_address != LOOPBACK):
            return False
        self._control.show()
        return True

    def _own_address(self, host: str) -> str:
        """Ours, under which another host finds us. Raises RuntimeError if what was named has none."""
        if host in self._own:
            return self._own[host]
        found = self._named_address() or address_for(host)
        if not found:
            # The name may be one for ssh alone; then the way to it is most likely that to the others. Or it is not
            # known yet.
            return self._data_address
        self._own[host] = found
        return found

    def _of_workers(self) -> dict[str, str]:
        timeout = f"{self._bounds.timeout_s:g}"
        return {
            "FARANDOLE_ELASTIC": "1",
            "HOROVOD_ELASTIC": "1",
            "FARANDOLE_SIZE": str(self._bounds.wanted),
            "FARANDOLE_MIN_SIZE": str(self._bounds.least),
            "FARANDOLE_MAX_SIZE": str(self._settings.max_processes or 0),
            "FARANDOLE_ELASTIC_TIMEOUT": timeout,
            "HOROVOD_ELASTIC_TIMEOUT": timeout,
        }

    def _handle(self, host: str, event: dict[str, Any]) -> None:
        kind = event["event"]
        if kind == "ended":
            who = f"pid {event['pid']}, {event['how']}" if event["pid"] else event["how"]
            self._note_end(Slot(host, event["slot"]), event["code"], event["killed"], who)
        elif kind == "finished":
            # Nothing runs on this host any more.
            gone = self._hosts.pop(host)
            gone.end()
            for last in gone.events(set()):
                self._note(host, last)
            for slot in self._slots.running:
                if slot.host == host:
                    self._note_end(slot, 1, True, "has ended with its host's agent")
        elif self._settings.verbose:
            self._say(f"on {host}: {kind}, slot {event['slot']}, pid {event['pid']}")

    def _note_end(self, slot: Slot, code: int, killed: bool, how: str) -> None:
        now = time.monotonic()
        self._slots.ended(slot, code, killed, now)
        if code:
            self._say(f"the process in slot {slot} has ended: {how}{self._slots.describe(slot, now)}")
            if killed:
                self._explain(code)
        elif self._settings.verbose:
            self._say(f"the process in slot {slot} has ended well")

    def _signalled(self) -> Verdict | None:
        """Passes signals on. After one that ends the workers have a while, which the next one cuts short."""
        verdict = None
        while self._signals.pending:
            if self._signals.pending[0] == signal.SIGKILL:
                return Verdict(128 + signal.SIGKILL)
            number = self._signals.pending.pop(0)
            self._tell_all(number)
            if number in ENDING:
                verdict = Verdict(128 + number)
            if verdict is not None:
                self._await_ends(INTERRUPT_GRACE_S)
        return verdict

    def _await_ends(self, patience_s: float) -> None:
        """Until no worker runs, or for so long, or until another signal comes."""
        deadline = time.monotonic() + patience_s
        while self._slots.running and not self._signals.pending and time.monotonic() < deadline:
            self._turn(0.2)
