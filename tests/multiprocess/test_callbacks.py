from __future__ import annotations

from pathlib import Path

import processes
import pytest

PARTS = (
    "every_operation",
    "a_group",
    "one_rank_without_memory",
    "ranks_that_disagree",
    "a_chain",
    "a_front_end_that_is_unloaded",
    "shutdown_with_open_operations",
)


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> processes.Job:
    job = processes.launch_file(tmp_path_factory.mktemp("callbacks"), 3, "callbacks_worker.py", "all")
    assert job.wait() == 0, job.report()
    return job


@pytest.mark.parametrize("part", PARTS)
def test_callbacks_tell_all_ranks(job: processes.Job, part: str) -> None:
    assert job.lines("ok ").count(part) == 3, job.report()


def test_a_peer_that_dies_is_told_by_callback(tmp_path: Path) -> None:
    job = processes.launch_file(tmp_path, 3, "callbacks_worker.py", "death")
    assert job.wait() != 0
    texts = job.lines("told -5 ")
    assert len(texts) == 2 and all("rank 2" in text for text in texts), job.report()
