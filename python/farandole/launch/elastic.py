"""The driver of an elastic job: which processes there are, while the controller decides who are members.

docs/elastic.md says what users see, elastic_slots.py holds the decisions, elastic_host.py runs on each host.
"""

from __future__ import annotations

import os
import select
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import BinaryIO

from farandole import _locate
from farandole.launch import run as plain
from farandole.launch.children import member_token
from farandole.launch.elastic_discovery import DiscoveryError, HostDiscoveryScript, kill
from farandole.launch.elastic_link import HostLink
from farandole.launch.elastic_slots import Bounds, Slot, Slots, Verdict
from farandole.launch.hosts import is_local
from farandole.launch.settings import Settings, allowed_cores

DISCOVERY_PERIOD_S = 1.0
DISCOVERY_LIMIT_S = 30.0
ELASTIC_TIMEOUT_S = 600.0
# Between a slot's disappearance and the end of its process, which leaves at a commit by itself.
RETIRE_GRACE_S = 300.0
# At the end, between SIGTERM and SIGKILL.
END_GRACE_S = 5.0
# For the workers to end after Ctrl-C and the like.
INTERRUPT_GRACE_S = 10.0
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


def run(settings: Settings) -> int:
    """Runs the command as an elastic job. Returns the exit code: 0 when the processes that were left ended well."""
    if settings.dry_run:
        print(f"{_where(settings)} run {shlex.join(settings.command)}")
        return 0
    try:
        for name in ("farandole-controller", "farandole-agent"):
            _locate.find(name)
    except FileNotFoundError as error:
        plain.say(str(error))
        return 1
    return _ElasticRun(settings, settings.environment(os.environ, allowed_cores())).run()


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


class _Discovery:
    """Runs the discovery script again and again, without waiting for it."""

    def __init__(self, script: HostDiscoveryScript) -> None:
        self._script = script
        self._process: subprocess.Popen | None = None
        self._output = bytearray()
        self._started_s = -DISCOVERY_PERIOD_S
        self._complaint = ""

    def readers(self) -> list[int]:
        """What to select on before `poll`."""
        return [] if self._process is None else [self._process.stdout.fileno()]

    def poll(self, now: float) -> dict[str, int] | None:
        """Hosts and slots when the script has just found them."""
        try:
            return self._poll(now)
        except DiscoveryError as error:
            # Once, not each second.
            if str(error) != self._complaint:
                plain.say(f"{error}; going on with the hosts that are known")
            self._complaint = str(error)
            return None

    def _poll(self, now: float) -> dict[str, int] | None:
        if self._process is None:
            if now - self._started_s < DISCOVERY_PERIOD_S:
                return None
            self._process, self._started_s = self._script.start(), now
            self._output.clear()
            os.set_blocking(self._process.stdout.fileno(), False)
        try:
            chunk = os.read(self._process.stdout.fileno(), 1 << 16)
        except BlockingIOError:
            if now - self._started_s > DISCOVERY_LIMIT_S:
                self.stop()
                raise DiscoveryError(
                    f"the discovery script {self._script.script!r} took longer than {DISCOVERY_LIMIT_S:g} s"
                ) from None
            return None
        self._output += chunk
        if chunk:
            return None
        try:
            code = self._process.wait(DISCOVERY_PERIOD_S)
        except subprocess.TimeoutExpired:
            code = 0
        self.stop()
        found = self._script.parse(bytes(self._output), code)
        self._complaint = ""
        return found

    def stop(self) -> None:
        """Ends the script if it runs."""
        if self._process is not None:
            kill(self._process)
            self._process = None


