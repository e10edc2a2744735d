"""The agent of a remote host, which a program there keeps (host.py).

The connection is also the lifeline: when it ends, the agent there and its workers end.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from farandole.launch.processes.agents import AgentSpec
from farandole.launch.processes.children import Child
from farandole.launch.remote.ssh import SSH_FAILED, command, forwarded
from farandole.launch.settings.settings import Settings


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
