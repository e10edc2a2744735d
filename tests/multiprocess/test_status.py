"""`farandole status` beside a job that runs: whether what it says is true."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import processes
import pytest

from farandole.launch.status import job_files, query

COMMAND = [sys.executable, "-m", "farandole", "status"]
HEAD = """
        hvd.init()
        print("ready", flush=True)
        def until(name):
            while not os.path.exists(name):
                time.sleep(0.01)
        """


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where only this test's jobs are shown."""
    folder = tmp_path / "runtime"
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    yield folder
    assert not list(folder.glob("farandole/*")), "the launcher has left a file behind"


def target(job: processes.Job) -> query.Target:
    """The job's controller, as `farandole status` finds it, once all ranks are through init."""
    job.wait_for(lambda: "ready" in job.stdout, "init")
    (file,) = job_files.read_all()
    return query.Target(file.job, file.controller, token=file.token)


def waits_of(where: query.Target) -> Iterator[dict]:
    """Statuses from the first wait on; bounded by the job, whose end ends the watch."""
    for status in where.watch(10):
        if status["waits"] and status["state"] == "JOB_STATE_RUNNING":
            yield status


def test_a_rank_that_sleeps_is_named_with_what_it_lacks(tmp_path: Path, runtime: Path) -> None:
    body = """
        if hvd.rank() == 1:
            until("go")
        hvd.allreduce(ones(1), name="lonely")
        """
    with processes.launching(tmp_path, 3, HEAD + body) as job:
        where = target(job)
        status = next(s for s in waits_of(where) if len(s["waits"][0]["readyRanks"]) == 2)
        (wait,) = status["waits"]
        assert wait["readyRanks"] == [0, 2] and wait["missingRanks"] == [1]
        (name,) = wait["names"]
        assert name.endswith("lonely")
        with processes.running(COMMAND, tmp_path) as shown:
            assert shown.wait() == 0, shown.report()
        sentence = f"ranks 0 and 2 have waited for rank 1 with `{re.escape(name)}`; rank 1 has submitted nothing else"
        assert re.search(rf"^! for [\d.]+ s {sentence}$", shown.stdout, re.M), shown.stdout
        assert f"job {where.job}: {sys.executable}" in shown.stdout
        (tmp_path / "go").touch()
        assert job.wait() == 0, job.report()


def test_divergence_is_named_within_two_seconds_and_ends_the_job(tmp_path: Path, runtime: Path) -> None:
    body = """
        hvd.allreduce(ones(1), name="A" if hvd.rank() < 2 else "B")
        """
    with processes.launching(tmp_path, 3, HEAD + body, FARANDOLE_DIVERGENCE_SECONDS="4") as job:
        status = next(s for s in waits_of(target(job)) if s["divergence"])
        assert max(int(wait["ageMs"]) for wait in status["waits"]) < 2000, status["waits"]
        sentence = r"ranks 0 to 2 have diverged: .*wait for `\S*A`, which rank 2 has not submitted"
        assert re.search(sentence, status["divergence"]), status["divergence"]
        assert job.wait() != 0
    # Said by rank 0 at once, and by all at the end.
    assert re.search(rf"\[0\].*{sentence}.*the job fails in", job.stderr), job.report()
    ended = [line for line in job.stderr.splitlines() if "HorovodInternalError" in line]
    assert len(ended) == 3 and all(re.search(sentence, line) for line in ended), job.report()


def test_a_stall_is_warned_of_and_bounded_as_asked(tmp_path: Path, runtime: Path) -> None:
    body = """
        if hvd.rank() == 0:
            hvd.allreduce(ones(1), name="late")
        until("never")
        """
    variables = {"HOROVOD_STALL_CHECK_TIME_SECONDS": "1", "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS": "3"}
    with processes.launching(tmp_path, 2, HEAD + body, **variables) as job:
        assert job.wait() != 0
    assert re.search(r"stall: for [12]\.\d s rank 0 has waited for rank 1 with `\S*late`", job.stderr), job.report()
    assert "the job was ended after 3 s (HOROVOD_STALL_SHUTDOWN_TIME_SECONDS)" in job.stderr, job.report()


def test_watch_prints_changes_until_the_job_is_over(tmp_path: Path, runtime: Path) -> None:
    body = """
        if hvd.rank() == 0:
            until("go")
        hvd.barrier()
        """
    with processes.launching(tmp_path, 2, HEAD + body) as job:
        target(job)
        with ExitStack() as watches:
            lines = watches.enter_context(processes.running([*COMMAND, "--watch"], tmp_path))
            objects = watches.enter_context(processes.running([*COMMAND, "--watch", "--json"], tmp_path))
            lines.wait_for(lambda: "rank 1 has waited for rank 0 at barrier" in lines.stdout, "the wait")
            objects.wait_for(lambda: "at barrier" in objects.stdout, "the wait")
            (tmp_path / "go").touch()
            assert job.wait() == 0, job.report()
            assert lines.wait() == 0, lines.report()
            assert objects.wait() == 0, objects.report()
    assert lines.stdout.splitlines()[-1].endswith("is over")
    statuses = [json.loads(line) for line in objects.stdout.splitlines()]
    assert {status["job"] for status in statuses} == {statuses[0]["job"]}


