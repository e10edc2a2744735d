from __future__ import annotations

from pathlib import Path

import processes
import pytest


@pytest.mark.parametrize("table", ["here", "ranks", "phases", "threads", "fork"])
def test_bad_input_is_refused_with_a_sentence(tmp_path: Path, table: str) -> None:
    job = processes.launch_file(tmp_path, 2, "bad_input_worker.py", table)
    assert job.wait() == 0, job.report()
    assert len(job.lines("refused ")) == 2, job.report()
