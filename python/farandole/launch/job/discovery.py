"""Which hosts an elastic job may use."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping

from farandole.launch.hosts.hosts import SLOTS_MAX, is_name, number_of_slots
from farandole.launch.processes.child import pipe, signal_name
from farandole.launch.processes.waiting import wait

# The script is run so often, and killed after so long.
PERIOD_S = 1.0
LIMIT_S = 30.0
# What a discovery script may print.
OUTPUT_BYTES_MAX = 1 << 20
# Of all hosts together: each slot may become a process.
SLOTS_OF_ALL_MAX = 65536
READ_BYTES = 1 << 16


class DiscoveryError(Exception):
    """Discovery has failed this time; the text says how. What was discovered before still counts."""


class NoProgram(DiscoveryError):
    """The shell has not found the script, or may not run it."""


class HostDiscovery:
    """Base of what discovers hosts."""

    def find_available_hosts_and_slots(self) -> dict[str, int]:
        """Hosts with their number of slots, in the order in which they are to be used.

        Raises:
            DiscoveryError: not this time.
        """
        raise NotImplementedError(f"{type(self).__name__} does not say which hosts there are")


class FixedHosts(HostDiscovery):
    """Hosts that were given.

    Args:
        host_slots: hosts and their slots.
    """

    def __init__(self, host_slots: Mapping[str, int]) -> None:
        self._host_slots = dict(host_slots)

    def find_available_hosts_and_slots(self) -> dict[str, int]:
        """The hosts given last."""
        return dict(self._host_slots)

    def set(self, host_slots: Mapping[str, int]) -> None:
        """Replaces the hosts."""
        self._host_slots = dict(host_slots)


class HostDiscoveryScript(HostDiscovery):
    """A program that prints one host a line: ``host:slots``, or ``host`` alone for the default number of slots.

    Args:
        discovery_script: path, or a command line for the shell.
        slots: of hosts that are printed without; None: such a line is an error.
        timeout_s: a script that runs longer is killed.
    """

    def __init__(self, discovery_script: str, slots: int | None, timeout_s: float = LIMIT_S) -> None:
        self.script = discovery_script
        self._slots = slots
        self.timeout_s = timeout_s

    def start(self) -> subprocess.Popen[bytes]:
        """Starts the script; its stdout goes to `parse`. For callers that do not want to wait."""
        return subprocess.Popen(
            self.script, shell=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, start_new_session=True
        )

    def parse(self, output: bytes, code: int) -> dict[str, int]:
        """Hosts and slots from what the script has printed.

        Raises:
            DiscoveryError: it has failed, or a line makes no sense.
        """
        if code in (126, 127):
            raise NoProgram(
                f"the discovery script {self.script!r} cannot be run (exit code {code}): look whether it is there and "
                "executable; before the name of a file in this folder write ./"
            )
        if code:
            how = f"was killed by {signal_name(-code)}" if code < 0 else f"exited with code {code}"
            raise DiscoveryError(f"the discovery script {self.script!r} {how}")
        hosts: dict[str, int] = {}
        for line in output.decode(errors="replace").splitlines():
            if line.strip():
                host, slots = self._read(line.strip())
                hosts[host] = slots
        if sum(hosts.values()) > SLOTS_OF_ALL_MAX:
            raise DiscoveryError(f"the discovery script {self.script!r} printed more than {SLOTS_OF_ALL_MAX} slots")
        return hosts

    def _read(self, line: str) -> tuple[str, int]:
        host, colon, count = line.rpartition(":") if ":" in line else (line, "", "")
        host = host.strip("[]")
        slots = number_of_slots(count, 0) if colon else self._slots
        if not is_name(host) or slots is None:
            hint = "" if colon else " and --slots-per-host"
            raise DiscoveryError(
                f"the discovery script {self.script!r} printed {line[:80]!r}; lines are host:slots, or host{hint}, "
                f"with at most {SLOTS_MAX} slots"
            )
        return host, slots

    def find_available_hosts_and_slots(self) -> dict[str, int]:
        """Runs the script.

        Raises:
            DiscoveryError: it has failed, takes too long, or prints something else.
        """
        run = _Run(self, time.monotonic())
        try:
            while not run.read(time.monotonic()):
                wait([run], timeout_s=0.1)
            return run.result()
        finally:
            run.stop()


class _Run:
    """One run of a script, which is read no further than its output may be long.

    Args:
        script: what is run.
        now: on the clock that `read` is told, too.
    """

    def __init__(self, script: HostDiscoveryScript, now: float) -> None:
        self._script, self.started_s = script, now
        self._process = script.start()
        self._stdout = pipe(self._process.stdout)
        self._output = bytearray()
        os.set_blocking(self.fileno(), False)

    def fileno(self) -> int:
        """What to wait for before `read`."""
        return self._stdout.fileno()

    def read(self, now: float) -> bool:
        """Whether it has printed all. Raises DiscoveryError if it prints too much or takes too long."""
        name, limit_s = repr(self._script.script), self._script.timeout_s
        try:
            chunk = os.read(self.fileno(), READ_BYTES)
        except BlockingIOError:
            chunk = None
        self._output += chunk or b""
        if len(self._output) > OUTPUT_BYTES_MAX:
            raise DiscoveryError(f"the discovery script {name} prints more than {OUTPUT_BYTES_MAX} bytes")
        if chunk != b"" and now - self.started_s > limit_s:
            raise DiscoveryError(f"the discovery script {name} took longer than {limit_s:g} s")
        return chunk == b""

    def result(self) -> dict[str, int]:
        """What it has found, after `read`. It has ended then. Raises DiscoveryError."""
        deadline = time.monotonic() + PERIOD_S
        while not (ended := self._has_ended()) and time.monotonic() < deadline:
            time.sleep(0.01)
        self.stop()
        # One that goes on without output has done its work.
        return self._script.parse(bytes(self._output), self._process.returncode if ended else 0)

    def _has_ended(self) -> bool:
        """It stays unwaited for, so that its number stays its own until its group is killed."""
        return os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def stop(self) -> None:
        """Ends the script and what it has started, unless that is done."""
        if self._process.returncode is not None:
            return
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self._process.wait()
        self._stdout.close()


class RepeatedDiscovery:
    """Runs a discovery script once a second, without waiting for it.

    A slot is there at once, and gone when two answers in a row lack it: the script may have read a file that was just
    being written, and a process that leaves takes what it knows of the training with it.

    Args:
        script: what is run.
        say: prints a sentence.
    """

    def __init__(self, script: HostDiscoveryScript, say: Callable[[str], None]) -> None:
        self._script, self._say = script, say
        self._run: _Run | None = None
        self._started_s = -PERIOD_S
        self._last: dict[str, int] = {}  # what the script printed last
        self._complaint = ""

    def readers(self) -> list[_Run]:
        """What to wait for before `poll`."""
        return [] if self._run is None else [self._run]

    def poll(self, now: float) -> dict[str, int] | None:
        """Hosts and slots when the script has just found them.

        Raises:
            RuntimeError: it cannot be run, and has found no host so far.
        """
        try:
            return self._poll(now)
        except NoProgram as error:
            if not self._last:
                raise RuntimeError(str(error)) from None
            self._complain(error)
            return None
        except (DiscoveryError, OSError) as error:
            self._complain(error)
            return None

    def _complain(self, error: Exception) -> None:
        self.stop()
        # Once, not each second.
        if str(error) != self._complaint:
            on = (
                "going on with the hosts that are known" if self._last else "no host is known yet, so it is asked again"
            )
            self._say(f"{error}; {on}")
        self._complaint = str(error)

    def _poll(self, now: float) -> dict[str, int] | None:
        if self._run is None:
            if now - self._started_s < PERIOD_S:
                return None
            self._started_s = now
            self._run = _Run(self._script, now)
        if not self._run.read(now):
            return None
        found = self._run.result()
        self.stop()
        self._complaint = ""
        last, self._last = self._last, found
        return {host: max(found.get(host, 0), last.get(host, 0)) for host in {**found, **last}}

    def stop(self) -> None:
        """Ends the script if it runs."""
        if self._run is not None:
            self._run.stop()
            self._run = None
