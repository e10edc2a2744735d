from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import processes
from elastic_jobs import children_named, training


def test_mistakes_of_the_script_are_not_tried_again(tmp_path: Path) -> None:
    mistake = "hvd.allreduce(ones(1 + (state.step == 7 and hvd.rank() == 1)), name='mistake')"
    options = ("--min-np", "1", "--max-np", "2", "-H", "localhost:9")
    with training(tmp_path, 2, *options, extra=mistake) as elastic:
        assert elastic.job.wait() == 1
    assert len(elastic.job.lines("turn ")) == 2, elastic.job.report()
    assert elastic.job.stderr.count("TensorMismatchError") == 2


BEGINS = """
    import time
    import light as hvd
    hvd.init()
    print("begun", time.monotonic(), flush=True)
    hvd.shutdown()
"""


def test_the_first_controller_of_a_job_makes_nobody_wait(tmp_path: Path) -> None:
    """Another one would, for a second after its own start. Of several tries, as this machine may be busy."""
    script = str(processes.script_file(tmp_path, BEGINS))
    took = []
    while not took or (min(took) > 0.8 and len(took) < 6):
        command = processes.launch_command(1, sys.executable, script, options=("--min-np", "1", "--verbose"))
        with processes.running(command, tmp_path) as job:
            job.wait_for(lambda: "listens on" in job.stderr, "the controller")
            listens = time.monotonic()
            assert job.wait() == 0, job.report()
        took.append(float(job.lines("begun ")[0]) - listens)
    assert min(took) < 0.8, took


def test_parts_that_are_killed(tmp_path: Path) -> None:
    with training(tmp_path, 2, "--min-np", "2") as elastic:
        first = elastic.await_turns(2)
        for name in ("farandole-agent", "farandole-controller"):
            elastic.await_steps(2)
            (pid,) = children_named(elastic.job, name)
            os.kill(pid, signal.SIGKILL)
            elastic.job.wait_for(lambda: elastic.job.stderr.count("starting it again"), f"another {name}")
        elastic.await_steps(2)
        elastic.enough(2)
        assert {int(line.split()[2]) for line in elastic.job.lines("done ")} == {turn.pid for turn in first.values()}


def test_a_killed_launcher_takes_everything_along(tmp_path: Path) -> None:
    with training(tmp_path, 2, "--min-np", "1") as elastic:
        elastic.await_turns(2)
        elastic.job.process.kill()
        assert elastic.job.wait() == -signal.SIGKILL


def test_interrupt(tmp_path: Path) -> None:
    with training(tmp_path, 2, "--min-np", "1") as elastic:
        elastic.await_turns(2)
        elastic.await_steps(2)
        elastic.job.process.send_signal(signal.SIGINT)
        assert elastic.job.wait() == 128 + signal.SIGINT
    assert "KeyboardInterrupt" in elastic.job.stderr
