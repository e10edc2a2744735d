"""What `farandole status` says before, while and after an agent or a controller is away."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import processes
import pytest
from job_parts import UNTIL_GO, part, pids, wait_for_another

from farandole.launch.status import job_files, query

COMMAND = [sys.executable, "-m", "farandole", "status"]


@pytest.fixture(autouse=True)
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only this test's jobs are shown."""
    (tmp_path / "runtime").mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "runtime"))


@contextmanager
def training(folder: Path) -> Iterator[tuple[processes.Job, query.Target, dict[int, int]]]:
    """Two ranks that train until the body has ended; the job, its controller, the ranks' processes."""
    with processes.launching(folder, 2, UNTIL_GO) as job:
        pid = pids(job, 2)
        (file,) = job_files.read_all()
        yield job, query.Target(file.job, file.controller, token=file.token), pid
        (folder / "go").touch()
        assert job.wait() == 0, job.report()


@contextmanager
def away(job: processes.Job, name: str) -> Iterator[None]:
    """Without a controller or an agent: the launcher, which is stopped meanwhile, starts another one after that."""
    old = part(job, name)
    job.process.send_signal(signal.SIGSTOP)
    os.kill(old, signal.SIGKILL)
    yield
    job.process.send_signal(signal.SIGCONT)
    wait_for_another(job, name, old)


def check(status: dict, pid: dict[int, int], generation: dict) -> None:
    """The job runs as it did."""
    assert status["state"] == "JOB_STATE_RUNNING" and status["generation"] == generation, status
    assert {m["member"]["rank"]: int(m["member"]["pid"]) for m in status["members"]} == pid, status


def all_respond(status: dict) -> bool:
    return all(member["responsive"] for member in status["members"])


def none_responds(status: dict) -> bool:
    return not any(member["responsive"] for member in status["members"])


def test_while_the_agent_is_away(tmp_path: Path) -> None:
    with training(tmp_path) as (job, target, pid):
        before = target.get()
        assert all_respond(before)
        check(before, pid, before["generation"])
        with away(job, "agent"):
            during = job.wait_for(lambda: none_responds(target.get()) and target.get(), "the loss of the agent")
            check(during, pid, before["generation"])
            for member in during["members"]:
                assert re.fullmatch(r"the connection of the agent on host \S+ was lost \d+ s ago", member["cause"])
        after = job.wait_for(lambda: all_respond(target.get()) and target.get(), "the new agent")
        check(after, pid, before["generation"])


def test_a_rank_that_stopped_before_and_runs_after(tmp_path: Path) -> None:
    with training(tmp_path) as (job, target, pid):
        generation = target.get()["generation"]
        os.kill(pid[1], signal.SIGSTOP)
        stopped = job.wait_for(lambda: not all_respond(target.get()) and target.get(), "the stop to be noticed")
        assert [member["cause"] for member in stopped["members"]] == ["", "is stopped by a signal"]
        with away(job, "agent"):
            os.kill(pid[1], signal.SIGCONT)
        after = job.wait_for(lambda: all_respond(target.get()) and target.get(), "the new agent")
        check(after, pid, generation)


def test_while_the_controller_is_away(tmp_path: Path) -> None:
    with training(tmp_path) as (job, target, pid):
        generation = target.get()["generation"]
        with away(job, "controller"):
            with processes.running(COMMAND, tmp_path) as shown:
                assert shown.wait() == 1, shown.report()
            sentence = f"the controller at {target.controller} does not answer"
            assert sentence in shown.stdout + shown.stderr, shown.report()
        after = job.wait_for(lambda: runs_again(target), "all ranks to register")
        check(after, pid, generation)
        assert all_respond(after)


def runs_again(target: query.Target) -> dict | None:
    """None while nobody answers, no agent has come back yet, or members have not registered."""
    try:
        status = target.get()
    except query.QueryError as error:
        assert error.code in (query.NO_ANSWER, query.NO_JOB), error
        return None
    return status if status["state"] == "JOB_STATE_RUNNING" and all_respond(status) else None