class _ElasticRun(plain._Run):
    """One run. It has the controller of any run, and for each host in use a helper that runs agent and workers."""

    def __init__(self, settings: Settings, environment: dict[str, str]) -> None:
        super().__init__(settings, environment)
        self._bounds = _bounds(settings)
        self._slots = Slots(self._bounds)
        self._links: dict[str, HostLink] = {}
        self._files: dict[tuple[Slot, str], BinaryIO] = {}
        self._discovery: _Discovery | None = None
        if settings.discovery_script is None:
            self._slots.discovered(_given_hosts(settings))
        else:
            self._discovery = _Discovery(HostDiscoveryScript(settings.discovery_script, settings.slots_per_host or 1))

    def _start_agents(self, hosts: Mapping[str, dict], own: Mapping[str, str]) -> bool:
        return True  # the helpers do

    def _wait(self) -> int:
        try:
            verdict = self._drive()
            if verdict.sentence:
                plain.say(f"{verdict.sentence}; ending the job")
            self._end_workers()
            return verdict.code
        finally:
            if self._discovery is not None:
                self._discovery.stop()
            for link in self._links.values():
                link.close()
            for link in self._links.values():
                link.wait()
            for file in self._files.values():
                file.close()

    def _drive(self) -> Verdict:
        while True:
            now = time.monotonic()
            if self._discovery is not None:
                hosts = self._discovery.poll(now)
                if hosts is not None:
                    self._slots.discovered(hosts)
            for ask in self._slots.next(now):
                self._do(ask.verb, ask.slot)
            verdict = self._slots.verdict(now) or self._signalled()
            if verdict is not None:
                return verdict
            if not self._controller.alive():
                return Verdict(1, "there is no controller")
            self._turn(0.5)

    def _turn(self, timeout_s: float) -> None:
        """Waits for something to happen and takes note of it."""
        links = {link.reader: link for link in self._links.values()}
        readers = [self._wake_reader, *links, *(self._discovery.readers() if self._discovery is not None else [])]
        writers = [fd for link in self._links.values() for fd in link.writers]
        ready = select.select(readers, writers, [], timeout_s)[0]
        if self._wake_reader in ready:
            os.read(self._wake_reader, 4096)
        for fd in ready:
            if fd in links:
                self._read(links[fd])
        for link in self._links.values():
            link.flush()

    def _do(self, verb: str, slot: Slot) -> None:
        if verb == "retire":
            plain.say(
                f"slot {slot} is gone: its process leaves at the next commit, or is ended in {RETIRE_GRACE_S:g} s"
            )
            return self._links[slot.host].send(do="retire", slot=slot.index, grace_s=RETIRE_GRACE_S)
        try:
            link = self._links.get(slot.host) or self._start_host(slot.host)
        except (OSError, ValueError) as error:
            return self._note_end(slot, 127, True, f"could not be started: {error}")
        link.send(do="start", slot=slot.index)

    def _start_host(self, host: str) -> HostLink:
        if not is_local(host):
            raise ValueError(f"{host} is another machine")
        job = {
            "job": self._job,
            "controller": self._controller.address,
            "token": member_token(self._controller.key, self._job),
            "size": self._bounds.wanted,
            "host": host,
            "agent_options": [],
            "environment": self._of_workers(),
            "command": self._settings.command,
            "folder": os.getcwd(),
        }
        command = [sys.executable, "-m", "farandole.launch.elastic_host"]
        self._links[host] = HostLink(host, command, self._environment, job)
        return self._links[host]

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
                plain.say(f"on {link.host} {event['text']}")
            elif kind == "failed":
                return self._lose(link, f"on {link.host} {event['text']}")
            elif self._settings.verbose:
                plain.say(f"on {link.host}: {kind}, pid {event['pid']}")

    def _lose(self, link: HostLink, how: str) -> None:
        """Nothing runs on this host any more."""
        plain.say(how)
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
            plain.say(f"the process in slot {slot} has ended: {how}{self._slots.describe(slot, now)}")
        elif self._settings.verbose:
            plain.say(f"the process in slot {slot} has ended well")

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
        while self._signals:
            number = self._signals.pop(0)
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
        while self._slots.running and not self._signals and time.monotonic() < deadline:
            self._turn(0.2)

    def _end_workers(self) -> None:
        if self._slots.running:
            self._tell_all(signal.SIGTERM)
            self._await_ends(END_GRACE_S)
