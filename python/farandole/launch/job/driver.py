"""The driver of a job: a controller, agent and workers on each host, and the wait for their end.

What is the same in every job stands here. Which workers there are, and when the job is over, is decided in ranks.py for
jobs whose size is fixed, in elastic.py for those that workers join and leave.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from farandole.launch.hosts.addresses import LOOPBACK, address_for, address_of
from farandole.launch.job.control import Control
from farandole.launch.job.output import Output
from farandole.launch.job.signals import ENDING, Signals
from farandole.launch.job.verdict import Verdict
from farandole.launch.processes.descriptors import explain
from farandole.launch.remote import ssh
from farandole.launch.settings.settings import Settings
from farandole.launch.workers.local import LocalHost
from farandole.launch.workers.workers import HostJob

if TYPE_CHECKING:
    from _typeshed import FileDescriptorLike

    from farandole.launch.function.remote import RemoteFolders
    from farandole.launch.remote.link import RemoteHost

# Once they are told to: for all hosts together to end, and once more for what they are told by force.
END_S = 10.0
KILL_S = 3.0
# After SIGTERM, once whoever holds the lifeline has gone.
LIFELINE_GRACE_S = 10.0

_CRASH = "a crash in compiled code; PYTHONFAULTHANDLER=1 shows the line of the script"
HINTS: dict[int, str] = {
    signal.SIGKILL: "most often the kernel, out of memory: look at `dmesg | grep -i kill`",
    signal.SIGSEGV: _CRASH,
    signal.SIGABRT: _CRASH,
    signal.SIGILL: _CRASH,
    signal.SIGBUS: "memory that was promised is not there: look at `df /dev/shm` and the memory limit",
}


class Driver:
    """One job from start to end. Everything that it starts has ended when `run` returns.

    Args:
        settings: of the job.
        environment: of controller, agents and workers.
        folders: are to be on each other host before a process starts there; None: none.
        signals: to this process, taken down already.
        again: the job has run before.

    Raises:
        RuntimeError: output cannot go where it is to.
    """

    # What workers are called in names of files.
    label = "rank"

    def __init__(
        self,
        settings: Settings,
        environment: dict[str, str],
        folders: RemoteFolders | None,
        signals: Signals,
        again: bool,
    ) -> None:
        self._settings, self._environment, self._folders, self._say = settings, environment, folders, settings.say
        self._signals, self._again = signals, again
        self._control = Control(settings, environment)
        self._hosts: dict[str, LocalHost | RemoteHost] = {}
        self._ready: set[str] = set()  # those whose agent runs
        self._output = Output(settings, self.label, again)
        self._own: dict[str, str] = {}  # by other host, the address under which it finds us
        # At its end of file the job is to end: whoever holds the other end has gone.
        self._lifeline: int | None = None
        self._kill_at = float("inf")

    @property
    def began(self) -> bool:
        """Whether anything was started on a host."""
        return bool(self._ready)

    def run(self, lifeline: int | None = None) -> int:
        """Returns the exit code. At the end of file of `lifeline` the job ends as by SIGTERM."""
        self._lifeline = lifeline
        try:
            verdict = self._drive()
            if verdict.sentence:
                self._say(verdict.sentence)
            return verdict.code
        except (OSError, RuntimeError) as error:
            self._say(explain(error))
            return 1
        finally:
            self._end()

    def _drive(self) -> Verdict:
        """From the first process to the end of the job; what still runs then is ended."""
        raise NotImplementedError

    def _handle(self, host: str, event: dict[str, Any]) -> None:
        """What a host has told (launch/workers), but for what every job does with it."""
        raise NotImplementedError

    def _turn(self, timeout_s: float, readers: Sequence[FileDescriptorLike] = ()) -> None:
        """Waits for something to happen, and takes note of it."""
        hold = self._output.full
        hosts = list(self._hosts.values())
        watched: list[FileDescriptorLike] = [*readers, *(reader for host in hosts for reader in host.readers(hold))]
        watched += [] if self._lifeline is None else [self._lifeline]
        writers = [*self._output.writers(), *(writer for host in hosts for writer in host.writers())]
        ready = self._signals.loop.wait(watched, timeout_s, writers)
        if self._lifeline in ready and not os.read(self._lifeline, 4096):
            self._lifeline = None
            self._signals.take(signal.SIGTERM)
            self._kill_at = time.monotonic() + LIFELINE_GRACE_S
        if time.monotonic() > self._kill_at:
            self._kill_at = float("inf")
            self._signals.take(signal.SIGKILL)
        self._output.flush()
        for host in hosts:
            for event in host.events(ready):
                self._note(host.name, event)

    def _note(self, host: str, event: dict[str, Any]) -> None:
        kind = event["event"]
        if kind == "output":
            self._output.show(host, event["stream"], event["text"])
        elif kind == "note":
            self._say(event["text"])
        elif kind == "function":
            if self._folders is not None:
                self._folders.note_made(host)
        elif kind == "ready":
            self._ready.add(host)
        else:
            if kind == "finished" and event["text"]:
                self._say(event["text"])
            self._handle(host, event)

    def _ask(self, hosts: Sequence[str]) -> dict[str, dict[str, Any]] | None:
        """What other hosts say of themselves; None: one cannot be used, or the job is to end. Raises RuntimeError."""
        # A job on this host alone does without what this brings.
        from farandole.launch.remote import questions

        settings = self._settings
        request = {
            "environment": ssh.forwarded(self._environment),
            "folder": os.getcwd(),
            "program": settings.command[0],
            "interfaces": settings.network_interfaces,
        }
        timeout_s = settings.remote_timeout_s(self._environment)
        signals = self._signals
        answers = questions.ask_all(
            settings,
            hosts,
            request,
            questions.CHECKED,
            timeout_s,
            signals.loop,
            lambda: bool(signals.ended_by),
            "--check",
        )
        if len(answers) < len(hosts):
            return None
        named = self._named_address()
        for host, answer in answers.items():
            self._own[host] = named or address_for(host, answer["seen"])
            if not self._own[host]:
                raise RuntimeError(
                    f"host {host} sees us as {answer['seen'] or 'nobody'}, which is no address of this host: name the "
                    "network interface that it can reach (--network-interfaces)"
                )
        return answers

    def _named_address(self) -> str:
        """Of the network interfaces that were named; empty: none was. Raises RuntimeError if they have none."""
        names = self._settings.network_interfaces
        address = address_of(names)
        if names and not address:
            raise RuntimeError(f"none of the network interfaces {', '.join(names)} has an address here")
        return address

    def _listen_address(self) -> str:
        """Where the controller listens for the hosts that are known."""
        addresses = set(self._own.values())
        if len(addresses) <= 1:
            return next(iter(addresses), LOOPBACK)
        return "::" if any(":" in address for address in addresses) else "0.0.0.0"

    def _start_host(self, job: HostJob, local: bool) -> None:
        """Raises OSError."""
        if local:
            self._hosts[job.host] = LocalHost(job)
            self._ready.add(job.host)
            return
        from farandole.launch.remote.link import RemoteHost

        timeout_s = self._settings.remote_timeout_s(self._environment)
        command = ssh.command(self._settings, job.host, timeout_s)
        self._hosts[job.host] = RemoteHost(job, command, self._environment)

    def _variables(self, local: bool) -> Mapping[str, str]:
        """Of the processes of a host."""
        return self._environment if local else ssh.forwarded(self._environment)

    def _function(self, local: bool) -> dict[str, str] | None:
        return None if self._folders is None or local else self._folders.request()

    def _explain(self, code: int) -> None:
        """What most often is behind the end of a process by a signal, to judge by the exit code."""
        if code - 128 in HINTS and not self._signals.ended_by:
            name = signal.Signals(code - 128).name
            # An elastic job asks only for what a signal has ended; of ranks nothing is known here but the code.
            cause = name if self._settings.elastic else f"exit code {code} is that of {name}, if nothing else ended it"
            self._say(f"{cause}: {HINTS[code - 128]} (docs/troubleshooting.md, A process was killed)")

    def _tell_all(self, number: int) -> None:
        """Passes a signal on. Hosts that nothing was heard of yet are not waited for when it ends the job."""
        for name, host in list(self._hosts.items()):
            if number in ENDING and name not in self._ready and not host.over:
                host.end()
                self._handle(name, {"event": "finished", "code": 128 + number})
            else:
                host.send(do="signal", number=int(number))

    def _await(self, hosts: Sequence[LocalHost | RemoteHost], patience_s: float) -> None:
        """Until these have ended, or for so long; a third Ctrl-C cuts it short."""
        deadline = time.monotonic() + patience_s
        while time.monotonic() < deadline and signal.SIGKILL not in self._signals.pending:
            if all(host.over for host in hosts):
                break
            self._turn(0.1)

    def _end(self) -> None:
        hosts = list(self._hosts.values())
        for host in hosts:
            host.give_up()
        try:
            self._await(hosts, END_S)
            if not all(host.over for host in hosts):
                self._signals.pending.clear()
                self._tell_all(signal.SIGKILL)
                self._await(hosts, KILL_S)
            for host in hosts:
                host.end()
            self._turn(0.0)  # their last words
        except OSError as error:
            self._say(explain(error))
            for host in hosts:
                host.end()
        finally:
            self._control.end()
            self._output.close()
