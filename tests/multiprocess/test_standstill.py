"""A machine, container or controller that is paused for longer than silence is put up with."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import processes
from job_parts import part, pids

# An agent that is silent for 30 s is given up with its workers.
PAUSE_S = 34.0
TRAINS = """
        hvd.init()
        hvd.allreduce(ones(1))
        print("pid", hvd.rank(), os.getpid(), flush=True)
        while not hvd.allreduce(tensor([float(os.path.exists("enough"))]), name="enough", op=hvd.Max)[0]:
            time.sleep(0.005)
        """


def test_goes_on_after_a_pause(tmp_path: Path) -> None:
    (tmp_path / "all").mkdir()
    (tmp_path / "controller").mkdir()
    with (
        processes.launching(tmp_path / "all", 2, TRAINS) as whole,
        processes.launching(tmp_path / "controller", 2, TRAINS) as other,
    ):
        for job in (whole, other):
            pids(job, 2)
        paused = [*processes.marked(whole.mark), part(other, "controller")]
        assert len(paused) == 6, "launcher, controller, agent and two workers of the one, the controller of the other"
        for pid in paused:
            os.kill(pid, signal.SIGSTOP)
        time.sleep(PAUSE_S)
        assert whole.process.poll() is None and other.process.poll() is None, whole.report() + other.report()
        for pid in paused:
            os.kill(pid, signal.SIGCONT)
        for job in (whole, other):
            job.wait_for(lambda job=job: "this controller stood still for 3" in job.stderr, "a word about it")
        # Whoever is to be given up for the pause is so now.
        time.sleep(4)
        for name, job in (("all", whole), ("controller", other)):
            (tmp_path / name / "enough").touch()
            assert job.wait() == 0, job.report()
            assert "has not run its control thread" not in job.stderr, job.stderr


def test_a_stopwatch_does_not_count_a_pause(tmp_path: Path) -> None:
    body = """
        sys.path.insert(0, TESTS)
        import processes
        with processes.Stopwatch() as watch:
            began = time.monotonic()
            print("began", flush=True)
            while time.monotonic() - began < 3:
                time.sleep(0.01)
        print("seconds", watch.seconds)
        """
    script = processes.script_file(tmp_path, body.replace("TESTS", repr(str(processes.ROOT / "tests"))))
    with processes.running([sys.executable, str(script)], tmp_path) as job:
        job.wait_for(lambda: job.lines("began"), "the beginning")
        job.process.send_signal(signal.SIGSTOP)
        time.sleep(2)
        job.process.send_signal(signal.SIGCONT)
        assert job.wait() == 0, job.report()
    (seconds,) = job.lines("seconds ")
    assert 0.1 < float(seconds) < 1.9
