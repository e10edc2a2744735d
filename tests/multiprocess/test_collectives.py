from __future__ import annotations

import sys
from pathlib import Path

import processes
import pytest


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_against_numpy(tmp_path: Path, size: int) -> None:
    job = processes.launch_file(tmp_path, size, "collectives_worker.py")
    assert job.wait() == 0, job.report()
    assert sorted(job.lines("] checked 14 rank")) == [f"{rank} of {size}" for rank in range(size)], job.report()


@pytest.mark.parametrize(
    ("dtype", "tolerance", "runs"),
    [("float32", 1e-5, [(2, 1)]), ("float64", 1e-12, [(2, 1), (2, 3), (4, 1)])],
)
def test_losses_are_those_of_one_process(
    tmp_path: Path, dtype: str, tolerance: float, runs: list[tuple[int, int]]
) -> None:
    """`runs`: processes, and backward passes of each per step."""
    losses = []
    for size, passes in ((0, 1), *runs):
        job = processes.launch_file(tmp_path, size, "training_worker.py", dtype, str(passes))
        assert job.wait() == 0, job.report()
        losses.append([float(text) for text in job.lines("loss ")])
    assert all(len(values) == 50 for values in losses)
    assert losses[0][-1] < losses[0][0]
    for others in losses[1:]:
        assert max(abs(a - b) for a, b in zip(losses[0], others)) <= tolerance


@pytest.mark.parametrize(("size", "communicator"), [(2, "shm"), (2, "tcp"), (3, "auto")])
def test_factors_round_as_torch_does(tmp_path: Path, size: int, communicator: str) -> None:
    variables = {"FARANDOLE_COMMUNICATOR": communicator}
    script = str(processes.ROOT / "tests" / "multiprocess" / "factors_worker.py")
    command = processes.launch_command(size, sys.executable, script)
    with processes.running(command, tmp_path, variables) as job:
        assert job.wait() == 0, job.report()
    assert len(job.lines("] checked ")) == size, job.report()
