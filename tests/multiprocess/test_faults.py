"""The kill table. `--kills N` tries each way of dying N times."""

from __future__ import annotations

import os
import random
import re
import signal
import socket
import time
from pathlib import Path

import processes
import pytest
from job_parts import pids, running

# Other ranks have this long from the kill to their end.
END_S = 2.0
# When in its work a worker is killed: another moment in each run, and pytest shows the line with a failure.
SEED = int(os.environ.get("FARANDOLE_TEST_SEED") or random.randrange(1 << 32))
MOMENTS = random.Random(SEED)


@pytest.fixture(autouse=True)
def seed() -> None:
    print(f"FARANDOLE_TEST_SEED={SEED}")


# Every worker says who it is, and then does what its test is about.
HEAD = """
        hvd.init()
        print("pid", hvd.rank(), os.getpid(), flush=True)
        """

IN_ALLREDUCE = """
        tensor = ones(1 << 20)
        hvd.barrier()
        while True:
            hvd.allreduce_(tensor)
        """
IN_COMPUTE = """
        hvd.barrier()
        if hvd.rank() == 0:
            hvd.allreduce(torch.ones(1))
        matrix = torch.ones(200, 200)
        while True:
            matrix = (matrix @ matrix).clamp(0, 1)
        """
IN_DATA_LOADER = """
        class Slow(torch.utils.data.Dataset):
            def __len__(self):
                return 100
            def __getitem__(self, index):
                time.sleep(4)
                return torch.ones(1)
        for item in torch.utils.data.DataLoader(Slow(), num_workers=2):
            hvd.allreduce(item)
        """
FIRST_WAITS = """
        if hvd.rank() == 0:
            hvd.allreduce(ones(1))
        """
