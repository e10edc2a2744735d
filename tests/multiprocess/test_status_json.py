"""`farandole status --json`: what the status service answers over gRPC, for every reader of proto3 JSON."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import processes
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory

from farandole.launch.status import job_files

COMMAND = [sys.executable, "-m", "farandole", "status"]
# One rank waits for the other, so that there is something in most fields.
WAITS = """
        hvd.init()
        hvd.allreduce(ones(1), name="first")
        if hvd.rank() == 1:
            while not os.path.exists("go"):
                time.sleep(0.01)
        hvd.allreduce(ones(1), name='of "all", übrig')
        """


@pytest.fixture(autouse=True)
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only this test's jobs are shown."""
    (tmp_path / "runtime").mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "runtime"))


@pytest.fixture
def job_status(tmp_path: Path) -> Any:
    """The message JobStatus of our .proto files; the stubs for the example lie beside it in `tmp_path`."""
    command = [sys.executable, "-m", "grpc_tools.protoc", "-I", str(processes.ROOT / "proto"), "--include_imports"]
    command += [f"--{kind}={tmp_path}" for kind in ("python_out", "grpc_python_out")]
    command += [f"--descriptor_set_out={tmp_path / 'set'}", "farandole/v1/types.proto", "farandole/v1/status.proto"]
    subprocess.run(command, check=True)
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString((tmp_path / "set").read_bytes()).file:
        pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("farandole.v1.JobStatus"))


def steady(status: Any) -> Any:
    """Without what changes from one call to the next while nothing happens in the job."""
    for name in ("batches_per_second", "tensors_per_second", "bytes_per_second"):
        status.ClearField(name)
    for member in status.members:
        member.ClearField("report_age_ms")
    for wait in status.waits:
        wait.ClearField("age_ms")
        wait.ClearField("text")  # begins with the age
    return status


def output(command: list[str], folder: Path) -> str:
    with processes.running(command, folder) as job:
        assert job.wait() == 0, job.report()
    return job.stdout


def waits(folder: Path) -> bool:
    """Whether the wait is shown. Before the agent has connected there is no answer."""
    with processes.running(COMMAND, folder) as job:
        return job.wait() == 0 and "has waited for rank 1 with" in job.stdout


def test_it_is_the_answer_of_the_service(tmp_path: Path, job_status: Any) -> None:
    example = [sys.executable, str(processes.ROOT / "examples" / "query_controller.py"), "--stubs", str(tmp_path)]

    def parsed(command: list[str]) -> Any:
        return steady(json_format.Parse(output(command, tmp_path), job_status()))

    with processes.launching(tmp_path, 2, WAITS) as job:
        job.wait_for(lambda: waits(tmp_path), "the wait")
        (file,) = job_files.read_all()
        service = [*example, os.path.join(job_files.folder(), file.job)]

        def ask() -> list[Any]:
            """Three answers, of which the service gives the first and the last; none if a report came in between."""
            answers = [parsed(service), parsed([*COMMAND, "--json"]), parsed(service)]
            return answers if answers[0] == answers[2] and answers[0].traffic.bytes else []

        asked, shown, _ = job.wait_for(ask, "the last report of what the ranks have counted")
        with processes.running([*COMMAND, file.job, "--watch", "--json"], tmp_path) as watch:
            watch.wait_for(lambda: "\n" in watch.stdout, "a line")
            (tmp_path / "go").touch()
            assert job.wait() == 0 and watch.wait() == 0, job.report() + watch.report()
    assert shown == asked
    assert shown.generation.controller_incarnation > 2**53, "a number that a double does not hold"
    assert shown.waits[0].names[0].endswith('of "all", übrig') and list(shown.waits[0].missing_ranks) == [1]
    watched = [json_format.Parse(line, job_status()) for line in watch.stdout.splitlines()]
    assert {status.generation.controller_incarnation for status in watched} == {shown.controller_incarnation}
    assert watched[0].waits[0].names == shown.waits[0].names


def test_one_line_for_each_job_and_a_sentence_for_one_that_does_not_answer(tmp_path: Path, job_status: Any) -> None:
    with processes.launching(tmp_path, 2, WAITS) as job:
        job.wait_for(lambda: waits(tmp_path), "the wait")
        (file,) = job_files.read_all()
        job_files.write("run-gone", "127.0.0.1:1", "secret", 1, ["x"])
        try:
            with processes.running([*COMMAND, "--json"], tmp_path) as both:
                assert both.wait() == 1, both.report()
        finally:
            job_files.remove("run-gone")
        (tmp_path / "go").touch()
        assert job.wait() == 0, job.report()
    assert json_format.Parse(both.stdout, job_status()).job == file.job
    assert "farandole status: run-gone: the controller at 127.0.0.1:1 does not answer" in both.stderr
