"""Variables that a script sets before `init()` act on the whole job, whoever started the controller."""

from __future__ import annotations

import re
from pathlib import Path

import processes

STALLS = """
        hvd.init()
        if hvd.rank() == 0:
            hvd.allreduce(ones(1), name="late")
        while not os.path.exists("never"):
            time.sleep(0.01)
        """


def test_a_stall_shutdown_that_the_script_asks_for(tmp_path: Path) -> None:
    own = """
        os.environ["HOROVOD_STALL_SHUTDOWN_TIME_SECONDS"] = "1"
        """
    with processes.launching(tmp_path, 2, own + STALLS) as job:
        assert job.wait() != 0
    assert "the job was ended after 1 s (HOROVOD_STALL_SHUTDOWN_TIME_SECONDS)" in job.stderr, job.report()


def test_the_script_comes_before_the_launcher_and_rank_0_before_the_others(tmp_path: Path) -> None:
    own = """
        os.environ["HOROVOD_STALL_SHUTDOWN_TIME_SECONDS"] = "1" if os.environ["HOROVOD_RANK"] == "0" else "900"
        os.environ["HOROVOD_TIMELINE"] = "timeline.json"
        """
    options = ("--stall-check-shutdown-time-seconds", "800")
    with processes.launching(tmp_path, 2, own + STALLS, *options) as job:
        assert job.wait() != 0
    assert "the job was ended after 1 s (HOROVOD_STALL_SHUTDOWN_TIME_SECONDS)" in job.stderr, job.report()
    named = r"\[0\].*what rank 1 set with HOROVOD_STALL_SHUTDOWN_TIME_SECONDS is not done"
    assert re.search(named, job.stderr), job.report()
    assert "process_name" in (tmp_path / "timeline.json").read_text(), "the script asked for a timeline"


def test_what_makes_no_sense_fails_init_with_its_name(tmp_path: Path) -> None:
    body = """
        os.environ["HOROVOD_CACHE_CAPACITY"] = "many"
        try:
            hvd.init()
        except ValueError as error:
            print("said", error)
        """
    with processes.launching(tmp_path, 2, body) as job:
        assert job.wait() == 0, job.report()
    assert job.stdout.count('HOROVOD_CACHE_CAPACITY="many"') == 2, job.report()


def test_a_lone_process_has_a_controller_of_its_own(tmp_path: Path) -> None:
    body = """
        os.environ["HOROVOD_FUSION_THRESHOLD"] = "-3"
        try:
            hvd.init()
        except ValueError as error:
            print("said", error)
        """
    job = processes.python(tmp_path, body)
    assert 'HOROVOD_FUSION_THRESHOLD="-3"' in job.stdout, job.report()
