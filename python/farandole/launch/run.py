"""``farandole run``: a controller, an agent, and the wait for their end."""

from __future__ import annotations

import os
import secrets
import select
import shlex
import signal
import sys
import time
from types import FrameType

from farandole import _locate
from farandole.launch import job_files
from farandole.launch.children import (
    Child,
    Restarts,
    end_leftovers,
    member_token,
    observer_token,
    pipe_with,
    read_line,
)
from farandole.launch.hosts import is_local
from farandole.launch.settings import Settings, allowed_cores, log_level
from farandole.launch.store import Store

# The controller listens within milliseconds; a machine under heavy load gets this long.
CONTROLLER_START_S = 20.0
# Between two attempts to start it again: something else may hold its port for a moment.
RESTART_PAUSE_S = 0.2
# After the first failure the agent sends the other workers SIGTERM after this time. In a worker that waits or computes
# elsewhere this becomes the exception that names the failure (farandole/_ending.py); one that has it already gets
# the agent's further patience before SIGKILL.
GRACE_S = 0.5
RELAYED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)


def say(sentence: str) -> None:
    """One line on stderr."""
    print(f"farandole run: {sentence}", file=sys.stderr, flush=True)


def run(settings: Settings) -> int:
    """Runs the command on all processes. Returns the exit code: the agent's, 1 if the controller failed for good."""
    if settings.dry_run:
        print("\n".join(describe(settings)))
        return 0
    remote = [place.host for place in settings.places() if not is_local(place.host)]
    if remote:
        say(f"processes on other hosts ({', '.join(remote)}) are not started by this release")
        return 1
    try:
        programs = [_locate.find("farandole-controller"), _locate.find("farandole-agent")]
    except FileNotFoundError as error:
        say(str(error))
        return 1
    cores = allowed_cores()
    environment = settings.environment(os.environ, cores)
    if "OMP_NUM_THREADS" not in os.environ:
        threads = environment["OMP_NUM_THREADS"]
        say(f"OMP_NUM_THREADS={threads} ({cores} cores for {settings.processes} processes); set it to choose otherwise")
    return _Run(settings, programs, environment).run()


def describe(settings: Settings) -> list[str]:
    """What would be started, a line for each host."""
    lines = []
    for place in settings.places():
        last = place.first_rank + place.local_size - 1
        ranks = f"rank {last} runs" if place.local_size == 1 else f"ranks {place.first_rank} to {last} run"
        lines.append(f"{place.host}: {ranks} {shlex.join(settings.command)}")
    return lines


