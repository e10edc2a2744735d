"""What an elastic job has on each of its hosts: an agent, and worker processes that come and go.

The driver (driver.py) starts ``python -m farandole.launch.elastic.helper``, here or through ssh. It does what it is
told on stdin, a JSON object a line. The first says what the job is, with its secret. Then

    {"do": "start", "slot": 0}                        a worker in this slot
    {"do": "retire", "slot": 0, "grace_s": 300}       it leaves at its next commit, or is ended then; null: not
    {"do": "signal", "number": 15}                    to all workers

On stdout it tells, in the same form, of "ready", "started", "ended", "output" and "failed", and by "function" that it
has made the folder of one. It ends, and ends everything, when its stdin ends: when the driver has ended, in whatever
way. Workers are its children and die with it, agents may be killed and are started again.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from typing import Any

from farandole.launch.hosts.addresses import address_of, address_towards_controller
from farandole.launch.processes.agents import AgentSpec, LocalAgent
from farandole.launch.processes.waiting import Loop

# A worker that has ended keeps its number for so long: agents look there for how it has ended.
KEPT_S = 60.0
# After SIGTERM at the end of a retirement.
TERM_S = 5.0
# Output that the driver has not taken: workers wait when it is more.
OUTPUT_BYTES_MAX = 1 << 20
READ_BYTES = 1 << 16
# More than fits into a pipe.
PIPE_READS = 64
# A line that is longer is cut.
LINE_BYTES_MAX = 1 << 16

_PR_SET_PDEATHSIG = 1


@dataclass
class Worker:
    """A process in a slot."""

    slot: int
    process: subprocess.Popen
    # By descriptor: the stream's name and the beginning of a line.
    pipes: dict[int, tuple[str, bytearray]] = field(default_factory=dict)
    ended_s: float | None = None
    retired: bool = False
    terminate_s: float | None = None  # when patience with a retired one ends
    kill_s: float | None = None

    def signal(self, number: int) -> None:
        """To the process."""
        if self.ended_s is None:
            os.kill(self.process.pid, number)

    def kill_group(self) -> None:
        """Ends the process and what it has started."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass


