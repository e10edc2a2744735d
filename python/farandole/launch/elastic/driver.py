"""The driver of an elastic job: which processes there are, while the controller decides who are members.

docs/elastic.md says what users see, slots.py holds the decisions, helper.py runs on each host.
"""

from __future__ import annotations

import os
import shlex
import signal
import sys
import time
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from farandole.launch.elastic.link import HostLink
from farandole.launch.elastic.slots import Bounds, Slot, Slots, Verdict
from farandole.launch.elastic_discovery import HostDiscoveryScript, RepeatedDiscovery
from farandole.launch.hosts.addresses import LOOPBACK, address_for, address_of, own_address
from farandole.launch.hosts.hosts import is_local
from farandole.launch.job.control import Control, missing_program
from farandole.launch.job.signals import Signals
from farandole.launch.processes.descriptors import explain
from farandole.launch.remote import ssh
from farandole.launch.settings.settings import Settings, allowed_cores

if TYPE_CHECKING:
    from farandole.launch.function.remote import RemoteFolders

ELASTIC_TIMEOUT_S = 600.0
# Between a slot's disappearance and the end of its process, which leaves at a commit by itself.
RETIRE_GRACE_S = 300.0
# At the end, between SIGTERM and SIGKILL.
END_GRACE_S = 5.0
# For the workers to end after Ctrl-C and the like.
INTERRUPT_GRACE_S = 10.0
HELPER = "farandole.launch.elastic.helper"
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


def run(settings: Settings, folders: RemoteFolders | None = None) -> int:
    """Runs the command as an elastic job. Returns the exit code: 0 when the processes that were left ended well.

    `folders` are to be on each other host before a process starts there.
    """
    if settings.dry_run:
        print(f"{_where(settings)} run {shlex.join(settings.command)}")
        return 0
    missing = missing_program()
    if missing:
        settings.say(missing)
        return 1
    return _ElasticRun(settings, settings.environment(os.environ, allowed_cores()), folders).run()


def _where(settings: Settings) -> str:
    if settings.discovery_script is not None:
        return f"the hosts that {settings.discovery_script!r} prints"
    return ", ".join(f"{host}:{slots}" for host, slots in _given_hosts(settings).items())


def _given_hosts(settings: Settings) -> dict[str, int]:
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
    """How long fewer processes than needed are put up with."""
    if settings.elastic_timeout_s is not None:
        return settings.elastic_timeout_s
    for name in ("FARANDOLE_ELASTIC_TIMEOUT", "HOROVOD_ELASTIC_TIMEOUT"):
        try:
            return float(os.environ[name])
        except (KeyError, ValueError):
            pass
    return ELASTIC_TIMEOUT_S


