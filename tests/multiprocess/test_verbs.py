"""Jobs whose ranks talk over RDMA, on a libibverbs that is not one: it proves our side, not a device's."""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from pathlib import Path

import job_parts
import namespaces
import processes
import pytest

FOLDER = processes.ROOT / "tests" / "multiprocess"
LIBRARY = processes.ROOT / "bazel-bin" / "transport" / "verbs" / "fake_ibverbs.so"
VERBS = {"FARANDOLE_IBVERBS_LIB": str(LIBRARY), "FARANDOLE_TRANSPORT": "verbs", "FARANDOLE_LOG_LEVEL": "debug"}
FLAT = {**VERBS, "FARANDOLE_COMMUNICATOR": "verbs"}
END_S = 5.0

_REASON = namespaces.why_not()
in_namespaces = pytest.mark.skipif(bool(_REASON), reason=_REASON or "namespaces can be made")


def run(folder: Path, size: int, script: str, variables: dict[str, str]) -> processes.Job:
    """A job to its end, on one host."""
    command = processes.launch_command(size, sys.executable, str(FOLDER / script))
    with processes.running(command, folder, variables) as job:
        assert job.wait() == 0, job.report()
    return job


def test_all_collectives_against_numpy(tmp_path: Path) -> None:
    job = run(tmp_path, 3, "collectives_worker.py", FLAT)
    assert sorted(job.lines("] checked 14 rank")) == [f"{rank} of 3" for rank in range(3)], job.report()
    assert "process set 0 of 3 members communicates by verbs" in job.stderr, job.report()


def test_encrypted_over_several_ports_and_queue_pairs(tmp_path: Path) -> None:
    ports = {"FARANDOLE_VERBS_DEVICES": "fake0,fake1", "FARANDOLE_VERBS_QUEUE_PAIRS": "4"}
    job = run(tmp_path, 2, "collectives_worker.py", {**FLAT, **ports, "FARANDOLE_DATA_ENCRYPTION": "1"})
    assert len(job.lines("] checked 14 rank")) == 2, job.report()


def test_replay_and_what_ends_it(tmp_path: Path) -> None:
    job = run(tmp_path, 3, "replay_worker.py", FLAT)
    assert job.stdout.count(" done on rank") == 8 * 3, job.report()


@in_namespaces
def test_between_hosts_that_share_memory_inside(tmp_path: Path) -> None:
    script = [str(FOLDER / "collectives_worker.py")]
    with namespaces.spread(tmp_path, (2, 2), script, VERBS, apart=False) as job:
        assert job.wait() == [0, 0], job.report()
    assert sorted(job.lines("] checked 14 rank")) == [f"{rank} of 4" for rank in range(4)], job.report()
    assert "communicates by hier over verbs" in job.parts[0].stderr, job.report()


@in_namespaces
def test_a_killed_worker_is_named(tmp_path: Path) -> None:
    """Its device tells nobody; the connection beside the queue pairs does."""
    script = [str(processes.script_file(tmp_path, job_parts.IN_ALLREDUCE))]
    with namespaces.spread(tmp_path, (1, 1), script, FLAT, apart=False) as job:
        pids = dict(line.split() for line in job.wait_for_lines("pid ", 2))
        job.wait_for_lines("warm", 2)
        time.sleep(0.2)
        os.kill(int(pids["1"]), signal.SIGKILL)
        assert all(code != 0 for code in job.wait(END_S)), job.report()
    culprit = re.compile(rf"rank 1 \(pid {pids['1']} on host host1\).*was killed by signal 9")
    assert culprit.search(job.parts[0].stderr), job.report()


def test_without_a_device_it_is_an_error_that_says_what_is_missing(tmp_path: Path) -> None:
    command = processes.launch_command(2, sys.executable, str(FOLDER / "collectives_worker.py"))
    nowhere = {**FLAT, "FARANDOLE_IBVERBS_LIB": "/nowhere/libibverbs.so.1"}
    with processes.running(command, tmp_path, nowhere) as job:
        assert job.wait() != 0, job.report()
    assert "not verbs: rank 0" in job.stderr and "/nowhere/libibverbs.so.1" in job.stderr, job.report()
