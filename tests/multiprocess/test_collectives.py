from __future__ import annotations

from pathlib import Path

import processes
import pytest


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_against_numpy(tmp_path: Path, size: int) -> None:
    job = processes.launch_file(tmp_path, size, "collectives_worker.py")
    assert job.wait() == 0, job.report()
    checked = {line.split("rank ")[1] for line in job.stdout.splitlines() if line.startswith("checked")}
    assert checked == {f"{rank} of {size}" for rank in range(size)}, job.report()


@pytest.mark.parametrize(
    ("dtype", "tolerance", "passes"), [("float32", 1e-5, 1), ("float64", 1e-12, 1), ("float64", 1e-12, 3)]
)
def test_losses_are_those_of_one_process(tmp_path: Path, dtype: str, tolerance: float, passes: int) -> None:
    losses = []
    for size, passes_of_each in ((0, 1), (2, passes), (4, 1)):
        job = processes.launch_file(tmp_path, size, "training_worker.py", dtype, str(passes_of_each))
        assert job.wait() == 0, job.report()
        losses.append([float(text) for text in job.lines("loss")])
    assert [len(values) for values in losses] == [50, 50, 50]
    assert losses[0][-1] < losses[0][0]
    for others in losses[1:]:
        assert max(abs(a - b) for a, b in zip(losses[0], others)) <= tolerance
