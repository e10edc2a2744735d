"""Remote hosts by ssh: what is looked at before a run, and the agent of one of them.

A remote host gets everything that is nobody else's business on the stdin of ssh: the token, the certificate, the
environment. The connection is also the lifeline: when it ends, the agent there and its workers end.
"""

from __future__ import annotations

import json
import os
import shlex
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict

from farandole.launch.processes.agents import AgentSpec, Say
from farandole.launch.processes.children import Child
from farandole.launch.settings.settings import Settings
from farandole.version import __version__

# Before what the program on the other host answers; shells print greetings.
MARK = "farandole-remote: "
# A host that has vanished without a word is noticed after so many times so many seconds.
ALIVE_S, ALIVE_TIMES = 15, 3
AT_ONCE = 64
SSH_FAILED = 255
REMOTE = "farandole.launch.remote.host"
_NOT_FORWARDED = ("OLDPWD", "PWD", "HOSTNAME", "SHLVL", "DISPLAY", "XAUTHORITY", "XDG_RUNTIME_DIR", "_")


def forwarded(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that remote workers get too: all that say nothing about this host or this login."""
    return {
        name: value
        for name, value in environment.items()
        if name not in _NOT_FORWARDED
        and not name.startswith(("BASH_FUNC_", "SSH_"))
        and not name.endswith("CUDA_VISIBLE_DEVICES")
    }


def command(settings: Settings, host: str, timeout_s: float, *arguments: str, module: str = REMOTE) -> list[str]:
    """Starts a module on a host. The user's ssh configuration holds, host keys included."""
    result = shlex.split(os.environ.get("FARANDOLE_SSH") or "ssh")
    for option in (
        "BatchMode=yes",
        f"ConnectTimeout={max(1, round(timeout_s))}",
        f"ServerAliveInterval={ALIVE_S}",
        f"ServerAliveCountMax={ALIVE_TIMES}",
    ):
        result += ["-o", option]
    result += ["-T"]
    result += [] if settings.ssh_port is None else ["-p", str(settings.ssh_port)]
    result += [] if settings.ssh_identity_file is None else ["-i", settings.ssh_identity_file]
    python = os.environ.get("FARANDOLE_REMOTE_PYTHON") or sys.executable
    path = os.environ.get("PYTHONPATH")
    words = ["env", f"PYTHONPATH={path}", python] if path else [python]
    return [*result, "--", host, shlex.join([*words, "-m", module, *arguments])]


class HostError(Exception):
    """A host cannot be used; the text says why, in one line."""


def _reason(host: str, done: subprocess.CompletedProcess, python: str) -> str:
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    last = lines[-1].strip() if lines else "it said nothing"
    if done.returncode == SSH_FAILED:
        return f"ssh failed: {last}"
    if done.returncode in (126, 127):
        return (
            f"there is no {python} there; install Farandole at the same place, or set FARANDOLE_REMOTE_PYTHON: {last}"
        )
    if "farandole" in last and "No module named" in last:
        return f"{python} there has no Farandole of this version: {last}"
    return f"the check there ended with code {done.returncode}: {last}"


def ask(settings: Settings, host: str, request: dict, timeout_s: float, *words: str, module: str = REMOTE) -> dict:
    """What a module on a host answers. Raises HostError."""
    arguments = command(settings, host, timeout_s, *words, module=module)
    try:
        done = subprocess.run(
            arguments,
            input=json.dumps(request) + "\n",
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            start_new_session=True,
        )
    except subprocess.TimeoutExpired:
        raise HostError(f"no answer within {timeout_s:g} s (--start-timeout)") from None
    except OSError as error:
        raise HostError(f"cannot start {arguments[0]}: {error.strerror}") from None
    answers = [line[len(MARK) :] for line in done.stdout.splitlines() if line.startswith(MARK)]
    if not answers:
        raise HostError(_reason(host, done, os.environ.get("FARANDOLE_REMOTE_PYTHON") or sys.executable))
    answer = json.loads(answers[-1])
    if answer["version"] != __version__:
        raise HostError(f"Farandole {answer['version']} is there, {__version__} is here")
    if answer["error"]:
        raise HostError(answer["error"])
    return answer


def preflight(
    settings: Settings, hosts: Sequence[str], environment: Mapping[str, str], timeout_s: float
) -> dict[str, dict] | None:
    """Asks all hosts at once. What each says of itself; None if one cannot be used: a line for each has been said."""
    request = {
        "environment": forwarded(environment),
        "folder": os.getcwd(),
        "program": settings.command[0],
        "interfaces": settings.network_interfaces,
    }

    return ask_all(hosts, lambda host: ask(settings, host, request, timeout_s, "--check"), settings.say)


def ask_all(hosts: Sequence[str], one: Callable[[str], dict], say: Say) -> dict[str, dict] | None:
    """Asks all hosts at once, each with `one`, which may raise HostError.

    Their answers; None if any has none: a line for each of those has been said.
    """

    def answer_of(host: str) -> dict | HostError:
        try:
            return one(host)
        except HostError as error:
            return error

    with ThreadPoolExecutor(min(AT_ONCE, len(hosts))) as pool:
        answers = dict(zip(hosts, pool.map(answer_of, hosts)))
    wrong = {host: answer for host, answer in answers.items() if isinstance(answer, HostError)}
    for host, error in wrong.items():
        say(f"host {host}: {error}")
    return None if wrong else answers


def is_own(address: str) -> bool:
    """Whether an address is one of this host's."""
    try:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.bind((address, 0))
        return True
    except OSError:
        return False


def address_towards(host: str) -> str:
    """Our address on the way to a host by its name; empty: it cannot be told."""
    try:
        family, kind, _, _, target = socket.getaddrinfo(host.rpartition("@")[2], 22, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as probe:
            probe.connect(target)
            return probe.getsockname()[0]
    except OSError:
        return ""


class RemoteAgent:
    """The agent of a remote host, which a program there keeps, started through ssh.

    Args:
        settings: of the job.
        host: its name.
        spec: what the agent is told.
        environment: of the launcher.
        timeout_s: for the connection.
        output: descriptors for stdout and stderr of ssh; empty: ours.
    """

    def __init__(
        self,
        settings: Settings,
        host: str,
        spec: AgentSpec,
        environment: Mapping[str, str],
        timeout_s: float,
        output: Sequence[int] = (),
    ) -> None:
        self.name = f"the agent of host {host}"
        self._command = command(settings, host, timeout_s)
        self._request = {"spec": asdict(spec), "environment": forwarded(environment), "folder": os.getcwd()}
        self._environment, self._say, self._output, self._host = environment, settings.say, output, host
        self._child: Child | None = None
        self._input = -1
        self._told = False

    def start(self) -> bool:
        """Whether ssh runs."""
        reader, self._input = os.pipe()
        try:
            self._child = Child("ssh", self._command, self._environment, [], self._output, reader)
        except OSError as error:
            self._say(f"cannot start {self._command[0]}: {error.strerror}")
            return False
        finally:
            os.close(reader)
        self._write(json.dumps(self._request).encode() + b"\n")
        return True

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        try:
            while view and self._input >= 0:
                view = view[os.write(self._input, view) :]
        except OSError:
            pass  # what has become of ssh is seen by waiting for it

    def waits_on(self) -> list[socket.socket]:
        """What to select on before `poll`, besides SIGCHLD."""
        return []

    def poll(self) -> int | None:
        """The exit code when it has ended."""
        code = self._child.exit_code()
        # The last: ssh itself was killed.
        if not self._told and (code in (SSH_FAILED, 126, 127) or (self._child.process.returncode or 0) < 0):
            self._told = True
            self._say(
                f"the connection to host {self._host} ended (ssh exited with code {code}), and its workers with it"
            )
        return code

    def send(self, number: int) -> None:
        """Passes a signal to all workers. SIGKILL ends the connection, and so everything on the host."""
        self._write(f"signal {int(number)}\n".encode())

    def give_up(self) -> None:
        """Has everything on the host end."""
        if self._input >= 0:
            os.close(self._input)
            self._input = -1

    def end(self) -> None:
        """Returns when nothing of it is left, or the host does not say so in time."""
        self.give_up()
        if self._child is None:
            return
        try:
            self._child.process.wait(10.0)
        except subprocess.TimeoutExpired:
            self._child.end(1.0)
