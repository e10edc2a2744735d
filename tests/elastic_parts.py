"""A controller, an agent that serves workers which others start, and workers of an elastic job that come and go."""

from __future__ import annotations

import ctypes
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import processes

from farandole.base import locate
from farandole.launch.processes.child import Child, read_line
from farandole.launch.processes.store import Store
from farandole.launch.processes.tokens import member_token, pipe_with

START_S = 20.0
_PR_SET_PDEATHSIG = 1


class ElasticParts:
    """What a launcher does for an elastic job on one host, in the test's own process."""

    def __init__(self, folder: Path, script: Path, np: int, sizes: tuple[int, int]) -> None:
        self._folder, self._script = folder, script
        self._np, self._sizes = np, sizes
        self._job, self._key = f"elastic-{secrets.token_hex(8)}", secrets.token_hex(32)
        self._socket_name, self._agent_id = f"farandole-{secrets.token_hex(16)}", secrets.token_hex(8)
        self._address = "127.0.0.1:0"
        self._store = Store()
        self.lifeline, self._life = os.pipe()
        self.workers: list[processes.Job] = []
        self.agent: Child | None = None
        self.controller: Child | None = None

    def start_controller(self) -> None:
        """Again on the same port, once it has had one."""
        reader, writer = os.pipe()
        key = pipe_with(self._key)
        command = [locate.find("farandole-controller"), "--listen", self._address, "--key-fd", str(key)]
        command += ["--ready-fd", str(writer), "--lifeline-fd", str(self.lifeline)]
        self.controller = Child("controller", command, processes.environment(), [key, writer, self.lifeline])
        for descriptor in (key, writer):
            os.close(descriptor)
        address = read_line(reader, self.controller, START_S)
        os.close(reader)
        assert address is not None, "the controller did not listen"
        self._address = address

    def start_agent(self) -> None:
        """In companion mode; one that takes over knows what the one before it knew."""
        reader, writer = os.pipe()
        token = pipe_with(member_token(self._key, self._job))
        command = [locate.find("farandole-agent"), "--job", self._job, "--controller", self._address]
        command += ["--token-fd", str(token), "--size", str(self._np), "--lifeline-fd", str(self.lifeline)]
        command += ["--agent-id", self._agent_id, "--socket", self._socket_name, "--ready-fd", str(writer)]
        with self._store.connect() as end:
            command += ["--launcher-fd", str(end.fileno())]
            self.agent = Child("agent", command, processes.environment(), [token, self.lifeline, end.fileno(), writer])
        for descriptor in (token, writer):
            os.close(descriptor)
        self._store.hand_over()
        assert read_line(reader, self.agent, START_S) is not None, "the agent did not listen"
        os.close(reader)

    def start_worker(self, *arguments: str, **variables: str) -> processes.Job:
        """Its child, as workers of an elastic job are."""
        number = len(self.workers)
        out, err = self._folder / f"{number}.out", self._folder / f"{number}.err"
        environment = processes.environment(
            FARANDOLE_AGENT_SOCKET=self._socket_name,
            FARANDOLE_JOB=self._job,
            FARANDOLE_ELASTIC="1",
            FARANDOLE_SIZE=str(self._np),
            FARANDOLE_MIN_SIZE=str(self._sizes[0]),
            FARANDOLE_MAX_SIZE=str(self._sizes[1]),
            PYTHONUNBUFFERED="1",
            **variables,
        )
        with out.open("wb") as stdout, err.open("wb") as stderr:
            process = subprocess.Popen(
                [sys.executable, str(self._script), *arguments],
                env=environment,
                stdout=stdout,
                stderr=stderr,
                stdin=subprocess.DEVNULL,
                preexec_fn=_die_with_parent,
            )
        self.workers.append(processes.Job(process, out, err))
        return self.workers[-1]

    def retire(self, worker: processes.Job) -> None:
        """This worker is to leave for good."""
        self._store.retire(worker.process.pid)

    def read_store(self) -> None:
        """Takes what the agent has put, for the next one."""
        self._store.read()

    def replace_agent(self) -> None:
        """SIGKILL, and another one."""
        self.agent.process.kill()
        self.agent.process.wait()
        self._store.disconnect()
        self.start_agent()

    def replace_controller(self) -> None:
        """SIGKILL, and another one."""
        self.controller.process.kill()
        self.controller.process.wait()
        self.start_controller()

    def wait_for(self, condition: Callable[[], object], what: str, timeout_s: float = processes.TIMEOUT_S) -> object:
        """Polls; fails with the output of all workers."""
        deadline = time.monotonic() + timeout_s
        while not (result := condition()):
            self._store.read()
            if time.monotonic() > deadline:
                reports = "\n".join(f"worker {i}\n{w.report()}" for i, w in enumerate(self.workers))
                raise AssertionError(f"{what} did not happen within {timeout_s} s\n{reports}")
            time.sleep(0.002)
        return result

    def close(self) -> None:
        """Ends all."""
        for worker in self.workers:
            worker.process.kill()
            worker.process.wait()
        self._store.close()
        for child in (self.agent, self.controller):
            if child is not None:
                child.end(5.0)
        for descriptor in (self.lifeline, self._life):
            os.close(descriptor)


@contextmanager
def elastic_job(folder: Path, script: Path, np: int, sizes: tuple[int, int]) -> Iterator[ElasticParts]:
    """A controller and an agent; at the end everything has ended."""
    parts = ElasticParts(folder, script, np, sizes)
    try:
        parts.start_controller()
        parts.start_agent()
        yield parts
    finally:
        parts.close()


def memberships(worker: processes.Job) -> Sequence[list[str]]:
    """Words of its lines "member GENERATIONS RANK SIZE SECONDS"."""
    return [line.split() for line in worker.lines("member ")]


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
