from __future__ import annotations

import os
import signal
from pathlib import Path

from elastic_jobs import children_named, training


def test_mistakes_of_the_script_are_not_tried_again(tmp_path: Path) -> None:
    mistake = "hvd.allreduce(ones(1 + (state.step == 7 and hvd.rank() == 1)), name='mistake')"
    options = ("--min-np", "1", "--max-np", "2", "-H", "localhost:9")
    with training(tmp_path, 2, *options, extra=mistake) as elastic:
        assert elastic.job.wait() == 1
    assert len(elastic.job.lines("turn ")) == 2, elastic.job.report()
    assert elastic.job.stderr.count("TensorMismatchError") == 2


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
