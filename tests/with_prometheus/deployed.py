"""A controller that outlives jobs and answers Prometheus, and jobs that use it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import processes

from farandole.base import locate
from farandole.launch.processes import tokens

KEY = "k" * 64
# With LATE rank 1 is. `end` in the folder ends the steps; with `diverge` there the ranks then submit different tensors.
TRAIN = r"""
import os, time
import light as hvd
hvd.init()
# In one write: the agent has Python print without a buffer.
os.write(1, f"pid {hvd.rank()} {os.getpid()}\n".encode())
here = os.path.dirname(os.path.abspath(__file__))
step = 0
done = False
while not done:
    time.sleep(0.15 if hvd.rank() == 1 and "LATE" in os.environ else 0.005)
    # Names that change keep the ranks from replaying for half of the time.
    name = f"x{step}" if step // 20 % 2 else "x"
    done = hvd.allreduce(hvd.full((1000,), float(os.path.exists(f"{here}/end"))), op=hvd.Max, name=name)[0] > 0
    step += 1
if os.path.exists(f"{here}/diverge"):
    hvd.allreduce(hvd.ones(10), op=hvd.Sum, name=f"only {hvd.rank()}")
hvd.shutdown()
"""


class Controller:
    """At ports that it keeps when it is started again."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.key = folder / "key"
        self.key.write_text(KEY)
        self.key.chmod(0o600)
        self.limits = folder / "limits"
        self.limits.write_text("full jobs=1\n* jobs=64 agents=64\n")
        self.listen, self.metrics = (f"127.0.0.1:{processes.free_port()}" for _ in range(2))
        self.process: subprocess.Popen[bytes]

    def start(self) -> None:
        """Returns when it listens."""
        reader, writer = os.pipe()
        command = [locate.find("farandole-controller"), "--key-file", str(self.key), "--listen", self.listen]
        command += ["--metrics-listen", self.metrics, "--limits-file", str(self.limits), "--ready-fd", str(writer)]
        self.process = subprocess.Popen(
            command, pass_fds=[writer], stdin=subprocess.DEVNULL, env=processes.environment()
        )
        os.close(writer)
        with os.fdopen(reader) as file:
            assert file.readline().strip() == self.listen

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@contextmanager
def controller(folder: Path) -> Iterator[Controller]:
    made = Controller(folder)
    made.start()
    try:
        yield made
    finally:
        made.kill()


class Training:
    """A job of some ranks behind one agent, as in a pod."""

    def __init__(self, job: processes.Job, folder: Path, size: int) -> None:
        self.job, self.folder = job, folder

        def begun() -> list[str]:
            assert job.process.poll() is None, job.report()
            lines = job.lines("pid ")
            return lines if len(lines) == size else []

        lines = job.wait_for(begun, "init on all ranks")
        self.pid = {int(rank): int(pid) for rank, pid in (line.split() for line in lines)}

    def stop(self, rank: int) -> None:
        os.kill(self.pid[rank], signal.SIGSTOP)

    def go_on(self, rank: int) -> None:
        os.kill(self.pid[rank], signal.SIGCONT)

    def diverge(self) -> None:
        (self.folder / "diverge").touch()
        (self.folder / "end").touch()

    def end(self) -> None:
        (self.folder / "end").touch()
        assert self.job.wait() == 0, self.job.report()


@contextmanager
def training(folder: Path, at: Controller, name: str, size: int = 3, **variables: str) -> Iterator[Training]:
    folder.mkdir()
    (folder / "train.py").write_text(TRAIN)
    token = folder / "token"
    token.write_text(tokens.member_token(KEY, name))
    token.chmod(0o600)
    command = [locate.find("farandole-agent"), "--pod", "--job", name, "--controller", at.listen]
    command += ["--token-file", str(token), "--size", str(size), "--local-size", str(size), "--grace-seconds", "1"]
    command += ["--", sys.executable, str(folder / "train.py")]
    with processes.running(command, folder, {"JOB_COMPLETION_INDEX": "0", **variables}) as job:
        yield Training(job, folder, size)
