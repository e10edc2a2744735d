"""Tensors on devices through the package, on fakes of the CUDA driver and of NCCL."""

from __future__ import annotations

import sys
from pathlib import Path

import processes
import pytest


@pytest.mark.parametrize("way", ["nccl", "staged"])
@pytest.mark.parametrize("ranks", [1, 2])
def test_every_rank_gets_its_results(tmp_path: Path, ranks: int, way: str) -> None:
    processes.run_cases(tmp_path, ranks, "devices_worker.py", way)


def test_a_lost_rank_takes_the_others_back_to_what_was_there(tmp_path: Path) -> None:
    command = [sys.executable, str(Path(__file__).with_name("elastic_devices_worker.py"))]
    options = ("--min-np", "2", "--max-np", "3")
    with processes.running(processes.launch_command(3, *command, options=options), tmp_path) as job:
        job.wait()
    assert job.lines("ended with ") in (["2"] * 2, ["3"] * 3), job.report()
    assert job.stderr.count("going back to the last commit: ") == 2, job.report()
