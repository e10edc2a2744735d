"""A script that was written for Horovod."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import processes

SCRIPT = str(processes.ROOT / "tests" / "multiprocess" / "horovod_digits.py")
PATH = f"{processes.ROOT / 'python'}:{processes.ROOT / 'alias'}"


def accuracy(job: processes.Job) -> float:
    assert job.process.returncode == 0, job.report()
    (line,) = job.lines("horovod 0.28.1: accuracy ")
    match = re.fullmatch(r"(\d\.\d+), ranks 2", line)
    assert match, line
    return float(match.group(1))


def test_trains_under_horovodrun(tmp_path: Path) -> None:
    launcher = [sys.executable, "-m", "horovod.runner.launch", "-np", "2", "-H", "localhost:2", "--gloo"]
    command = [*launcher, sys.executable, SCRIPT, "--gradient-predivide-factor", "2"]
    with processes.running(command, tmp_path, {"PYTHONPATH": PATH}) as job:
        job.wait()
    assert accuracy(job) > 0.9


def test_trains_in_horovod_run(tmp_path: Path) -> None:
    command = [sys.executable, SCRIPT, "--num-proc", "2", "--fp16-allreduce"]
    with processes.running(command, tmp_path, {"PYTHONPATH": PATH}) as job:
        job.wait()
    assert accuracy(job) > 0.9
    (results,) = job.lines("results")
    first, second = map(float, results.split())
    assert first == second > 0.9


def test_lines_begin_as_those_of_horovodrun(tmp_path: Path) -> None:
    # Each line in one write: without prefixes the ranks' own writes mix, and print() writes its parts one by one.
    body = "import os, sys; write = sys.stdout.write; rank = os.environ['HOROVOD_RANK']"
    body += "; write(f'out {rank}\\n'); sys.stderr.write('err\\n'); write('end')"
    for flags, mark in ((), "[{}]<{}>:"), (("--no-prefix-output",), ""):
        launcher = [sys.executable, "-m", "horovod.runner.launch", "-np", "2", *flags]
        folder = tmp_path / str(len(flags))
        folder.mkdir()
        with processes.running([*launcher, sys.executable, "-c", body], folder, {"PYTHONPATH": PATH}) as job:
            assert job.wait() == 0, job.report()
        for rank in "01":
            assert f"{mark.format(rank, 'stdout')}out {rank}\n" in job.stdout, job.report()
            assert f"{mark.format(rank, 'stderr')}err\n" in job.stderr, job.report()
        assert job.stdout.count(mark.format(0, "stdout") + "end") == (1 if mark else 2), job.report()


def horovodrun(folder: Path, worker: str) -> processes.Job:
    script = str(processes.ROOT / "tests" / "multiprocess" / worker)
    command = [sys.executable, "-m", "horovod.runner.launch", "-np", "2", sys.executable, script]
    with processes.running(command, folder, {"PYTHONPATH": PATH}) as job:
        assert job.wait() == 0, job.report()
    return job


def test_ignite(tmp_path: Path) -> None:
    job = horovodrun(tmp_path, "ignite_worker.py")
    first, second = job.lines("loss ")
    assert first == second, job.report()


def test_lightning(tmp_path: Path) -> None:
    assert sorted(horovodrun(tmp_path, "lightning_worker.py").lines("rank ")) == ["0", "1"]


def test_pyro(tmp_path: Path) -> None:
    job = horovodrun(tmp_path, "pyro_worker.py")
    assert job.lines("parameters ") == ["8", "8"], job.report()
