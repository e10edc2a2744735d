"""A table of schedules that `farandole-perf tune` has written, in a job over TCP."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import processes
import pytest

COMMAND = [sys.executable, "-m", "farandole", "run", "-np", "2"]
PERF = processes.ROOT / "bazel-bin" / "perf" / "farandole-perf"
# Rank 1 has another table when it is given one.
SCRIPT = """
    if os.environ.get("OTHER_TABLE") and os.environ["FARANDOLE_RANK"] == "1":
        os.environ["FARANDOLE_SCHEDULE_TABLE"] = os.environ["OTHER_TABLE"]
    hvd.init()
    for count in (1, 1000, 300000):
        x = torch.arange(count, dtype=torch.float32)
        assert torch.equal(hvd.allreduce(x, op=hvd.Sum, name=f"x{count}"), 2 * x)
    print("summed")
    hvd.shutdown()
"""


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tune") / "table.txt"
    command = [str(PERF), "tune", "--out", str(path), "--ranks", "2", "--bytes-max", "16384", "--rounds", "2"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=processes.TIMEOUT_S)
    assert done.returncode == 0, done.stderr
    assert done.stdout == path.read_text() and "# allreduce, 2 members" in done.stdout
    assert f"FARANDOLE_SCHEDULE_TABLE={path}" in done.stderr
    return path


@pytest.mark.parametrize(
    ("arguments"),
    [
        ["--ranks", "1"],
        ["--ranks", "4,2"],
        ["--ranks", "65"],
        ["--rounds", "0"],
        ["--bytes-max"],
        ["--songs", "3"],
        ["--transport", "pigeon"],
    ],
)
def test_usage_errors(arguments: list[str]) -> None:
    done = subprocess.run([str(PERF), "tune", *arguments], capture_output=True, text=True, timeout=processes.TIMEOUT_S)
    assert done.returncode == 2 and "farandole-perf tune --help says" in done.stderr


@pytest.mark.parametrize("command", [[], ["control"], ["tune"]])
def test_help_and_version_are_no_errors(command: list[str]) -> None:
    for option, answer in (("--help", "usage: farandole-perf"), ("--version", "farandole-perf")):
        words = [str(PERF), *command, option]
        done = subprocess.run(words, capture_output=True, text=True, timeout=processes.TIMEOUT_S)
        assert done.returncode == 0 and done.stdout.startswith(answer)


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    command = [str(PERF), "tune", "--out", str(tmp_path / "no" / "file"), "--ranks", "2", "--bytes-max", "1024"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=processes.TIMEOUT_S)
    assert done.returncode == 1 and f"cannot write {tmp_path}/no/file" in done.stderr


def run(tmp_path: Path, **variables: str) -> tuple[int, str, str]:
    script = processes.script_file(tmp_path, SCRIPT)
    environment = {"FARANDOLE_COMMUNICATOR": "tcp", **variables}
    with processes.running([*COMMAND, sys.executable, str(script)], tmp_path, environment) as job:
        return job.wait(), job.stdout, job.stderr


def test_a_job_uses_the_table(tmp_path: Path, table: Path) -> None:
    code, said, errors = run(tmp_path, FARANDOLE_SCHEDULE_TABLE=str(table))
    assert code == 0 and said.count("summed") == 2, errors


def test_members_with_other_tables_refuse_one_another(tmp_path: Path, table: Path) -> None:
    other = tmp_path / "other.txt"
    other.write_text("".join(line for line in table.read_text().splitlines(keepends=True) if line[0] == "#"))
    code, _, errors = run(tmp_path, FARANDOLE_SCHEDULE_TABLE=str(table), OTHER_TABLE=os.fspath(other))
    assert code != 0 and "same settings of the data plane (FARANDOLE_SCHEDULE_TABLE" in errors, errors
