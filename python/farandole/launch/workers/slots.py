"""Workers that come and go: one in each slot, started and ended from here, beside an agent that serves all."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from farandole.launch.processes.agents import LocalAgent
from farandole.launch.processes.child import signal_name
from farandole.launch.workers.lines import LineReader
from farandole.launch.workers.workers import HostJob, Tell, Workers

# A worker that has ended keeps its number for so long: agents look there for how it has ended.
UNREAPED_S = 60.0
# After SIGTERM at the end of a retirement.
TERM_S = 5.0

_PR_SET_PDEATHSIG = 1


@dataclass
class _Worker:
    """A process in a slot."""

    slot: int
    process: subprocess.Popen[bytes]
    readers: tuple[LineReader, ...]
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


class SlotWorkers(Workers):
    """Those of an elastic job."""

    def __init__(self, job: HostJob, environment: Mapping[str, str], tell: Tell) -> None:
        super().__init__(job, environment, tell)
        self._workers: list[_Worker] = []

    def _start_agent(self) -> None:
        self._run_agent(replace(self._job.spec, command=()))

    def obey(self, command: Mapping[str, Any]) -> None:
        """As Workers.obey."""
        if self.over or self._agent is None:
            return
        if command["do"] == "start":
            self._start_worker(command["slot"], self._agent)
        elif command["do"] == "signal":
            for worker in self._workers:
                worker.signal(command["number"])
        elif command["do"] == "retire":
            for worker in self._workers:
                if worker.slot == command["slot"] and worker.ended_s is None:
                    worker.retired = True
                    if command["grace_s"] is not None:
                        worker.terminate_s = time.monotonic() + command["grace_s"]

    def _start_worker(self, slot: int, agent: LocalAgent) -> None:
        spec = self._job.spec
        environment = {
            **self._environment,
            "FARANDOLE_AGENT_SOCKET": agent.socket_name,
            "FARANDOLE_JOB": spec.job,
            "FARANDOLE_DATA_ADDRESS": spec.data_address,
            "FARANDOLE_SLOT": str(slot),
            "HOROVOD_HOSTNAME": self._job.host,
        }
        environment.setdefault("PYTHONUNBUFFERED", "1")
        parent = os.getpid()

        def in_child() -> None:
            # Symbols of this process, the C library's among them.
            ctypes.pythonapi.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            if os.getppid() != parent:
                os._exit(127)

        pipes: list[tuple[int, int]] = []
        try:
            pipes += [os.pipe()]
            pipes += [os.pipe()]
            process = subprocess.Popen(
                spec.command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=pipes[0][1],
                stderr=pipes[1][1],
                start_new_session=True,
                preexec_fn=in_child,
            )
        except (OSError, subprocess.SubprocessError) as error:
            for reader, _ in pipes:
                os.close(reader)
            how = f"could not be started: {error}"
            return self._tell({"event": "ended", "slot": slot, "pid": 0, "code": 127, "killed": False, "how": how})
        finally:
            for _, writer in pipes:
                os.close(writer)
        prefix = b"[%d] " % slot
        names = ("stdout", "stderr")
        readers = tuple(LineReader(pipe[0], name, prefix) for pipe, name in zip(pipes, names))
        self._readers += readers
        self._workers.append(_Worker(slot, process, readers))
        self._tell({"event": "started", "slot": slot, "pid": process.pid})

    def poll(self, ready: set[int]) -> None:
        """As Workers.poll."""
        super().poll(ready)
        if self.over or self._agent is None:
            return
        code = self._agent.poll()
        now = time.monotonic()
        for worker in list(self._workers):
            self._watch(worker, self._agent, now)
        if code is not None:
            self._finish(1, f"the agent has ended with code {code}")

    def _watch(self, worker: _Worker, agent: LocalAgent, now: float) -> None:
        if worker.ended_s is not None:
            if now - worker.ended_s > UNREAPED_S:
                self._forget(worker)
            return
        # It stays unwaited for: its number stays its own, and the agent can see how it ended.
        end = os.waitid(os.P_PID, worker.process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if end is not None:
            return self._note_end(worker, end, now)
        if worker.retired:
            # Again and again, as an agent that was started anew meanwhile may not have heard it.
            agent.retire(worker.process.pid)
        if worker.kill_s is not None and now >= worker.kill_s:
            worker.signal(signal.SIGKILL)
        elif worker.kill_s is None and worker.terminate_s is not None and now >= worker.terminate_s:
            worker.signal(signal.SIGTERM)
            worker.kill_s = now + TERM_S

    def _note_end(self, worker: _Worker, end: os.waitid_result, now: float) -> None:
        worker.ended_s = now
        # Data-loader workers go with it.
        worker.kill_group()
        self._drop_last(worker.readers)
        killed = end.si_code != os.CLD_EXITED
        code = 128 + end.si_status if killed else end.si_status
        how = f"was killed by {signal_name(end.si_status)}" if killed else f"exited with code {code}"
        pid = worker.process.pid
        self._tell({"event": "ended", "slot": worker.slot, "pid": pid, "code": code, "killed": killed, "how": how})

    def _forget(self, worker: _Worker) -> None:
        self._workers.remove(worker)
        worker.process.wait()

    def give_up(self) -> None:
        """Kills all."""
        for worker in self._workers:
            worker.kill_group()
        self.over = True

    def end(self) -> None:
        """As Workers.end."""
        self.give_up()
        for worker in list(self._workers):
            self._forget(worker)
        super().end()
