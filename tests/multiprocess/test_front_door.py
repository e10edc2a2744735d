"""Nobody without a token costs a job more than a connection for a few seconds."""

from __future__ import annotations

import hmac
import secrets
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc
import processes
import pytest
from job_parts import kill, pids, wait_for_attached

from farandole.launch.status import job_files

# Of a step, while somebody attacks.
STEP_MAX_MS = 1000.0
ATTACK_S = 6.0
# What many containers give a process.
DESCRIPTORS = ["prlimit", "--nofile=1024:1024"]
STEPS = """
        hvd.init()
        os.write(1, b"pid %d %d\\n" % (hvd.rank(), os.getpid()))
        count = 0
        while True:
            begun = time.monotonic()
            count += 1
            end = tensor([float(os.path.exists("end"))])
            name = "same" if sys.argv[1] == "replayed" else f"tensor {count}"
            end = hvd.allreduce(end, op=hvd.Max, name=name)
            if hvd.rank() == 0:
                os.write(1, b"step %f\\n" % (1000 * (time.monotonic() - begun)))
            if end.item():
                break
            time.sleep(0.02)
        hvd.shutdown()
        """


@contextmanager
def stepping(folder: Path, kind: str) -> Iterator[processes.Job]:
    """A job that makes steps until there is a file `end`."""
    command = [sys.executable, str(processes.script_file(folder, STEPS)), kind]
    with processes.running([*DESCRIPTORS, *processes.launch_command(2, *command)], folder) as job:
        job.wait_for(lambda: len(job.lines("step ")) >= 20, "the first steps")
        yield job
        (folder / "end").touch()
        assert job.wait() == 0, job.report()
        times = [float(ms) for ms in job.lines("step ")[20:]]
        assert max(times) < STEP_MAX_MS, (max(times), job.report())


def file_of(job: processes.Job) -> job_files.JobFile:
    (file,) = [file for file in job_files.read_all() if file.pid == job.process.pid]
    return file


def port_of(job: processes.Job) -> int:
    return int(file_of(job).controller.rpartition(":")[2])


@contextmanager
def strangers(job: processes.Job, kind: str, seconds: float) -> Iterator[subprocess.Popen]:
    """Under way; ended at the end."""
    script = processes.ROOT / "tests" / "strangers.py"
    command = [
        *DESCRIPTORS[:1],
        "--nofile=2048:4096",
        sys.executable,
        str(script),
        kind,
        str(port_of(job)),
        str(seconds),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline() == "ready\n"
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("kind", ["negotiated", "replayed"])
@pytest.mark.parametrize("attack", ["headers", "calls"])
def test_training_beside_strangers(tmp_path: Path, attack: str, kind: str) -> None:
    with stepping(tmp_path, kind) as job:
        before = len(job.lines("step "))
        with strangers(job, attack, ATTACK_S) as process:
            assert process.wait(processes.TIMEOUT_S) == 0
            assert int(process.stdout.read().split()[0]) > 0
        assert len(job.lines("step ")) > before + 20, job.report()


def test_agents_come_back_beside_more_connections_than_descriptors(tmp_path: Path) -> None:
    with stepping(tmp_path, "negotiated") as job:
        pid = list(pids(job, 2).values())
        with strangers(job, "idle", processes.TIMEOUT_S):
            kill(job, "agent")
            wait_for_attached(job, pid)
            before = len(job.lines("step "))
            job.wait_for(lambda: len(job.lines("step ")) > before + 10, "steps beside idle connections")
        kill(job, "agent")
        wait_for_attached(job, pid)
        before = len(job.lines("step "))
        job.wait_for(lambda: len(job.lines("step ")) > before + 10, "steps after the idle connections")


def ask(address: str, job: str, token: str) -> bytes:
    """What GetJob answers an ordinary client, whose proxy variables are set as docs/status.md says."""
    with grpc.insecure_channel(address) as channel:
        call = channel.unary_unary("/farandole.v1.Status/GetJob")
        return call(b"", metadata=[("farandole-job", job), ("authorization", f"Bearer {token}")], timeout=20)


def test_an_ordinary_client_asks_with_an_observers_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("no_proxy", "no_grpc_proxy", "http_proxy", "https_proxy", "grpc_proxy"):
        monkeypatch.delenv(name, raising=False)
    with stepping(tmp_path, "negotiated") as job:
        file = file_of(job)
        with pytest.raises(grpc.RpcError) as without:
            ask(file.controller, file.job, file.token)
        assert without.value.code() == grpc.StatusCode.UNAVAILABLE
        nonce = secrets.token_hex(16)
        password = nonce + "." + hmac.new(file.token.encode(), f"door/{nonce}".encode(), "sha256").hexdigest()
        monkeypatch.setenv("grpc_proxy", f"http://{file.job}:{password}@{file.controller}")
        # Each with a connection of its own.
        for _ in range(2):
            assert file.job.encode() in ask(file.controller, file.job, file.token)