def test_nobody_sees_a_job_without_its_token(tmp_path: Path, runtime: Path) -> None:
    with processes.launching(tmp_path, 2, HEAD + 'until("go")') as job:
        where = target(job)
        assert where.get()["size"] == 2
        for wrong in (replace(where, token="0" * 64), replace(where, job="another")):
            with pytest.raises(query.QueryError, match="token is missing or wrong") as caught:
                wrong.get()
            assert caught.value.code == query.REFUSED
        (tmp_path / "go").touch()
        assert job.wait() == 0, job.report()


def test_metrics_are_served_where_asked_for(tmp_path: Path, runtime: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    with processes.launching(tmp_path, 2, HEAD + 'until("go")', "--metrics-port", str(port)) as job:
        name = target(job).job
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            text = answer.read().decode()
        assert f'farandole_job_size{{training_job="{name}"}} 2\n' in text
        assert f'farandole_job_state{{training_job="{name}",state="running"}} 1\n' in text
        (tmp_path / "go").touch()
        assert job.wait() == 0, job.report()


def test_who_is_in_a_collective_waits_for_the_one_that_is_stopped(tmp_path: Path, runtime: Path) -> None:
    """All have submitted it, so that nobody lacks it."""
    body = """
        if hvd.rank() == 1:
            handle = hvd.allreduce_async(ones(10), name="x")
            time.sleep(0.5)
            print("pid", os.getpid(), flush=True)
            open("submitted", "w").close()
            os.kill(os.getpid(), signal.SIGSTOP)
            hvd.synchronize(handle)
        else:
            until("submitted")
            time.sleep(0.5)
            hvd.allreduce(ones(10), name="x")
        """
    with processes.launching(tmp_path, 2, HEAD + body) as job:
        (wait,) = next(s["waits"] for s in target(job).watch(10) if s["waits"] and s["waits"][0]["missingRanks"] == [1])
        assert (wait["kind"], wait["readyRanks"]) == ("WAIT_KIND_COLLECTIVE", [0]), wait
        assert re.search(r"rank 0 has been in `\S*x`; rank 1 is stopped by a signal$", wait["text"]), wait
        os.kill(int(job.lines("pid ")[0]), signal.SIGCONT)
        assert job.wait() == 0, job.report()


def test_in_a_replay_a_stopped_one_is_said_to_be_stopped(tmp_path: Path, runtime: Path) -> None:
    """Not to lack what it had not submitted when it last said so."""
    body = """
        print("pid", hvd.rank(), os.getpid(), flush=True)
        tensor, flag = ones(1000), zeros(1)
        while not flag.item():
            time.sleep(0.002)
            hvd.allreduce(tensor, name="step")
            flag[0] = hvd.rank() == 0 and os.path.exists("end")
            flag = hvd.allreduce(flag, name="flag", op=hvd.Sum)
        """
    with processes.launching(tmp_path, 2, HEAD + body) as job:
        statuses = target(job).watch(10)
        next(s for s in statuses if s["activity"] == "ACTIVITY_REPLAYING" and int(s["replay"]["ageMs"]) > 2000)
        stopped = dict(line.split() for line in job.lines("pid "))["1"]
        os.kill(int(stopped), signal.SIGSTOP)
        told = (s["waits"] for s in statuses if s["waits"] and not s["members"][1]["responsive"])
        (wait,) = next(told)
        assert wait["readyRanks"] == [0] and wait["missingRanks"] == [1], wait
        assert wait["text"].endswith("; rank 1 is stopped by a signal"), wait
        os.kill(int(stopped), signal.SIGCONT)
        (tmp_path / "end").touch()
        assert job.wait() == 0, job.report()


def test_in_a_replay_the_late_one_is_known_and_the_missing_one_is_named(tmp_path: Path, runtime: Path) -> None:
    body = """
        tensor, flag = ones(1000), zeros(1)
        while not flag.item():
            if hvd.rank() == 1:
                time.sleep(0.02)
                if os.path.exists("stop"):
                    until("go")
            hvd.allreduce(tensor, name="step")
            flag[0] = hvd.rank() == 0 and os.path.exists("end")
            flag = hvd.allreduce(flag, name="flag", op=hvd.Sum)
        """
    with processes.launching(tmp_path, 2, HEAD + body) as job:
        where = target(job)
        statuses = where.watch(10)
        settled = next(
            s for s in statuses if s["activity"] == "ACTIVITY_REPLAYING" and int(s["replay"]["ageMs"]) > 6000
        )
        early, late = (int(member["lateness"]["meanUs"]) for member in settled["members"])
        assert late > 5000 > early, settled["members"]
        assert settled["replay"]["tensors"] == 2 and int(settled["replay"]["repetitions"]) > 10
        (tmp_path / "stop").touch()
        status = next(s for s in statuses if s["waits"] and s["waits"][0]["kind"] == "WAIT_KIND_REPLAY")
        assert status["waits"][0]["readyRanks"] == [0] and status["waits"][0]["missingRanks"] == [1]
        sentence = r"rank 0 has been in batch \d of the replay; rank 1 lacks `\S*step`"
        assert re.search(sentence, status["waits"][0]["text"]), status["waits"]
        # Neither the wait nor anything before it has cost a message.
        assert status["activity"] == "ACTIVITY_REPLAYING" and status["replay"]["index"] == settled["replay"]["index"]
        assert status["traffic"]["messages"] == settled["traffic"]["messages"]
        (tmp_path / "go").touch()
        (tmp_path / "end").touch()
        assert job.wait() == 0, job.report()
