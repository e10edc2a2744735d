"""Both sides of a benchmark that runs as several ranks: starting them, and what their scripts share."""

from __future__ import annotations

import json
import mmap
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

HERE = Path(__file__).resolve().parent
PYTHON_PATH = HERE.parents[1] / "python"


def start(
    ranks: int,
    script: str,
    *arguments: str,
    timeout_s: int = 900,
    options: Sequence[str] = (),
    python: str = sys.executable,
    variables: Mapping[str, str] = MappingProxyType({}),
) -> dict:
    """Runs a script beside this file as `ranks` processes under `farandole run`; returns what rank 0 reported.

    Args:
        options: of `farandole run`.
        python: the interpreter of the ranks.
        variables: of their environment.

    Raises:
        SystemExit: a rank failed; its output has been shown.
    """
    with tempfile.TemporaryDirectory(prefix="farandole-bench-") as scratch:
        environment = {
            **os.environ,
            "BENCH_SCRATCH": scratch,
            "PYTHONPATH": f"{PYTHON_PATH}",
            "GLOO_SOCKET_IFNAME": "lo",
            **variables,
        }
        environment.setdefault("OMP_NUM_THREADS", str(max(1, len(os.sched_getaffinity(0)) // ranks)))
        command = [python, "-m", "farandole", "run", "-np", str(ranks), *options]
        command += [python, str(HERE / script), *arguments]
        done = subprocess.run(command, env=environment, timeout=timeout_s)
        if done.returncode:
            raise SystemExit(f"bench: {script} with {ranks} ranks ended with code {done.returncode}")
        return json.loads((Path(scratch) / "report.json").read_text())


def scratch(name: str) -> Path:
    """A file of this run, the same on all ranks."""
    return Path(os.environ["BENCH_SCRATCH"]) / name


def report(result: dict) -> None:
    """Rank 0 only: what start() returns."""
    scratch("report.json").write_text(json.dumps(result))


def init_gloo(rank: int, size: int) -> None:
    """torch.distributed with gloo over loopback in the same processes."""
    import torch.distributed as dist

    dist.init_process_group("gloo", init_method=f"file://{scratch('gloo')}", rank=rank, world_size=size)


def pin(rank: int) -> None:
    """All threads of this process, and those to come, to the rank-th of the CPUs that it may use, modulo their
    number."""
    allowed = sorted(os.sched_getaffinity(0))
    for thread in os.listdir("/proc/self/task"):
        os.sched_setaffinity(int(thread), {allowed[rank % len(allowed)]})


class Aligner:
    """Lets the ranks of one host start a measured call together without using either peer: a line of counters in a
    shared file, spun on with yields."""

    def __init__(self, rank: int, size: int) -> None:
        path = scratch("aligner")
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
        os.ftruncate(descriptor, 64 * size)
        # Looked at by plain Python: a call of numpy takes microseconds, by which the ranks would start apart.
        self._counters = memoryview(mmap.mmap(descriptor, 64 * size)).cast("q")
        os.close(descriptor)
        self._own = 8 * rank
        self._others = [8 * other for other in range(size) if other != rank]

    def wait(self, pause: Callable[[], object] = os.sched_yield) -> None:
        """Returns when every rank is here. `pause` is called between looks."""
        counters = self._counters
        own = counters[self._own] = counters[self._own] + 1
        for other in self._others:
            while counters[other] < own:
                pause()


def rest() -> None:
    """A pause that leaves the processor to others."""
    time.sleep(0.001)


def spin() -> None:
    """A pause that keeps the processor: after any other, threads that gloo wakes may wait for a tick of the kernel."""


def timed(aligner: Aligner, call: Callable[[], None]) -> float:
    """Seconds that one call takes here, started by all ranks together."""
    aligner.wait()
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def serve(path: str, hello: str, measure: Callable[[str, str, list[int]], list[float]]) -> None:
    """A rank of a Player: measures what the driver at the socket `path` tells it to, until that closes. Commands and
    answers as driver_link.h. `measure` gets what, dtype, and the numbers bytes, calls and blocks, and returns seconds;
    a RuntimeError or ValueError of it is told to the driver."""
    line = socket.socket(socket.AF_UNIX)
    line.connect(path)
    words = line.makefile("rw")
    words.write(f"{hello}\n")
    words.flush()
    for command in words:
        what, dtype, *numbers = command.split()
        try:
            answer = " ".join(f"{s:.9g}" for s in measure(what, dtype, [int(number) for number in numbers]))
        except (RuntimeError, ValueError) as error:
            answer = f"error {' '.join(str(error).split())}"
        words.write(answer + "\n")
        words.flush()


def timed_blocks(call: Callable[[], object], calls: int, blocks: int) -> list[float]:
    """Seconds of a call, the mean of `calls`, for each of the blocks."""
    seconds = []
    for _ in range(blocks):
        begin = time.perf_counter()
        for _ in range(calls):
            call()
        seconds.append((time.perf_counter() - begin) / calls)
    return seconds
