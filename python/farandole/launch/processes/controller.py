"""The controller of one run, as a child of this process."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import time
from collections.abc import Mapping

from farandole.base import locate
from farandole.base.variables import log_level
from farandole.launch.processes.agents import Say
from farandole.launch.processes.child import Child, Restarts, read_line
from farandole.launch.processes.tokens import pipe_with

# It listens within milliseconds; a machine under heavy load gets this long.
START_S = 20.0
# Between two attempts to start it again: something else may hold its port for a moment.
RESTART_PAUSE_S = 0.2


def certificate(key: str) -> str:
    """The certificate, in PEM, of a controller with this key and ``--tls-pinned``. Raises RuntimeError."""
    key_fd = pipe_with(key)
    try:
        command = [locate.find("farandole-controller"), "--print-certificate", "--key-fd", str(key_fd)]
        done = subprocess.run(command, pass_fds=[key_fd], capture_output=True, text=True, timeout=START_S)
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"{command[0]} printed no certificate within {START_S:g} s") from None
    finally:
        os.close(key_fd)
    if done.returncode or not done.stdout.startswith("-----BEGIN CERTIFICATE"):
        raise RuntimeError(f"{command[0]} printed no certificate: {done.stderr.strip()}")
    return done.stdout


class Controller:
    """A killed one is started again on the same port: agents and workers go on meanwhile.

    Args:
        listen: HOST:PORT; port 0: a free one.
        tls: with the certificate that follows from the key.
        environment: its own.
        say: prints a sentence.
        metrics_port: where it answers Prometheus; None: nowhere.
        key: of the controller; None: a new one.
        verbose: to say where it listens, each time.
    """

    def __init__(
        self,
        listen: str,
        tls: bool,
        environment: Mapping[str, str],
        say: Say,
        metrics_port: int | None = None,
        key: str | None = None,
        verbose: bool = False,
    ) -> None:
        self._verbose = verbose
        # Nobody can have been told a new key: no job was served with it.
        self._first = key is None
        self.key = key or secrets.token_hex(32)
        self.address = listen
        self.child: Child | None = None
        self._program = locate.find("farandole-controller")
        self._tls, self._environment, self._say, self._metrics_port = tls, environment, say, metrics_port
        # It learns of our death, however that comes, by end of file.
        self._lifeline, self._life = os.pipe()
        self._restarts = Restarts()
        self._may_end = False

    def start(self) -> bool:
        """Whether it listens, after the first time on the same port."""
        ready_reader, ready_writer = os.pipe()
        key_fd = pipe_with(self.key)
        command = [self._program, "--listen", self.address, "--key-fd", str(key_fd)]
        command += ["--ready-fd", str(ready_writer), "--lifeline-fd", str(self._lifeline)]
        command += ["--log-level", log_level(self._environment)]
        command += ["--tls-pinned"] if self._tls else []
        command += ["--first"] if self._first else []
        if self._metrics_port is not None:
            command += ["--metrics-listen", f"127.0.0.1:{self._metrics_port}"]
        try:
            child = Child("controller", command, self._environment, [key_fd, ready_writer, self._lifeline])
        except OSError as error:
            self._say(f"cannot start {self._program}: {error.strerror}")
            os.close(ready_reader)
            return False
        finally:
            os.close(key_fd)
            os.close(ready_writer)
        self.child = child
        address = read_line(ready_reader, child, START_S)
        os.close(ready_reader)
        if address is None:
            ended = child.exit_code() is not None
            how = child.describe_end() if ended else f"the controller did not listen within {START_S:g} s"
            self._say(f"cannot start: {how}; its messages stand above ({self._program})")
            child.end(1.0)
            return False
        self.address, self._first = address, False
        if self._verbose:
            self._say(f"controller (pid {child.process.pid}) listens on {address}")
        return True

    def move(self, listen: str) -> bool:
        """Whether it listens at another address now, HOST:PORT. Its agents connect again, as after its death; if it
        cannot, it listens where it did."""
        before = self.address
        if self.child is not None:
            self.child.send(signal.SIGKILL)
            self.child.process.wait()
        self.address = listen
        if self.start():
            return True
        self.address = before
        return False

    @property
    def port(self) -> str:
        """On which it listens."""
        return self.address.rpartition(":")[2]

    def alive(self) -> bool:
        """Whether it runs, perhaps again; False: it does not, for good."""
        while self.child is not None and (code := self.child.exit_code()) is not None:
            if self._may_end and code == 0:
                return False
            self._may_end = False
            reason = "" if self._restarts.allowed(time.monotonic()) else self._restarts.reason
            how = f"{reason}: ending the job" if reason else "starting it again"
            self._say(f"{self.child.describe_end()}; {how}")
            if reason:
                return False
            if not self.start():
                time.sleep(RESTART_PAUSE_S)
        return self.child is not None

    def end_when_empty(self) -> None:
        """Has it end by itself once no agent of any job is left. One that is started again has to be told again."""
        if self.child is not None and not self._may_end:
            self._may_end = True
            self.child.send(signal.SIGUSR1)

    def stay(self) -> None:
        """Takes `end_when_empty` back: if it ends all the same, it is started again."""
        self._may_end = False

    def end(self) -> None:
        """Returns when it has ended."""
        if self.child is not None:
            self.child.end(5.0)
        os.close(self._lifeline)
        os.close(self._life)
