from __future__ import annotations

from pathlib import Path

import processes
import pytest


@pytest.mark.parametrize("size", [2, 3, 4])
def test_join_sets_groups(tmp_path: Path, size: int) -> None:
    job = processes.launch_file(tmp_path, size, "sets_worker.py")
    assert job.wait() == 0, job.report()
    assert sorted(job.lines("] checked 7 rank")) == [f"{rank} of {size}" for rank in range(size)], job.report()


def test_parts_of_a_job(tmp_path: Path) -> None:
    job = processes.launch_file(tmp_path, 4, "parts_worker.py")
    assert job.wait() == 0, job.report()
    assert sorted(job.lines("parts ")) == ["0", "1", "2", "3"], job.report()
