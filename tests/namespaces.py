"""Hosts that are network namespaces of this machine, and jobs that span them: a controller in the first host, an agent
in each, started as by hand.

A namespace has no name: it lives as long as a process in it, and these die with the test. So nothing is left behind,
however a test ends.
"""

from __future__ import annotations

import ctypes
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import processes

from farandole.base import locate
from farandole.launch.processes.tokens import member_token, pipe_with

PR_SET_PDEATHSIG = 1
# The controller listens within milliseconds; a machine under heavy load gets this long.
CONTROLLER_START_S = 20.0


def why_not() -> str:
    """Why namespaces cannot be made here; empty if they can."""
    command = ["unshare", "-n", "sh", "-c", "ip link add br0 type bridge && ip link add va type veth peer name vb"]
    try:
        tried = subprocess.run(command, capture_output=True, text=True, timeout=20)
    except OSError as error:
        return f"network namespaces need {error.filename}"
    return "" if tried.returncode == 0 else f"no network namespaces: {tried.stderr.strip()}"


def die_with_the_test() -> None:
    """In a child, before its program: it is killed with its parent."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Namespace:
    """A network of its own, which lives as long as a process that does nothing in it."""

    def __init__(self) -> None:
        self._holder = subprocess.Popen(
            ["unshare", "-n", "sh", "-c", "ip link set lo up && echo ready && exec sleep infinity"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            preexec_fn=die_with_the_test,
        )
        assert self._holder.stdout.readline() == b"ready\n"

    @property
    def pid(self) -> int:
        """Of the process that holds it."""
        return self._holder.pid

    def command(self, *words: str) -> list[str]:
        """A command that runs in it."""
        return ["nsenter", "-t", str(self.pid), "-n", *words]

    def ip(self, *words: str) -> None:
        """Runs `ip` in it."""
        subprocess.run(self.command("ip", *words), check=True, capture_output=True, timeout=20)

    def end(self) -> None:
        """Ends it, once nothing else is in it."""
        self._holder.kill()
        self._holder.wait()
        self._holder.stdout.close()


class Network:
    """Hosts with the addresses 10.77.0.1, .2, ... at one switch."""

    def __init__(self, hosts: int) -> None:
        self._switch = Namespace()
        self.hosts = [Namespace() for _ in range(hosts)]
        self._switch.ip("link", "add", "br0", "type", "bridge")
        self._switch.ip("link", "set", "br0", "up")
        for number, host in enumerate(self.hosts):
            port = f"port{number}"
            host.ip("link", "add", "eth0", "type", "veth", "peer", "name", port, "netns", str(self._switch.pid))
            host.ip("addr", "add", f"{self.address(number)}/24", "dev", "eth0")
            host.ip("link", "set", "eth0", "up")
            self._switch.ip("link", "set", port, "master", "br0", "up")

    @staticmethod
    def address(host: int) -> str:
        """Of a host."""
        return f"10.77.0.{host + 1}"

    def limit(self, rate: str) -> None:
        """What leaves a host, to so much a second, as tc writes it: "5gbit"."""
        for host in self.hosts:
            limit = ["tbf", "rate", rate, "burst", "1mb", "latency", "20ms"]
            command = host.command("tc", "qdisc", "add", "dev", "eth0", "root", *limit)
            subprocess.run(command, check=True, capture_output=True, timeout=20)

    def cut(self, host: int) -> None:
        """The switch passes nothing more to or from a host, which is not told."""
        self._switch.ip("link", "set", f"port{host}", "nomaster")

    def mend(self, host: int) -> None:
        """Takes `cut` back."""
        self._switch.ip("link", "set", f"port{host}", "master", "br0")

    def cut_between(self, hosts: Sequence[int]) -> None:
        """The switch passes nothing more among these hosts, which still reach all others."""
        for host in hosts:
            self._switch.ip("link", "set", f"port{host}", "type", "bridge_slave", "isolated", "on")

    def end(self) -> None:
        """Ends all namespaces."""
        for namespace in [*self.hosts, self._switch]:
            namespace.end()


@dataclass
class SpreadJob:
    """A job whose hosts run an agent each.

    Attributes:
        network: the hosts.
        controller_log: what the controller says.
        parts: the agent of each host, with what its workers print.
        controller: its process.
    """

    network: Network
    controller_log: Path
    parts: list[processes.Job] = field(default_factory=list)
    controller: subprocess.Popen | None = None

    def lines(self, mark: str) -> list[str]:
        """What follows `mark` in lines of stdout of all hosts that contain it."""
        return [line for part in self.parts for line in part.lines(mark)]

    def report(self) -> str:
        """All output."""
        parts = [f"=== host{number}\n{part.report()}" for number, part in enumerate(self.parts)]
        return "\n".join([*parts, f"=== controller\n{self.controller_log.read_text()}"])

    def wait(self, timeout_s: float = processes.TIMEOUT_S) -> list[int]:
        """Exit codes of the agents. One that does not end in time fails the test with the output of all."""
        deadline = time.monotonic() + timeout_s
        while any(part.process.poll() is None for part in self.parts):
            assert time.monotonic() < deadline, f"still running after {timeout_s} s\n{self.report()}"
            time.sleep(0.01)
        return [part.process.returncode for part in self.parts]

    def wait_for_lines(self, mark: str, count: int, timeout_s: float = processes.TIMEOUT_S) -> list[str]:
        """Waits until that many lines contain `mark`; what follows it there."""
        deadline = time.monotonic() + timeout_s
        while len(self.lines(mark)) < count:
            assert time.monotonic() < deadline, f"no {count} lines with {mark!r} in {timeout_s} s\n{self.report()}"
            over = [part.process.poll() for part in self.parts]
            assert None in over or len(self.lines(mark)) >= count, f"ended with {over}\n{self.report()}"
            time.sleep(0.01)
        return self.lines(mark)

    def kill_host(self, host: int) -> None:
        """All processes of a host at once, as when it loses its power: stopped first, so that none sees another die."""
        namespace = os.readlink(f"/proc/{self.network.hosts[host].pid}/ns/net")
        victims = [pid for pid in _pids() if pid != self.network.hosts[host].pid and _namespace_of(pid) == namespace]
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in victims:
                try:
                    os.kill(pid, number)
                except ProcessLookupError:
                    pass


def _pids() -> list[int]:
    return [int(entry) for entry in os.listdir("/proc") if entry.isdigit()]


def _namespace_of(pid: int) -> str:
    try:
        return os.readlink(f"/proc/{pid}/ns/net")
    except OSError:
        return ""


def _start_controller(job: SpreadJob, key: str, lifeline: int, variables: dict[str, str]) -> str:
    """Starts it in the first host; its address."""
    ready_reader, ready_writer = os.pipe()
    key_fd = pipe_with(key)
    command = [locate.find("farandole-controller"), "--listen", f"{job.network.address(0)}:0", "--insecure"]
    command += ["--key-fd", str(key_fd), "--ready-fd", str(ready_writer), "--lifeline-fd", str(lifeline)]
    with job.controller_log.open("wb") as err:
        job.controller = subprocess.Popen(
            job.network.hosts[0].command(*command),
            env=processes.environment(**variables),
            pass_fds=[key_fd, ready_writer, lifeline],
            stdin=subprocess.DEVNULL,
            stderr=err,
        )
    os.close(key_fd)
    os.close(ready_writer)
    with os.fdopen(ready_reader) as ready:
        address = ready.readline().strip()
    assert address, job.controller_log.read_text()
    return address


@contextmanager
def spread(
    folder: Path,
    workers: Sequence[int],
    script: Sequence[str],
    variables: dict[str, str] | None = None,
    apart: bool = True,
) -> Iterator[SpreadJob]:
    """Runs a Python script as a job with so many workers on each host; ranks run from host to host.

    Args:
        folder: for output.
        workers: number of each host.
        script: arguments of Python.
        variables: further ones of the environment.
        apart: whether hosts have a network of their own each; otherwise all are in one, with an agent each.
    """
    variables = dict(variables or {})
    key, name = secrets.token_hex(32), f"spread-{secrets.token_hex(4)}"
    with ExitStack() as stack:
        network = Network(len(workers) if apart else 1)
        stack.callback(network.end)
        job = SpreadJob(network, folder / "controller.err")
        lifeline, life = os.pipe()
        stack.callback(os.close, lifeline)
        stack.callback(_end_controller, job)
        stack.callback(os.close, life)
        address = _start_controller(job, key, lifeline, variables)
        token_file = folder / "token"
        token_file.touch(0o600)
        token_file.write_text(member_token(key, name))
        for host, local_size in enumerate(workers):
            place = folder / f"host{host}"
            place.mkdir()
            command = [locate.find("farandole-agent"), "--job", name, "--controller", address, "--insecure"]
            command += ["--token-file", str(token_file), "--size", str(sum(workers)), "--host-name", f"host{host}"]
            command += ["--first-rank", str(sum(workers[:host])), "--local-size", str(local_size), "--prefix-output"]
            command += ["--", sys.executable, *script]
            part = processes.running(network.hosts[host if apart else 0].command(*command), place, variables)
            job.parts.append(stack.enter_context(part))
        yield job


def _end_controller(job: SpreadJob) -> None:
    """It ends by itself: its lifeline is closed."""
    if job.controller is None:
        return
    try:
        job.controller.wait(CONTROLLER_START_S)
    except subprocess.TimeoutExpired:
        job.controller.kill()
        job.controller.wait()