class _Run:
    """One run from start to end. Everything that it starts has ended when `run` returns.

    A controller or an agent that is killed is started again: the workers do not depend on either. They are children of
    this process, and what an agent knows of them lies in the store.
    """

    def __init__(self, settings: Settings, programs: list[str], environment: dict[str, str]) -> None:
        self._settings = settings
        self._controller_program, self._agent_program = programs
        self._environment = environment
        self._job = f"run-{secrets.token_hex(8)}"
        self._key = secrets.token_hex(32)
        self._agent_id, self._socket_name = secrets.token_hex(8), f"farandole-{secrets.token_hex(16)}"
        self._store = Store()
        # Whoever holds the read end learns of the launcher's death, however it comes, by end of file.
        self._lifeline, self._life = os.pipe()
        self._controller: Child | None = None
        self._address = "127.0.0.1:0"  # of the controller, once it has listened
        self._agent: Child | None = None
        self._restarts = {"controller": Restarts(), "agent": Restarts()}
        self._interrupts = 0
        self._signals: list[int] = []  # not passed on yet
        self._ending = False  # nothing is started again
        self._wake_reader, self._wake_writer = os.pipe()
        os.set_blocking(self._wake_writer, False)

    def run(self) -> int:
        previous = {number: signal.signal(number, self._on_signal) for number in RELAYED}
        previous[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, lambda number, frame: None)
        wakeup = signal.set_wakeup_fd(self._wake_writer, warn_on_full_buffer=False)
        try:
            if not self._start_controller():
                return 1
            self._show_job()
            if self._signals:
                return 128 + self._signals[0]
            return self._wait() if self._start_agent() else 1
        finally:
            self._ending = True
            if self._agent is not None:
                self._agent.end(10.0)
            self._store.close()
            if self._controller is not None:
                self._controller.end(5.0)
            end_leftovers(self._job)
            job_files.remove(self._job)
            signal.set_wakeup_fd(wakeup)
            for number, handler in previous.items():
                signal.signal(number, handler)
            for descriptor in (self._lifeline, self._life, self._wake_reader, self._wake_writer):
                os.close(descriptor)

    def _start_controller(self) -> bool:
        """Whether it listens, after the first time on the same port."""
        ready_reader, ready_writer = os.pipe()
        key_fd = pipe_with(self._key)
        command = [self._controller_program, "--listen", self._address, "--key-fd", str(key_fd)]
        command += ["--ready-fd", str(ready_writer), "--lifeline-fd", str(self._lifeline)]
        command += ["--log-level", log_level(self._environment)]
        if self._settings.metrics_port is not None:
            command += ["--metrics-listen", f"127.0.0.1:{self._settings.metrics_port}"]
        try:
            child = Child("controller", command, self._environment, [key_fd, ready_writer, self._lifeline])
        except OSError as error:
            say(f"cannot start {self._controller_program}: {error.strerror}")
            os.close(ready_reader)
            return False
        finally:
            os.close(key_fd)
            os.close(ready_writer)
        self._controller = child
        address = read_line(ready_reader, child, CONTROLLER_START_S)
        os.close(ready_reader)
        if address is None:
            ended = child.exit_code() is not None
            how = child.describe_end() if ended else f"the controller did not listen within {CONTROLLER_START_S:g} s"
            say(f"cannot start: {how}; its messages stand above ({self._controller_program})")
            child.end(1.0)
            return False
        self._address = address
        if self._settings.verbose:
            say(f"controller (pid {child.process.pid}) listens on {address}")
        return True

    def _show_job(self) -> None:
        """Lets ``farandole status`` find the job."""
        token = observer_token(self._key, self._job)
        try:
            job_files.write(self._job, self._address, token, self._settings.processes, self._settings.command)
        except OSError as error:
            say(f"`farandole status` will not show this job: {error}")

    def _start_agent(self) -> bool:
        """Whether it runs; it takes over the workers that there are."""
        token_fd = pipe_with(member_token(self._key, self._job))
        command = [self._agent_program, "--job", self._job, "--controller", self._address, "--token-fd", str(token_fd)]
        command += ["--size", str(self._settings.processes), "--lifeline-fd", str(self._lifeline)]
        command += ["--agent-id", self._agent_id, "--socket", self._socket_name, "--grace-seconds", str(GRACE_S)]
        command += ["--prefix-output"] if self._settings.prefix_output else []
        try:
            with self._store.connect() as end:
                command += ["--launcher-fd", str(end.fileno()), "--", *self._settings.command]
                descriptors = [token_fd, self._lifeline, end.fileno()]
                self._agent = Child("agent", command, self._environment, descriptors)
        except OSError as error:
            say(f"cannot start {self._agent_program}: {error.strerror}")
            return False
        finally:
            os.close(token_fd)
        self._store.hand_over()
        return True

    def _wait(self) -> int:
        """Until the agent has ended by itself, or something has ended for good that the job needs."""
        controller_lost = False
        while True:
            self._store.read()
            self._pass_signals_on()
            code = self._agent.exit_code()
            if code is not None:
                killed = self._agent.process.returncode < 0
                if not killed or self._ending:
                    return 1 if controller_lost and code == 0 else code
                self._store.disconnect()
                if not self._may_restart(self._agent) or not self._start_agent():
                    return code
            if not controller_lost and self._controller.exit_code() is not None:
                controller_lost = self._ending or not self._restart_controller()
                if controller_lost:
                    self._ending = True
                    self._signals.append(signal.SIGTERM)
                    continue
            # SIGCHLD and all relayed signals write here; the time-out covers one that came just before.
            if self._wake_reader in select.select([self._wake_reader, *self._store.waits_on()], [], [], 1.0)[0]:
                os.read(self._wake_reader, 4096)

    def _may_restart(self, part: Child) -> bool:
        """Says what happens now that `part` has ended."""
        restarts = self._restarts[part.name]
        reason = f"it was started again {restarts.times} times within {restarts.within_s:g} s"
        allowed = restarts.allowed(time.monotonic())
        if not self._store.complete:
            allowed, reason = False, "its state could not be kept, as no descriptor was left (ulimit -n)"
        if allowed:
            say(f"{part.describe_end()}; starting it again")
        else:
            say(f"{part.describe_end()}; {reason}: ending the job")
        return allowed

    def _restart_controller(self) -> bool:
        while self._may_restart(self._controller):
            if self._start_controller():
                return True
            time.sleep(RESTART_PAUSE_S)
        return False

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        """Notes it: the agent passes it on to all workers. The second Ctrl-C is a SIGTERM, the third ends at once."""
        if number == signal.SIGINT:
            self._interrupts += 1
            number = {1: signal.SIGINT, 2: signal.SIGTERM}.get(self._interrupts, signal.SIGKILL)
        self._signals.append(number)

    def _pass_signals_on(self) -> None:
        if signal.SIGKILL in self._signals:
            self._ending = True
            self._agent.send(signal.SIGKILL)  # `run` kills the workers
        # Before it is ready the agent itself would die of it.
        while self._store.ready and self._signals:
            self._agent.send(self._signals.pop(0))