WAYS = {
    "in allreduce": IN_ALLREDUCE,
    "in compute": IN_COMPUTE,
    "in data loader": IN_DATA_LOADER,
    "in data loader while another waits": FIRST_WAITS + IN_DATA_LOADER,
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "turn" in metafunc.fixturenames:
        metafunc.parametrize("turn", range(metafunc.config.getoption("--kills")))


@pytest.mark.parametrize("way", WAYS)
def test_killed_worker(tmp_path: Path, way: str, turn: int) -> None:
    with processes.launching(tmp_path, 3, HEAD + WAYS[way]) as job:
        pid = pids(job, 3)
        time.sleep(MOMENTS.uniform(0.2, 0.6))
        os.kill(pid[1], signal.SIGKILL)
        with processes.Stopwatch() as watch:
            for rank in (0, 2):
                job.wait_for(lambda rank=rank: not running(pid[rank]), f"end of rank {rank}")
        code = job.wait()
    assert watch.seconds < END_S, f"{watch.seconds} s\n{job.report()}"
    assert code == 128 + signal.SIGKILL, job.report()
    told = [line for line in job.stderr.splitlines() if "HorovodInternalError" in line]
    assert len(told) == 2, job.report()
    culprit = re.compile(rf"rank 1 \(pid {pid[1]} on host {re.escape(socket.gethostname())}\).*SIGKILL")
    assert all(culprit.search(line) for line in told), told
    assert "Traceback" not in job.stderr, job.report()


@pytest.mark.parametrize("way", ["in allreduce", "in compute", "in data loader"])
def test_killed_worker_and_launcher(tmp_path: Path, way: str, turn: int) -> None:
    with processes.launching(tmp_path, 3, HEAD + WAYS[way]) as job:
        pid = pids(job, 3)
        time.sleep(MOMENTS.uniform(0.2, 0.6))
        os.kill(pid[1], signal.SIGKILL)
        job.process.kill()
        with processes.Stopwatch() as watch:
            job.wait()
            for rank in (0, 2):
                job.wait_for(lambda rank=rank: not running(pid[rank]), f"end of rank {rank}")
        assert watch.seconds < END_S, job.report()


@pytest.mark.parametrize("way", ["in allreduce", "in data loader"])
def test_killed_launcher(tmp_path: Path, way: str, turn: int) -> None:
    with processes.launching(tmp_path, 2, HEAD + WAYS[way]) as job:
        pid = pids(job, 2)
        time.sleep(MOMENTS.uniform(0.1, 0.4))
        job.process.kill()
        with processes.Stopwatch() as watch:
            job.wait()
            for rank in pid:
                job.wait_for(lambda rank=rank: not running(pid[rank]), f"end of rank {rank}")
        assert watch.seconds < END_S, job.report()


def test_stopped_worker_is_unresponsive_and_goes_on(tmp_path: Path) -> None:
    body = """
        for step in range(100):
            hvd.allreduce(ones(10))
            time.sleep(0.02)
        print("done", flush=True)
        """
    with processes.launching(tmp_path, 2, HEAD + body) as job:
        pid = pids(job, 2)
        os.kill(pid[1], signal.SIGSTOP)
        try:
            job.wait_for(lambda: "unresponsive" in job.stderr, "the warning", 10)
            time.sleep(1)
            assert job.process.poll() is None and running(pid[0]), job.report()
        finally:
            os.kill(pid[1], signal.SIGCONT)
        assert job.wait() == 0, job.report()
    assert len(job.lines("done")) == 2
    (warning,) = [line for line in job.stderr.splitlines() if "unresponsive" in line]
    assert "rank 1" in warning and str(pid[1]) in warning, job.report()
    assert [line for line in job.stderr.splitlines() if "answers again" in line], job.report()


@pytest.mark.parametrize(
    ("ending", "code", "cause"),
    [
        ("sys.exit(3)", 3, "exited with code 3"),
        ("raise KeyError('a bug')", 1, "exited with code 1"),
        ("os.abort()", 128 + signal.SIGABRT, "SIGABRT"),
    ],
)
def test_first_failure_is_named_once(tmp_path: Path, ending: str, code: int, cause: str) -> None:
    body = f"""
        hvd.barrier()
        if hvd.rank() == 1:
            {ending}
        hvd.allreduce(ones(1))
        """
    with processes.launching(tmp_path, 3, HEAD + body) as job:
        pid = pids(job, 3)
        assert job.wait() == code, job.report()
    named = [line for line in job.stderr.splitlines() if "failed first" in line]
    assert len(named) == 1 and "rank 1" in named[0] and str(pid[1]) in named[0] and cause in named[0], job.report()
    told = [line for line in job.stderr.splitlines() if "HorovodInternalError" in line]
    # sys.exit runs the exit handlers, which leave the job.
    how = "left the job" if "sys.exit" in ending else cause
    assert len(told) == 2 and all("rank 1" in line and how in line for line in told), job.report()


def test_a_late_rank_learns_who_left_first(tmp_path: Path) -> None:
    """Another has ended meanwhile, of the error that told it so."""
    body = """
        hvd.barrier()
        if hvd.rank() == 1:
            sys.exit(3)
        if hvd.rank() == 0:
            time.sleep(2)
        hvd.allreduce(ones(1))
        """
    with processes.launching(tmp_path, 3, HEAD + body) as job:
        pids(job, 3)
        assert job.wait() == 3, job.report()
    (late,) = [line for line in job.stderr.splitlines() if "[0]" in line and "HorovodInternalError" in line]
    assert "rank 2" in late and "after rank 1" in late and "had left the job" in late, job.report()


def test_interrupt_of_the_launcher(tmp_path: Path) -> None:
    body = """
        try:
            hvd.allreduce(ones(1), name=f"never {hvd.rank()}")
        except KeyboardInterrupt:
            print("interrupted", flush=True)
            sys.exit(5)
        """
    with processes.launching(tmp_path, 2, HEAD + body) as job:
        pids(job, 2)
        time.sleep(0.2)
        with processes.Stopwatch() as watch:
            job.process.send_signal(signal.SIGINT)
            assert job.wait() != 0
        assert watch.seconds < 5
    assert len(job.lines("interrupted")) == 2, job.report()
    assert "failed first" not in job.stderr, job.report()


@pytest.mark.parametrize("options", [(), ("--min-np", "1")], ids=["fixed", "elastic"])
def test_second_interrupt_ends_scripts_that_ignore_the_first(tmp_path: Path, options: tuple[str, ...]) -> None:
    body = """
        def terminated(*_):
            time.sleep(0.5)
            print("terminated", flush=True)
            sys.exit(1)
        signal.signal(signal.SIGTERM, terminated)
        signal.signal(signal.SIGINT, lambda *_: print("ignored", flush=True))
        hvd.barrier()
        while True:
            time.sleep(0.1)
        """
    with processes.launching(tmp_path, 2, HEAD + body, *options) as job:
        pids(job, 2)
        time.sleep(0.3)
        job.process.send_signal(signal.SIGINT)
        job.wait_for(lambda: len(job.lines("ignored")) == 2, "the first interrupt")
        assert job.process.poll() is None
        with processes.Stopwatch() as watch:
            job.process.send_signal(signal.SIGINT)
            assert job.wait() != 0
        assert watch.seconds < 5
    assert len(job.lines("terminated")) == 2, job.report()


def test_checkpoint_after_a_lost_peer(tmp_path: Path) -> None:
    """A survivor that catches the exception has some seconds for its own business."""
    body = """
        hvd.barrier()
        if hvd.rank() == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            hvd.allreduce(ones(1))
        except hvd.HorovodInternalError as error:
            time.sleep(2.5)
            print("saved", flush=True)
            raise
        """
    job = processes.launch(tmp_path, 2, HEAD + body)
    assert job.wait() == 128 + signal.SIGKILL
    assert len(job.lines("saved")) == 1, job.report()
