from __future__ import annotations

import hashlib
import hmac
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import processes
import pytest

from farandole.launch import cli
from farandole.launch.processes import child, tokens
from farandole.launch.settings import settings

COMMAND = [sys.executable, "-m", "farandole", "run"]
HOROVODRUN = [
    sys.executable,
    "-c",
    "import sys; from farandole.launch.cli import horovodrun; sys.exit(horovodrun.main())",
]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["-np", "0", "python"], "'0' is not a number of processes"),
        (["-np", "x", "python"], "'x' is not a number of processes"),
        (["-np", "-3", "python"], "argument -np/--num-proc"),
        (["-np", "2"], "no command given"),
        (["-np", "2", "--"], "no command given"),
        (["true"], "-np/--num-proc"),
        (["-np", "2", "no-such-command"], "command 'no-such-command' was not found on the PATH"),
        (["-np", "2", "./no/such/file"], "command './no/such/file' is not an executable file"),
        (["-np", "2", "--start-timeout", "0", "python"], "'0' is not a positive number"),
        (["-np", "2", "--fusion-threshold-mb", "-1", "true"], "'-1' is not a whole number between 0 and 65536"),
        (["-np", "2", "--no-such-option", "python"], "--no-such-option"),
    ],
)
def test_usage_errors(tmp_path: Path, arguments: list[str], sentence: str) -> None:
    with processes.Stopwatch() as watch, processes.running([*COMMAND, *arguments], tmp_path) as job:
        assert job.wait() == 2, job.report()
        assert watch.seconds < 1
    assert sentence in job.stderr
    assert job.stdout == ""


@pytest.mark.parametrize(("command", "name"), [(COMMAND, "farandole run"), (HOROVODRUN, "horovodrun")])
@pytest.mark.parametrize("elastic", [[], ["--min-np", "1"]])
def test_missing_binaries_are_named(tmp_path: Path, command: list[str], name: str, elastic: list[str]) -> None:
    variables = {"FARANDOLE_BIN_DIR": str(tmp_path)}
    with processes.running([*command, "-np", "1", *elastic, "true"], tmp_path, variables) as job:
        assert job.wait() == 1
    sentence = f"{name}: farandole-controller was not found at {tmp_path}/farandole-controller; install"
    assert job.stderr.startswith(sentence), job.stderr


def test_controller_that_does_not_start_is_reported(tmp_path: Path) -> None:
    for name, body in (("farandole-controller", "exit 7"), ("farandole-agent", "exit 0")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / name).chmod(0o755)
    with processes.running([*COMMAND, "-np", "1", "true"], tmp_path, {"FARANDOLE_BIN_DIR": str(tmp_path)}) as job:
        assert job.wait() == 1
    assert "the controller (pid " in job.stderr and "exited with code 7" in job.stderr


def test_options() -> None:
    parsed = cli.parse(
        ["run", "-np", "2", "--start-timeout", "5", "--fusion-threshold-mb", "3", "sh", "-c", "x", "--verbose"]
    )
    tunables = {"FUSION_THRESHOLD": str(3 << 20)}
    assert parsed == settings.Settings(2, ("sh", "-c", "x", "--verbose"), start_timeout_s=5.0, tunables=tunables)
    environment = parsed.environment(
        {"FARANDOLE_RANK": "1", "HOROVOD_SIZE": "9", "KEPT": "1", "FARANDOLE_FUSION_THRESHOLD": "1"}, cores=9
    )
    assert environment == {
        "KEPT": "1",
        "OMP_NUM_THREADS": "4",
        "HOROVOD_START_TIMEOUT": "5",
        "HOROVOD_FUSION_THRESHOLD": str(3 << 20),
    }
    assert cli.parse(["run", "--num-proc", "1", "--", "sh"]).command == ("sh",)
    assert parsed.environment({"OMP_NUM_THREADS": "7"}, cores=9)["OMP_NUM_THREADS"] == "7"


def test_threads_per_process() -> None:
    assert [settings.threads_per_process(8, n) for n in (1, 2, 3, 8, 9)] == [8, 4, 2, 1, 1]
    assert 1 <= settings.allowed_cores() <= len(os.sched_getaffinity(0))


def test_token() -> None:
    expected = hmac.new(b"00ff", b"job/member", hashlib.sha256).hexdigest()
    assert tokens.member_token("00ff", "job") == expected
    assert tokens.member_token("00ff\nthe old one", "job") == expected
    reader = tokens.pipe_with("secret")
    assert os.read(reader, 100) == b"secret" and os.read(reader, 100) == b""
    os.close(reader)


def test_leftovers_of_a_job_are_ended() -> None:
    job = f"test-{os.getpid()}"
    environment = {**os.environ, "FARANDOLE_JOB": job}
    left = subprocess.Popen(["sleep", "600"], env=environment)
    other = subprocess.Popen(["sleep", "600"], env={**os.environ, "FARANDOLE_JOB": f"{job}0"})
    try:
        deadline = time.monotonic() + 10
        while child.processes_of(f"FARANDOLE_JOB={job}") != [left.pid] and time.monotonic() < deadline:
            time.sleep(0.01)
        assert child.processes_of(f"FARANDOLE_JOB={job}") == [left.pid]
        child.end_leftovers(f"FARANDOLE_JOB={job}", rounds=1)
        assert left.wait(10) == -signal.SIGKILL
        assert other.poll() is None
    finally:
        for process in (left, other):
            process.kill()
            process.wait()
