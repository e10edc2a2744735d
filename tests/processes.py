"""Runs scripts as users do, with bounded time, and looks for what they left behind."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# A script that needs longer hangs. Machines that run several builds at once are slow.
TIMEOUT_S = 90.0


def environment(**variables: str) -> dict[str, str]:
    """That of the test without what other jobs or tools left in it, plus `variables`."""
    result = {name: value for name, value in os.environ.items() if not name.startswith("HOROVOD_")}
    result = {n: v for n, v in result.items() if not n.startswith("FARANDOLE_") or n.endswith("_DIR")}
    result["PYTHONPATH"] = f"{ROOT / 'python'}{os.pathsep}{ROOT / 'tests'}"
    result["OMP_NUM_THREADS"] = "1"
    # With it print("a", b) is several writes, between which other processes on the same descriptor write theirs.
    result.pop("PYTHONUNBUFFERED", None)
    return {**result, **variables}


def free_port() -> int:
    """Of 127.0.0.1, for programs that cannot be told to take any."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        return found.getsockname()[1]


def script_file(folder: Path, body: str) -> Path:
    """A script of its own from an indented body, with the imports that all share: those of torch only if the body names
    it, or an optimizer, because that takes two seconds of computing; those of JAX if it names that."""
    path = folder / "script.py"
    head = "import os, signal, sys, threading, time\n"
    if re.search(r"\b(torch|DistributedOptimizer)\b", body):
        head += "import torch\nfrom torch import full, ones, tensor, zeros\nimport farandole.torch as hvd\n"
    elif re.search(r"\bjax\b", body):
        head += "import jax\nimport jax.numpy as jnp\nimport numpy as np\nimport farandole.jax as hvd\n"
    else:
        head += "import light as hvd\nfrom light import full, ones, tensor, zeros\n"
    path.write_text(head + textwrap.dedent(body))
    return path


class Stopwatch:
    """Seconds since it was entered in which this machine ran.

    That a whole virtual machine stands still for a while is not the fault of the program under test.
    """

    _TICK_S = 0.02
    _LATEST_S = 0.25  # a tick that comes later tells of a standstill

    def __init__(self) -> None:
        self.seconds = 0.0
        self._over = threading.Event()
        self._ticks = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Stopwatch:
        self._ticks.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._ticks.join()

    def _run(self) -> None:
        last = time.monotonic()
        while not self._over.wait(self._TICK_S):
            now = time.monotonic()
            self.seconds += min(now - last, self._LATEST_S)
            last = now


@dataclass
class Job:
    """A command under way in a session of its own; its output goes to files."""

    process: subprocess.Popen
    out: Path
    err: Path
    mark: str = ""  # NAME=VALUE, in the environment of all that the command has started

    @property
    def stdout(self) -> str:
        return self.out.read_text()

    @property
    def stderr(self) -> str:
        return self.err.read_text()

    def wait(self, timeout_s: float = TIMEOUT_S) -> int:
        """Exit code. A job that does not end in time is killed, and the test fails with its output."""
        try:
            return self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running after {timeout_s} s\n{self.report()}") from None

    def wait_for(self, condition: Callable[[], object], what: str, timeout_s: float = TIMEOUT_S) -> object:
        """Polls until `condition()` is true, and returns what it returned."""
        deadline = time.monotonic() + timeout_s
        while True:
            result = condition()
            if result:
                return result
            if time.monotonic() > deadline:
                raise AssertionError(f"{what} did not happen within {timeout_s} s\n{self.report()}")
            time.sleep(0.005)

    def lines(self, mark: str) -> list[str]:
        """What follows `mark` in lines of stdout that contain it."""
        return [line.split(mark, 1)[1].strip() for line in self.stdout.splitlines() if mark in line]

    def report(self) -> str:
        """Its first line says by itself what became of it: lists of failed tests show no more."""
        # What a rank has said has its number before it; the launcher's own words come last.
        own = [line for line in self.stderr.splitlines() if line and not line.startswith("[")]
        brief = " | ".join([f"exit code {self.process.poll()}", *own[-2:]])
        return f"{brief}\n--- stdout\n{self.stdout}\n--- stderr\n{self.stderr}"


