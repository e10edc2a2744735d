"""The agent of one host, as a child of this process: how it is started, started again, signalled and ended."""

from __future__ import annotations

import os
import secrets
import signal
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from farandole.base import locate
from farandole.launch.processes.access import Access, AccessServer
from farandole.launch.processes.child import Child, Restarts, end_leftovers
from farandole.launch.processes.store import Store
from farandole.launch.processes.tokens import pipe_with

# After the first failure the agent sends the other workers SIGTERM after this time. In a worker that waits or computes
# elsewhere this becomes the exception that names the failure (session/ending.py); one that has it already gets the
# agent's further patience before SIGKILL.
GRACE_S = 0.5
Say = Callable[[str], None]


@dataclass(frozen=True)
class AgentSpec:
    """What an agent is told.

    Attributes:
        job: name of the job.
        controller: HOST:PORT.
        token: of a member.
        certificate: the controller's own, in PEM; empty: no TLS.
        first_rank: of this host.
        local_sizes: numbers of ranks of all hosts, in the order of ranks.
        host: index of this host among them.
        data_address: where workers of other hosts find those of this one; empty: the agent finds out.
        prefix_output: the rank stands before every line.
        command: what the workers run; empty: others start them.
    """

    job: str
    controller: str
    token: str
    certificate: str
    first_rank: int
    local_sizes: tuple[int, ...]
    host: int
    data_address: str
    prefix_output: bool
    command: tuple[str, ...]

    @property
    def processes(self) -> int:
        """Of the whole job."""
        return sum(self.local_sizes)

    def arguments(self) -> list[str]:
        """Arguments of the agent without descriptors and command; none of them is a secret."""
        result = ["--job", self.job, "--controller", self.controller, "--size", str(self.processes)]
        result += ["--first-rank", str(self.first_rank), "--local-size", str(self.local_sizes[self.host])]
        result += ["--local-sizes", ",".join(map(str, self.local_sizes)), "--grace-seconds", str(GRACE_S)]
        result += ["--data-address", self.data_address] if self.data_address else []
        return result + (["--prefix-output"] if self.prefix_output else [])


class LocalAgent:
    """The agent of this host. A killed one is started again: the workers, children of this process, do not depend on
    it, and what it knew of them lies in the store.

    Args:
        spec: what it is told.
        environment: of the agent and the workers.
        say: prints a sentence.
        output: descriptors for the agent's stdout and stderr; empty: ours.
    """

    def __init__(self, spec: AgentSpec, environment: Mapping[str, str], say: Say, output: Sequence[int] = ()) -> None:
        self.name = f"the agent of host {socket.gethostname()}"
        self._spec, self._environment, self._say, self._output = spec, environment, say, output
        self._program = locate.find("farandole-agent")
        self._agent_id, self.socket_name = secrets.token_hex(8), f"farandole-{secrets.token_hex(16)}"
        self._store = Store()
        # Parts of a job that runs on several hosts find their way to the controller by it.
        self._access = None
        if spec.command and len(spec.local_sizes) > 1:
            access = Access(spec.job, spec.controller, spec.token, spec.certificate)
            self._access = AccessServer(self.socket_name, access)
        # Whoever holds the read end learns by end of file that we have died or given the agent up.
        self._lifeline, self._life = os.pipe()
        self._child: Child | None = None
        self._restarts = Restarts()
        self._signals: list[int] = []  # not passed on yet
        self._ending = False

    def start(self) -> bool:
        """Whether it runs; it takes over the workers that there are."""
        spec = self._spec
        token_fd = pipe_with(spec.token)
        passed = [token_fd, self._lifeline]
        command = [self._program, *spec.arguments(), "--token-fd", str(token_fd), "--lifeline-fd", str(self._lifeline)]
        command += ["--agent-id", self._agent_id, "--socket", self.socket_name]
        if spec.certificate:
            passed.append(pipe_with(spec.certificate))
            command += ["--tls-pinned-fd", str(passed[-1])]
        try:
            with self._store.connect() as end:
                command += ["--launcher-fd", str(end.fileno())]
                command += ["--", *spec.command] if spec.command else []
                self._child = Child("agent", command, self._environment, [*passed, end.fileno()], self._output)
        except OSError as error:
            self._say(f"cannot start {self._program}: {error.strerror}")
            return False
        finally:
            for descriptor in passed:
                if descriptor != self._lifeline:
                    os.close(descriptor)
        self._store.hand_over()
        return True

    def waits_on(self) -> list[socket.socket]:
        """What to select on before `poll`, besides SIGCHLD."""
        return [*self._store.waits_on(), *(self._access.waits_on() if self._access is not None else [])]

    def poll(self) -> int | None:
        """The exit code when it has ended for good; 128 + signal if one killed it."""
        self._store.read()
        if self._access is not None:
            self._access.serve()
        self._pass_signals_on()
        child = self._child
        if child is None or (code := child.exit_code()) is None:
            return None
        if self._ending or child.process.returncode >= 0:
            return code
        self._store.disconnect()
        return None if self._may_restart(child) and self.start() else code

    def _may_restart(self, child: Child) -> bool:
        reason = "" if self._restarts.allowed(time.monotonic()) else self._restarts.reason
        if not self._store.complete:
            reason = "its state could not be kept, as no descriptor was left (ulimit -n)"
        self._say(f"{child.describe_end()}; {f'{reason}: ending the job' if reason else 'starting it again'}")
        return not reason

    def send(self, number: int) -> None:
        """Passes a signal to all workers, once they are there. SIGKILL ends the agent; `end` kills the workers."""
        if number == signal.SIGKILL:
            self._ending = True
            if self._child is not None:
                self._child.send(number)
        else:
            self._signals.append(number)
            self._pass_signals_on()

    def _pass_signals_on(self) -> None:
        # Before it is ready the agent itself would die of it.
        while self._child is not None and self._store.ready and self._signals:
            self._child.send(self._signals.pop(0))

    def retire(self, pid: int) -> None:
        """Tells the agent that a worker of an elastic job is to leave. One that has just ended does not hear it."""
        self._store.retire(pid)

    def give_up(self) -> None:
        """Has the agent end the workers, and then itself."""
        self._ending = True
        if self._life >= 0:
            os.close(self._life)
            self._life = -1

    def end(self) -> None:
        """Returns when nothing of it is left, except for what workers have started that others had started."""
        self._ending = True
        if self._access is not None:
            self._access.close()
            self._access = None
        if self._child is not None:
            self._child.end(10.0)
        self._store.close()
        self.give_up()
        os.close(self._lifeline)
        if self._spec.command:
            end_leftovers(f"FARANDOLE_AGENT_SOCKET={self.socket_name}")
