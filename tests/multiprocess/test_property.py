from __future__ import annotations

from pathlib import Path

import processes
import pytest

EXAMPLES_OF_EACH = 20


@pytest.mark.parametrize("size", [2, 3, 4])
def test_every_collective_is_what_numpy_says(tmp_path: Path, size: int) -> None:
    job = processes.launch_file(tmp_path, size, "property_worker.py", str(EXAMPLES_OF_EACH))
    assert job.wait() == 0, job.report()
    assert sorted(job.lines("operations 8 rank")) == [f"{rank} of {size}" for rank in range(size)], job.report()