@contextmanager
def running(command: list[str], folder: Path, variables: dict[str, str] | None = None) -> Iterator[Job]:
    """Starts a command; at the end nothing of it is left, and it is an error if anything was after it had ended."""
    # Inherited by all that the command starts, unlike a process group.
    mark = f"FARANDOLE_TEST_MARK={os.urandom(8).hex()}"
    name, value = mark.split("=")
    count = len(list(folder.glob("*.out")))
    out, err = folder / f"{count}.out", folder / f"{count}.err"
    with out.open("wb") as out_file, err.open("wb") as err_file:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment(**(variables or {}), **{name: value}),
            stdin=subprocess.DEVNULL,
            stdout=out_file,
            stderr=err_file,
            start_new_session=True,
        )
    job = Job(process, out, err, mark=mark)
    try:
        yield job
        assert process.poll() is not None, f"the command still runs\n{job.report()}"
        left = wait_until_gone(mark)
        assert not left, f"left behind: {left}\n{job.report()}"
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        for pid in marked(mark):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass


def wait_until_gone(mark: str, timeout_s: float = 3.0) -> list[str]:
    """Command lines of processes with this environment that are still there after `timeout_s`."""
    deadline = time.monotonic() + timeout_s
    while marked(mark) and time.monotonic() < deadline:
        time.sleep(0.02)
    return [f"{pid}: {command_line(pid)}" for pid in marked(mark)]


def marked(mark: str) -> list[int]:
    """Processes that have `mark` among their variables."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                if mark.encode() in Path(f"/proc/{entry}/environ").read_bytes().split(b"\0"):
                    found.append(int(entry))
            except OSError:
                pass
    return found


def command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return "?"


def python(folder: Path, body: str, *arguments: str, **variables: str) -> Job:
    """Runs a script in a process of its own and waits for its end."""
    command = [sys.executable, str(script_file(folder, body)), *arguments]
    with running(command, folder, variables) as job:
        job.wait()
    return job


def launch_command(processes: int, *command: str, options: tuple[str, ...] = ()) -> list[str]:
    """`farandole run` as a command."""
    return [sys.executable, "-m", "farandole", "run", "-np", str(processes), *options, *command]


def launch(folder: Path, processes: int, body: str, *options: str, **variables: str) -> Job:
    """Runs a script with `farandole run` and waits for its end."""
    with launching(folder, processes, body, *options, **variables) as job:
        job.wait()
    return job


@contextmanager
def launching(folder: Path, processes: int, body: str, *options: str, **variables: str) -> Iterator[Job]:
    """Runs a script with `farandole run`."""
    script = script_file(folder, body)
    command = launch_command(processes, sys.executable, str(script), options=options)
    with running(command, folder, variables) as job:
        yield job


def launch_file(folder: Path, processes: int, name: str, *arguments: str, **variables: str) -> Job:
    """Runs a script of tests/multiprocess with `farandole run`, or with plain python if `processes` is 0."""
    script = [sys.executable, str(ROOT / "tests" / "multiprocess" / name), *arguments]
    command = launch_command(processes, *script) if processes else script
    with running(command, folder, variables) as job:
        job.wait()
    return job


def run_cases(folder: Path, size: int, name: str, *arguments: str, **variables: str) -> Job:
    """Runs a script of tests/multiprocess whose ranks say `passed CASE` of each of its cases, or `left out CASE` where
    this torch cannot do it, which pytest lists as a warning."""
    job = launch_file(folder, size, name, *arguments, **variables)
    assert job.wait() == 0, job.report()
    cases = re.findall(r"^def (case_\w+)", (ROOT / "tests" / "multiprocess" / name).read_text(), re.MULTILINE)
    left_out = job.lines("left out ")
    assert sorted(job.lines("passed ") + left_out) == sorted(size * cases), job.report()
    if left_out:
        warnings.warn(f"{name} left out {', '.join(sorted(set(left_out)))}: not with this torch", stacklevel=2)
    return job
