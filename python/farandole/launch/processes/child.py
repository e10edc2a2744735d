"""Processes that the launcher starts: how they say that they are ready, are started again, and are ended."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from typing import IO, AnyStr

from farandole.launch.processes.waiting import wait


class Child:
    """A process of ours in a session of its own, so that signals of the terminal reach the launcher only.

    Args:
        name: for messages.
        command: program and arguments.
        environment: all of its variables.
        descriptors: passed on under the same numbers; they stay the caller's.
        output: for its stdout and stderr; empty: ours.
        stdin: a descriptor; None: nothing to read.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        environment: Mapping[str, str],
        descriptors: Sequence[int],
        output: Sequence[int] = (),
        stdin: int | None = None,
    ) -> None:
        self.name = name
        self.process = subprocess.Popen(
            command,
            env=environment,
            pass_fds=descriptors,
            start_new_session=True,
            stdin=subprocess.DEVNULL if stdin is None else stdin,
            stdout=output[0] if output else None,
            stderr=output[1] if output else None,
        )

    def exit_code(self) -> int | None:
        """None while it runs; 128 + signal if one killed it."""
        code = self.process.poll()
        return 128 - code if code is not None and code < 0 else code

    def describe_end(self) -> str:
        """How it ended, as a phrase."""
        code = self.process.poll()
        if code is not None and code < 0:
            return f"the {self.name} (pid {self.process.pid}) was killed by signal {-code} ({signal_name(-code)})"
        return f"the {self.name} (pid {self.process.pid}) exited with code {code}"

    def send(self, number: int) -> None:
        """Sends a signal if it still runs."""
        if self.process.poll() is None:
            self.process.send_signal(number)

    def wait_briefly(self) -> None:
        """For a child that has closed its pipe: most likely it is ending."""
        try:
            self.process.wait(1.0)
        except subprocess.TimeoutExpired:
            pass

    def end(self, patience_s: float) -> None:
        """SIGTERM, and SIGKILL after `patience_s`; returns when it has ended."""
        self.send(signal.SIGTERM)
        try:
            self.process.wait(patience_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Restarts:
    """Bounds how often something that is killed again and again is started again.

    Args:
        times: so often
        within_s: in this time
    """

    def __init__(self, times: int = 5, within_s: float = 60.0) -> None:
        self.times = times
        self.within_s = within_s
        self._when: list[float] = []

    def allowed(self, now: float) -> bool:
        """Whether one more is, at this time in seconds; it then counts."""
        self._when = [when for when in self._when if now - when < self.within_s]
        if len(self._when) >= self.times:
            return False
        self._when.append(now)
        return True

    @property
    def reason(self) -> str:
        """Why no more is allowed."""
        return f"it was started again {self.times} times within {self.within_s:g} s"


def signal_name(number: int) -> str:
    """As the agent writes it: "SIGKILL", or "signal 40" for one that has no name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def pipe(end: IO[AnyStr] | None) -> IO[AnyStr]:
    """An end of a pipe that subprocess.Popen was asked for."""
    assert end is not None
    return end


def read_line(descriptor: int, child: Child, timeout_s: float) -> str | None:
    """The first line that `child` writes to the pipe; None if it ends, or `timeout_s` pass, before."""
    deadline = time.monotonic() + timeout_s
    received = b""
    while not received.endswith(b"\n"):
        left = deadline - time.monotonic()
        if left <= 0 or not wait([descriptor], timeout_s=min(left, 0.5)):
            if left <= 0 or child.exit_code() is not None:
                return None
            continue
        chunk = os.read(descriptor, 256)
        if not chunk:
            child.wait_briefly()
        if not chunk or len(received) > 4096:
            return None
        received += chunk
    return received.decode().strip()


def processes_of(variable: str) -> list[int]:
    """Processes that have ``NAME=VALUE`` in their environment: the workers of an agent, say, and what they started."""
    mark = variable.encode()
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit() and int(entry) != os.getpid():
            try:
                with open(f"/proc/{entry}/environ", "rb") as file:
                    variables = file.read().split(b"\0")
            except OSError:
                continue
            if mark in variables:
                found.append(int(entry))
    return found


def end_leftovers(variable: str, rounds: int = 20) -> int:
    """Kills the processes that have ``NAME=VALUE`` in their environment; returns how many that were."""
    killed: set[int] = set()
    for _ in range(rounds):
        left = processes_of(variable)
        if not left:
            break
        for pid in left:
            killed.add(pid)
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        time.sleep(0.05)
    return len(killed)
