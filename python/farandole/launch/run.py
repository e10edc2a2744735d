"""``farandole run``: a controller, an agent, and the wait for their end."""

from __future__ import annotations

import os
import secrets
import select
import signal
import sys
from types import FrameType

from farandole import _locate
from farandole.launch.children import Child, end_leftovers, member_token, pipe_with, read_line
from farandole.launch.settings import Settings, allowed_cores, log_level

# The controller listens within milliseconds; a machine under heavy load gets this long.
CONTROLLER_START_S = 20.0
# After the first failure the agent sends the other workers SIGTERM after this time. In a worker that waits or computes
# elsewhere this becomes the exception that names the failure (farandole/_ending.py); one that has it already gets
# the agent's further patience before SIGKILL.
GRACE_S = 0.5
RELAYED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)


def say(sentence: str) -> None:
    """One line on stderr."""
    print(f"farandole run: {sentence}", file=sys.stderr, flush=True)


def run(settings: Settings) -> int:
    """Runs the command on all processes. Returns the exit code: the agent's, 1 if controller or agent failed."""
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


class _Run:
    """One run from start to end. Everything that it starts has ended when `run` returns."""

    def __init__(self, settings: Settings, programs: list[str], environment: dict[str, str]) -> None:
        self._settings = settings
        self._controller_program, self._agent_program = programs
        self._environment = environment
        self._job = f"run-{secrets.token_hex(8)}"
        # Whoever holds the read end learns of the launcher's death, however it comes, by end of file.
        self._lifeline, self._life = os.pipe()
        self._agent: Child | None = None
        self._interrupts = 0
        self._early_signal = 0  # came before there was an agent
        self._wake_reader, self._wake_writer = os.pipe()
        os.set_blocking(self._wake_writer, False)

    def run(self) -> int:
        previous = {number: signal.signal(number, self._on_signal) for number in RELAYED}
        previous[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, lambda number, frame: None)
        wakeup = signal.set_wakeup_fd(self._wake_writer, warn_on_full_buffer=False)
        controller = None
        try:
            key = secrets.token_hex(32)
            controller, address = self._start_controller(key)
            if address is None:
                return 1
            if self._early_signal:
                return 128 + self._early_signal
            self._agent = self._start_agent(address, member_token(key, self._job))
            return self._wait(controller)
        finally:
            if self._agent is not None:
                self._agent.end(10.0)
            if controller is not None:
                controller.end(5.0)
            end_leftovers(self._job)
            signal.set_wakeup_fd(wakeup)
            for number, handler in previous.items():
                signal.signal(number, handler)
            for descriptor in (self._lifeline, self._life, self._wake_reader, self._wake_writer):
                os.close(descriptor)

    def _start_controller(self, key: str) -> tuple[Child, str | None]:
        ready_reader, ready_writer = os.pipe()
        key_fd = pipe_with(key)
        command = [self._controller_program, "--listen", "127.0.0.1:0", "--key-fd", str(key_fd)]
        command += ["--ready-fd", str(ready_writer), "--lifeline-fd", str(self._lifeline)]
        command += ["--log-level", log_level(self._environment)]
        try:
            child = Child("controller", command, self._environment, [key_fd, ready_writer, self._lifeline])
        finally:
            os.close(key_fd)
            os.close(ready_writer)
        address = read_line(ready_reader, child, CONTROLLER_START_S)
        os.close(ready_reader)
        if address is None:
            ended = child.exit_code() is not None
            how = child.describe_end() if ended else f"the controller did not listen within {CONTROLLER_START_S:g} s"
            say(f"cannot start: {how}; its messages stand above ({self._controller_program})")
        elif self._settings.verbose:
            say(f"controller (pid {child.process.pid}) listens on {address}")
        return child, address

    def _start_agent(self, address: str, token: str) -> Child:
        token_fd = pipe_with(token)
        command = [self._agent_program, "--job", self._job, "--controller", address, "--token-fd", str(token_fd)]
        command += ["--size", str(self._settings.processes), "--lifeline-fd", str(self._lifeline)]
        command += ["--grace-seconds", str(GRACE_S)]
        command += ["--prefix-output"] if self._settings.prefix_output else []
        try:
            return Child(
                "agent", [*command, "--", *self._settings.command], self._environment, [token_fd, self._lifeline]
            )
        finally:
            os.close(token_fd)

    def _wait(self, controller: Child) -> int:
        """Until the agent has ended; ends it when the controller is gone."""
        controller_lost = False
        while True:
            code = self._agent.exit_code()
            if code is not None:
                if self._agent.process.returncode < 0:
                    say(f"{self._agent.describe_end()}; its workers were ended")
                return 1 if controller_lost and code == 0 else code
            if not controller_lost and controller.exit_code() is not None:
                controller_lost = True
                say(f"{controller.describe_end()}; ending the job")
                self._agent.send(signal.SIGTERM)
            # SIGCHLD and all relayed signals write here; the time-out covers one that came just before.
            if select.select([self._wake_reader], [], [], 1.0)[0]:
                os.read(self._wake_reader, 4096)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        """The agent passes it on to all workers. The second Ctrl-C is a SIGTERM, the third ends at once."""
        if self._agent is None:
            self._early_signal = number
            return
        if number == signal.SIGINT:
            self._interrupts += 1
            # With a killed agent the kernel kills its workers, and `run` what these have started.
            number = {1: signal.SIGINT, 2: signal.SIGTERM}.get(self._interrupts, signal.SIGKILL)
        self._agent.send(number)