class Helper:
    """One host of one job."""

    def __init__(self, events: int) -> None:
        self._events = events
        self._unsent = bytearray()
        self._commands = bytearray()
        self._job: dict[str, Any] | None = None
        self._agent: LocalAgent | None = None
        self._address = ""  # under which others find workers of this host
        self._workers: list[Worker] = []
        self._loop = Loop()
        os.set_blocking(self._events, False)

    def run(self) -> int:
        """Until stdin ends."""
        try:
            while self._turn():
                pass
        except BrokenPipeError:
            pass
        finally:
            self._end()
            self._loop.close()
        return 0

    def _turn(self) -> bool:
        """Waits for something to do, and does it; False at the end of stdin."""
        pipes = {fd: worker for worker in self._workers for fd in worker.pipes}
        full = len(self._unsent) > OUTPUT_BYTES_MAX
        readers = [0, *self._agent_ends(), *([] if full else pipes)]
        # SIGCHLD writes to the pipe; the time-out is for patience that ends.
        ready = self._loop.wait(readers, 1.0, [self._events] if self._unsent else [])
        if 0 in ready and not self._read_commands():
            return False
        for fd in ready:
            if fd in pipes:
                self._read_output(pipes[fd], fd)
        self._watch_agent()
        self._watch_workers(time.monotonic())
        if self._unsent:
            self._send()
        return True

    def _send(self) -> None:
        try:
            del self._unsent[: os.write(self._events, self._unsent)]
        except BlockingIOError:
            pass

    def _tell(self, event: str, **fields: Any) -> None:
        self._unsent += json.dumps({"event": event, **fields}).encode() + b"\n"

    def _read_commands(self) -> bool:
        chunk = os.read(0, READ_BYTES)
        self._commands += chunk
        if b"\n" in chunk:
            *lines, rest = self._commands.split(b"\n")
            self._commands = bytearray(rest)
            for line in lines:
                self._obey(json.loads(line))
        return bool(chunk)

    def _obey(self, command: dict[str, Any]) -> None:
        if self._job is None:
            self._job = command
            if self._make_folder() and self._start_agent():
                self._tell("ready", pid=os.getpid())
        elif command["do"] == "start":
            self._start_worker(command["slot"])
        elif command["do"] == "signal":
            for worker in self._workers:
                worker.signal(command["number"])
        elif command["do"] == "retire":
            for worker in self._workers:
                if worker.slot == command["slot"] and worker.ended_s is None:
                    worker.retired = True
                    if command["grace_s"] is not None:
                        worker.terminate_s = time.monotonic() + command["grace_s"]

    def _make_folder(self) -> bool:
        """That of a function, if workers call one. False: it cannot be made, and the driver has been told."""
        function = self._job["function"]
        if function is None:
            return True
        # Other jobs do without what this brings.
        from farandole.launch.function import remote

        try:
            if remote.make(function):
                self._tell("function")
        except OSError as error:
            self._tell("failed", text=str(error))
            return False
        return True

    def _start_agent(self) -> bool:
        job = self._job
        os.chdir(job["folder"])
        os.environ.update(job["environment"])
        self._address = address_of(job["interfaces"]) or address_towards_controller(job["controller"])
        spec = AgentSpec(
            job=job["job"],
            controller=job["controller"],
            token=job["token"],
            certificate=job["certificate"],
            first_rank=0,
            local_sizes=(job["size"],),
            host=0,
            data_address=self._address,
            prefix_output=False,
            command=(),
        )
        self._agent = LocalAgent(spec, os.environ, lambda sentence: self._tell("note", text=sentence))
        return self._agent.start()

    def _agent_ends(self) -> list[socket.socket]:
        return [] if self._agent is None else self._agent.waits_on()

    def _watch_agent(self) -> None:
        if self._agent is None:
            return
        code = self._agent.poll()
        if code is not None:
            self._agent.end()
            self._agent = None
            self._tell("failed", text=f"the agent has ended with code {code}")

    def _start_worker(self, slot: int) -> None:
        environment = dict(os.environ)
        environment.update(
            FARANDOLE_AGENT_SOCKET=self._agent.socket_name,
            FARANDOLE_JOB=self._job["job"],
            FARANDOLE_DATA_ADDRESS=self._address,
            HOROVOD_HOSTNAME=self._job["host"],
        )
        environment.setdefault("PYTHONUNBUFFERED", "1")
        parent = os.getpid()

        def in_child() -> None:
            # Symbols of this process, the C library's among them.
            ctypes.pythonapi.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            if os.getppid() != parent:
                os._exit(127)

        try:
            process = subprocess.Popen(
                self._job["command"],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                start_new_session=True,
                preexec_fn=in_child,
            )
        except (OSError, subprocess.SubprocessError) as error:
            return self._tell("ended", slot=slot, pid=0, code=127, killed=False, how=f"could not be started: {error}")
        worker = Worker(slot, process)
        for name, pipe in (("stdout", process.stdout), ("stderr", process.stderr)):
            os.set_blocking(pipe.fileno(), False)
            worker.pipes[pipe.fileno()] = (name, bytearray())
        self._workers.append(worker)
        self._tell("started", slot=slot, pid=process.pid)

    def _read_output(self, worker: Worker, fd: int) -> bool:
        """Passes on complete lines. False: there is nothing at the moment, or nothing any more."""
        name, begun = worker.pipes[fd]
        try:
            chunk = os.read(fd, READ_BYTES)
        except BlockingIOError:
            return False
        begun += chunk
        end = begun.rfind(b"\n") + 1 if chunk and len(begun) < LINE_BYTES_MAX else len(begun)
        if end:
            text = begun[:end].decode(errors="surrogateescape")
            self._tell("output", slot=worker.slot, stream=name, text=text)
            del begun[:end]
        if not chunk:
            del worker.pipes[fd]
        return bool(chunk)

    def _watch_workers(self, now: float) -> None:
        for worker in list(self._workers):
            pid = worker.process.pid
            if worker.ended_s is None:
                # It stays unwaited for: its number stays its own, and the agent can see how it ended.
                end = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
                if end is not None:
                    self._note_end(worker, end, now)
                    continue
                if worker.retired and self._agent is not None:
                    # Again and again, as an agent that was started anew meanwhile may not have heard it.
                    self._agent.retire(pid)
                if worker.kill_s is not None and now >= worker.kill_s:
                    worker.signal(signal.SIGKILL)
                elif worker.kill_s is None and worker.terminate_s is not None and now >= worker.terminate_s:
                    worker.signal(signal.SIGTERM)
                    worker.kill_s = now + TERM_S
            elif now - worker.ended_s > KEPT_S:
                self._forget(worker)

    def _note_end(self, worker: Worker, end: Any, now: float) -> None:
        worker.ended_s = now
        # Data-loader workers go with it.
        worker.kill_group()
        for fd in list(worker.pipes):
            for _ in range(PIPE_READS):
                if not self._read_output(worker, fd):
                    break
        killed = end.si_code != os.CLD_EXITED
        code = 128 + end.si_status if killed else end.si_status
        how = f"was killed by {signal.Signals(end.si_status).name}" if killed else f"exited with code {code}"
        self._tell("ended", slot=worker.slot, pid=worker.process.pid, code=code, killed=killed, how=how)

    def _forget(self, worker: Worker) -> None:
        self._workers.remove(worker)
        worker.process.wait()
        for pipe in (worker.process.stdout, worker.process.stderr):
            pipe.close()

    def _end(self) -> None:
        for worker in self._workers:
            worker.kill_group()
        for worker in list(self._workers):
            self._forget(worker)
        if self._agent is not None:
            self._agent.end()


def main() -> int:
    """Runs until stdin ends."""
    events = os.dup(1)
    os.dup2(2, 1)  # what others print here would not be events
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2):
        # Not ignored: that would be passed on to the workers.
        signal.signal(number, lambda number, frame: None)
    return Helper(events).run()


if __name__ == "__main__":
    sys.exit(main())
