"""From kill -9 of one of 4 workers to the first step of those that go on: of the other 3 at once, and of 4 again when 4
are demanded, beside the time that the replacement takes to import torch, alone and with torch._dynamo, which a process
imports for its first optimizer. TRIALS=200 for all figures of the docs."""

from __future__ import annotations

import math
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import ranks
import report

WORLD = 4
LOADERS = 2
PATIENCE_S = 120.0
MEDIAN_S, P99_S, REPLACED_S = 1.0, 2.0, 1.5


class First(NamedTuple):
    """The first step of a worker's turn."""

    rank: int
    size: int
    pid: int
    when_s: float


class Job:
    """An elastic job of 4 workers with a slot for each trial."""

    def __init__(self, process: subprocess.Popen, output: Path) -> None:
        self._process = process
        self._output = output

    def _lines(self, mark: str) -> list[list[str]]:
        lines = self._output.read_text().splitlines()
        return [line.split(mark, 1)[1].split() for line in lines if mark in line and line.endswith(tuple("0123456789"))]

    def import_s(self, pid: int) -> tuple[float, float]:
        """How long a worker took to import torch, without torch._dynamo and with it."""
        words = next(words for words in self._lines(": import ") if int(words[0]) == pid)
        return float(words[1]), float(words[2])

    def firsts(self, size: int, after_s: float) -> dict[int, First]:
        """First steps by rank, of a membership of this size that began to step after a time."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline and self._process.poll() is None:
            found = [First(int(w[0]), int(w[1]), int(w[2]), float(w[3])) for w in self._lines(": first ")]
            last = {each.rank: each for each in found if each.size == size and each.when_s > after_s}
            if len(last) == size:
                return last
            time.sleep(0.01)
        raise SystemExit(f"no steps of {size} workers:\n{self._output.read_text()[-4000:]}")


@contextmanager
def running(least: int, loaders: int, trials: int) -> Iterator[Job]:
    """A job whose workers number 4 again after each trial."""
    with tempfile.TemporaryDirectory(prefix="farandole-bench-") as scratch:
        environment = {**os.environ, "PYTHONPATH": str(ranks.PYTHON_PATH), "OMP_NUM_THREADS": "1"}
        # pip compiles what it installs, torch and a wheel of ours: from the tree the first worker has to.
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        output = Path(scratch) / "output"
        command = [sys.executable, "-m", "farandole", "run", "-np", str(WORLD), "--min-np", str(least)]
        command += ["--max-np", str(WORLD), "-H", f"localhost:{WORLD + trials}"]
        command += [sys.executable, str(ranks.HERE / "elastic_ranks.py"), str(loaders)]
        with output.open("wb") as file:
            process = subprocess.Popen(command, env=environment, stdout=file, stderr=file, stdin=subprocess.DEVNULL)
        try:
            yield Job(process, output)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)


def trial(job: Job, chance: random.Random, present: dict[int, First], least: int) -> tuple[float, tuple, dict]:
    """Kills one of `present`. Seconds to the first step of the rest, or of 4 again, and of imports; who is there."""
    # Not always at the same place of a step.
    time.sleep(chance.uniform(0.2, 0.5))
    killed_s = time.monotonic()
    os.kill(chance.choice(list(present.values())).pid, signal.SIGKILL)
    rest = job.firsts(least, killed_s)
    again = rest if least == WORLD else job.firsts(WORLD, killed_s)
    (new,) = {first.pid for first in again.values()} - {first.pid for first in present.values()}
    return max(first.when_s for first in rest.values()) - killed_s, job.import_s(new), again


def run(least: int, loaders: int, trials: int) -> tuple[list[float], list[tuple[float, float]]]:
    """Seconds of all trials, and of the replacements' imports."""
    seconds, imports = [], []
    chance = random.Random(1)
    with running(least, loaders, trials) as job:
        present = job.firsts(WORLD, 0.0)
        for _ in range(trials):
            took, imported, present = trial(job, chance, present, least)
            seconds.append(took)
            imports.append(imported)
    return seconds, imports


def p99(values: list[float]) -> float:
    """The smallest value that 99 of 100 do not exceed."""
    return sorted(values)[math.ceil(0.99 * len(values)) - 1]


def main() -> None:
    """Writes build/bench/elastic.json."""
    trials = int(os.environ.get("TRIALS") or 20)
    half = (trials + 1) // 2
    plain, _ = run(WORLD - 1, 0, half)
    loading, _ = run(WORLD - 1, LOADERS, trials - half)
    replaced, imports = run(WORLD, 0, max(10, trials // 10))
    rows = []
    for name, values in (("", plain + loading), (", no data loaders", plain), (", data loaders", loading)):
        if not values:
            continue
        row = report.row(f"kill -9 to the first step of the other 3{name}", "s", values)
        row.p99 = p99(values)
        if not name:
            row.goal = f"median {MEDIAN_S:g} s, p99 {P99_S:g} s"
            row.met = row.value <= MEDIAN_S and row.p99 <= P99_S
        rows.append(row)
    alone, whole = (list(each) for each in zip(*imports))
    peers = {"import of torch": alone, "with torch._dynamo": whole}
    row = report.row("kill -9 to the first step of 4 again", "s", replaced, **peers)
    row.p99 = p99(replaced)
    row.goal = f"the import of torch and {REPLACED_S:g} s"
    row.met = row.value <= row.peers["import of torch"] + REPLACED_S
    rows.append(row)
    report.write("elastic", rows, command=f"make bench-elastic TRIALS={trials}")


if __name__ == "__main__":
    main()
