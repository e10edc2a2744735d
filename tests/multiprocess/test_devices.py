"""Tensors on devices through the package, on fakes of the CUDA driver and of NCCL."""

from __future__ import annotations

import collections
import contextlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import processes
import pytest


@pytest.mark.parametrize("way", ["nccl", "staged"])
@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_every_rank_gets_its_results(tmp_path: Path, ranks: int, way: str) -> None:
    processes.run_cases(tmp_path, ranks, "devices_worker.py", way)


@contextlib.contextmanager
def elastic_job(folder: Path, what_fails: str) -> Iterator[processes.Job]:
    """Ended."""
    command = [sys.executable, str(Path(__file__).with_name("elastic_devices_worker.py")), what_fails]
    options = ("--min-np", "2", "--max-np", "3")
    with processes.running(processes.launch_command(3, *command, options=options), folder) as job:
        job.wait()
        yield job


def test_a_lost_rank_takes_the_others_back_to_what_was_there(tmp_path: Path) -> None:
    with elastic_job(tmp_path, "killed") as job:
        sizes = [line.split()[0] for line in job.lines("ended with ")]
        assert sizes in (["2"] * 2, ["3"] * 3), job.report()
        assert job.stderr.count("going back to the last commit: ") == 2, job.report()


def test_a_process_whose_gpu_has_failed_ends_and_the_others_go_on(tmp_path: Path) -> None:
    with elastic_job(tmp_path, "lost") as job:
        began, ended = job.lines("began in "), [line.split() for line in job.lines("ended with ")]
        assert [size for size, *_ in ended] == ["2"] * 2 and len(began) == 3, job.report()
        assert "DeviceLostError: GPU " in job.stderr and "cannot use it any more" in job.stderr, job.report()
        assert job.stderr.count("going back to the last commit: ") == 2, job.report()


def test_processes_go_on_with_a_new_communicator_where_nccl_has_failed(tmp_path: Path) -> None:
    with elastic_job(tmp_path, "cut") as job:
        began = sorted(job.lines("began in "))
        assert sorted(job.lines("ended with ")) == [f"3 in {pid}" for pid in began] and len(began) == 3, job.report()
        assert job.stderr.count("the test has cut a connection") == 3, job.report()


def test_a_timeline_has_the_parts_of_the_devices(tmp_path: Path) -> None:
    path = tmp_path / "timeline.json"
    processes.run_cases(tmp_path, 2, "devices_worker.py", "nccl", HOROVOD_TIMELINE=str(path))
    events = json.loads(path.read_text())
    found = collections.Counter(event["name"] for event in events if event["ph"] == "B")
    packed = ("MEMCPY_IN_FUSION_BUFFER", "NCCL_ALLREDUCE", "MEMCPY_OUT_FUSION_BUFFER")
    for name in ("QUEUE", "WAIT_FOR_DATA", *packed, "NCCL_ALLGATHER", "NCCL_ALLTOALL", "NCCL_BROADCAST"):
        assert found[name] > 0, (name, found)
