"""Defects that Horovod has (see each check in defects_worker.py)."""

from __future__ import annotations

from pathlib import Path

import processes
import pytest

NAMES = [
    "reducescatter_names_the_operation",
    "duplicate_leaves_no_part_of_a_group",
    "groups_are_known_to_the_coordinator",
    "unnamed_operations_agree_after_those_of_a_set",
    "unknown_handles",
    "transfer_of_state_takes_no_step",
]


@pytest.mark.parametrize("name", NAMES)
def test_it_is_not_here(tmp_path: Path, name: str) -> None:
    job = processes.launch_file(tmp_path, 2, "defects_worker.py", name)
    assert job.wait() == 0, job.report()
    assert len(job.lines("not here")) == 2, job.report()