class _ElasticRun:
    """One run: a controller, and for each host in use a helper that runs an agent and workers. Everything that it
    starts has ended when `run` returns."""

    def __init__(self, settings: Settings, environment: dict[str, str], folders: RemoteFolders | None) -> None:
        self._settings, self._environment, self._folders = settings, environment, folders
        self._say = settings.say
        self._control = Control(settings, environment)
        self._bounds = _bounds(settings)
        self._slots = Slots(self._bounds)
        self._own: dict[str, str] = {}  # by other host, the address under which it finds us
        self._links: dict[str, HostLink] = {}
        self._files: dict[tuple[Slot, str], BinaryIO] = {}
        self._discovery: RepeatedDiscovery | None = None
        self._signals = Signals()
        if settings.discovery_script is None:
            self._slots.discovered(_given_hosts(settings))
        else:
            script = HostDiscoveryScript(settings.discovery_script, settings.slots_per_host or 1)
            self._discovery = RepeatedDiscovery(script, settings.say)

    def run(self) -> int:
        with self._signals:
            try:
                verdict = self._drive()
                if verdict.sentence:
                    self._say(f"{verdict.sentence}; ending the job")
                self._end_workers()
                return verdict.code
            except (OSError, RuntimeError) as error:
                self._say(explain(error))
                return 1
            finally:
                self._end()

    def _end(self) -> None:
        if self._discovery is not None:
            self._discovery.stop()
        for link in self._links.values():
            link.close()
        for link in self._links.values():
            link.wait()
        for file in self._files.values():
            file.close()
        self._control.end()

    def _drive(self) -> Verdict:
        while True:
            now = time.monotonic()
            if self._discovery is not None:
                hosts = self._discovery.poll(now)
                if hosts is not None:
                    self._slots.discovered(hosts)
            nowhere = self._slots.nowhere
            asked = self._slots.next(now)
            if self._slots.nowhere and not nowhere:
                self._say("no slot is left: the processes go on where they are until there is another one")
            if asked and not self._control.started:
                self._start_controller()
            for ask in asked:
                self._do(ask.verb, ask.slot)
            verdict = self._slots.verdict(now) or self._signalled()
            if verdict is not None:
                return verdict
            if self._control.started and not self._control.alive():
                return Verdict(1, "there is no controller")
            self._turn(0.5)

    def _turn(self, timeout_s: float) -> None:
        """Waits for something to happen and takes note of it."""
        links = {link.reader: link for link in self._links.values()}
        readers = [*links, *(self._discovery.readers() if self._discovery is not None else [])]
        writers = [fd for link in self._links.values() for fd in link.writers]
        for fd in self._signals.loop.wait(readers, timeout_s, writers):
            if fd in links:
                self._read(links[fd])
        for link in self._links.values():
            link.flush()

    def _do(self, verb: str, slot: Slot) -> None:
        if verb == "dismiss":
            return self._links[slot.host].send(do="retire", slot=slot.index, grace_s=None)
        if verb == "retire":
            self._say(
                f"slot {slot} is gone: its process leaves at the next commit, or is ended in {RETIRE_GRACE_S:g} s"
            )
            return self._links[slot.host].send(do="retire", slot=slot.index, grace_s=RETIRE_GRACE_S)
        try:
            link = self._links.get(slot.host) or self._start_host(slot.host)
        except (OSError, RuntimeError) as error:
            return self._note_end(slot, 127, True, f"could not be started: {error}")
        link.send(do="start", slot=slot.index)

    def _start_host(self, host: str) -> HostLink:
        """Raises OSError, or RuntimeError when the host cannot be used."""
        local = is_local(host)
        if not local and not self._control.certificate:
            raise RuntimeError(
                "the job began on this machine alone, whose address for others was not known: name its network "
                "interface (--network-interfaces)"
            )
        ours = self._own_address("" if local else host)
        workers = self._of_workers()
        job = {
            "job": self._control.job,
            "controller": self._control.endpoint(ours),
            "token": self._control.token(),
            "certificate": self._control.certificate,
            "size": self._bounds.wanted,
            "host": host,
            "interfaces": self._settings.network_interfaces,
            "environment": workers if local else {**ssh.forwarded(self._environment), **workers},
            "command": self._settings.command,
            "folder": os.getcwd(),
            "function": self._folders.request() if self._folders is not None and not local else None,
        }
        if local:
            command = [sys.executable, "-m", HELPER]
        else:
            timeout_s = self._settings.remote_timeout_s(self._environment)
            command = ssh.command(self._settings, host, timeout_s, module=HELPER)
        self._links[host] = HostLink(host, command, self._environment, job)
        return self._links[host]

    def _start_controller(self) -> None:
        """Beyond loopback if a host that is known now is another machine, or one may be found. Raises RuntimeError."""
        others = [host for host in self._slots.hosts if not is_local(host)]
        if others:
            self._look_at(others)
        elif self._discovery is not None:
            address = address_of(self._settings.network_interfaces) or own_address()
            self._own = {"": address} if address else {}
        beyond = bool(self._own)
        listen = ("::" if ":" in self._own_address("") else "0.0.0.0") if beyond else LOOPBACK
        if not self._control.start(listen, beyond):
            raise RuntimeError("there is no controller")
        self._control.show(self._own_address(""))

    def _own_address(self, host: str) -> str:
        """Ours, under which `host` finds us; "": for this one, whose workers others must find too. Raises RuntimeError
        when it cannot be told."""
        named = address_of(self._settings.network_interfaces)
        if not named and host and host not in self._own:
            self._own[host] = address_for(host)
        found = named or self._own.get(host) or next(iter(self._own.values()), LOOPBACK)
        if not found:
            raise RuntimeError(f"no way to host {host} is known: is its name right?")
        return found

    def _look_at(self, hosts: list[str]) -> None:
        """Checks other machines, and finds out where they see us. Raises RuntimeError if one cannot be used."""
        timeout_s = self._settings.remote_timeout_s(self._environment)
        answers = ssh.preflight(self._settings, hosts, self._environment, timeout_s)
        if answers is None:
            raise RuntimeError("the job does not begin without these hosts")
        for host, answer in answers.items():
            self._own[host] = address_for(host, answer["seen"])

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

    def _read(self, link: HostLink) -> None:
        events = link.read()
        if events is None:
            return self._lose(link, f"the helper process of host {link.host} {link.describe_end()}")
        for event in events:
            kind = event["event"]
            if kind == "output":
                self._show(Slot(link.host, event["slot"]), event["stream"], event["text"])
            elif kind == "ended":
                who = f"pid {event['pid']}, {event['how']}" if event["pid"] else event["how"]
                self._note_end(Slot(link.host, event["slot"]), event["code"], event["killed"], who)
            elif kind == "note":
                self._say(f"on {link.host} {event['text']}")
            elif kind == "function":
                self._folders.note_made(link.host)
            elif kind == "failed":
                return self._lose(link, f"on {link.host} {event['text']}")
            elif self._settings.verbose:
                self._say(f"on {link.host}: {kind}, pid {event['pid']}")

    def _lose(self, link: HostLink, how: str) -> None:
        """Nothing runs on this host any more."""
        self._say(how)
        link.close()
        link.wait()
        del self._links[link.host]
        for slot in self._slots.running:
            if slot.host == link.host:
                self._note_end(slot, 128 + signal.SIGKILL, True, "has ended with its host's helper")

    def _note_end(self, slot: Slot, code: int, killed: bool, how: str) -> None:
        now = time.monotonic()
        self._slots.ended(slot, code, killed, now)
        if code:
            self._say(f"the process in slot {slot} has ended: {how}{self._slots.describe(slot, now)}")
        elif self._settings.verbose:
            self._say(f"the process in slot {slot} has ended well")

    def _show(self, slot: Slot, stream: str, text: str) -> None:
        data = text.encode(errors="surrogateescape")
        if self._settings.output_folder is not None:
            self._file(slot, stream).write(data)
        out = sys.stdout.buffer if stream == "stdout" else sys.stderr.buffer
        stamp = f"{datetime.now().astimezone():%a %b %d %H:%M:%S %Y}" if self._settings.timestamps else ""
        prefix = f"{stamp}[{slot}]<{stream}>: " if self._settings.prefix_output else stamp
        out.write(b"".join(prefix.encode() + line for line in data.splitlines(keepends=True)))
        out.flush()

    def _file(self, slot: Slot, stream: str) -> BinaryIO:
        if (slot, stream) not in self._files:
            folder = Path(self._settings.output_folder) / f"slot.{slot.host}.{slot.index}"
            folder.mkdir(parents=True, exist_ok=True)
            self._files[slot, stream] = (folder / stream).open("ab", buffering=0)
        return self._files[slot, stream]

    def _signalled(self) -> Verdict | None:
        """Passes signals on; those that end have the workers end within a while."""
        verdict = None
        while self._signals.pending:
            number = self._signals.pending.pop(0)
            if number == signal.SIGKILL:
                return Verdict(128 + signal.SIGKILL)
            self._tell_all(number)
            if number in ENDING:
                verdict = Verdict(128 + number)
        if verdict is not None:
            self._await_ends(INTERRUPT_GRACE_S)
        return verdict

    def _tell_all(self, number: int) -> None:
        for link in self._links.values():
            link.send(do="signal", number=number)

    def _await_ends(self, patience_s: float) -> None:
        """Until no worker runs, or for so long, or until another signal comes."""
        deadline = time.monotonic() + patience_s
        while self._slots.running and not self._signals.pending and time.monotonic() < deadline:
            self._turn(0.2)

    def _end_workers(self) -> None:
        if self._slots.running:
            self._tell_all(signal.SIGTERM)
            self._await_ends(END_GRACE_S)
