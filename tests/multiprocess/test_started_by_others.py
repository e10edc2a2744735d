"""Ranks that mpirun, torchrun or plain variables start: they find each other without a launcher of ours."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import sys
from pathlib import Path

import namespaces
import processes
import pytest

MPIRUN = shutil.which("mpirun")
SCRIPT = """
import os, sys, time
from farandole.process import basics as hvd
from farandole.session.init import init
init()
# One write, also where torchrun asks for no buffer: the other rank writes to the same file.
place = (hvd.rank(), hvd.size(), hvd.local_rank(), hvd.local_size(), hvd.cross_rank())
sys.stdout.write("rank " + " ".join(map(str, place)) + "\\n")
sys.stdout.flush()
"""


def script(folder: Path, body: str = "", head: str = SCRIPT) -> str:
    path = folder / "script.py"
    path.write_text(head + body)
    return str(path)


def mpirun(processes_: int, *command: str) -> list[str]:
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    return ["mpirun", *root, "--oversubscribe", "-np", str(processes_), *command]


needs_mpich = pytest.mark.skipif(
    not shutil.which("mpiexec.mpich"), reason="no mpiexec.mpich: scripts/install_deps.sh installs mpich"
)
needs_mpirun = pytest.mark.skipif(not MPIRUN, reason="no mpirun: scripts/install_deps.sh installs openmpi-bin")


@needs_mpirun
def test_mpirun_trains_the_digits(tmp_path: Path) -> None:
    example = [str(processes.ROOT / "examples" / "torch_digits.py"), "--epochs", "2"]
    with processes.running(mpirun(2, sys.executable, *example), tmp_path) as job:
        assert job.wait() == 0, job.report()
    assert "processes 2" in job.stdout, job.report()


def key_file(folder: Path) -> str:
    path = folder / "key"
    path.touch(0o600)
    path.write_text("0123456789abcdef" * 4)
    return str(path)


@needs_mpirun
@pytest.mark.parametrize(("worker", "line"), [("mpi_worker.py", "communicators"), ("parts_worker.py", "parts ")])
@pytest.mark.parametrize("hosts", ["one host", "as on several hosts"])
def test_parts_of_what_mpirun_has_started(tmp_path: Path, worker: str, line: str, hosts: str) -> None:
    command = [sys.executable, str(processes.ROOT / "tests" / "multiprocess" / worker)]
    more = {}
    if hosts != "one host":
        with socket.create_server(("127.0.0.1", 0)) as free:
            more["FARANDOLE_CONTROLLER"] = f"127.0.0.1:{free.getsockname()[1]}"
        more["FARANDOLE_KEY_FILE"] = key_file(tmp_path)
    with processes.running(mpirun(4, *command), tmp_path, more) as job:
        assert job.wait() == 0, job.report()
    assert job.stdout.count(line) == 4, job.report()


def test_mpi_knows_of_one_process_under_another_launcher(tmp_path: Path) -> None:
    body = """
        from mpi4py import MPI
        hvd.init()
        for call in (lambda: hvd.add_process_set(hvd.ProcessSet(MPI.COMM_WORLD)), lambda: hvd.init(MPI.COMM_WORLD)):
            try:
                call()
                raise AssertionError("no error")
            except ValueError as error:
                assert "start the job with mpirun" in str(error), error
                hvd.shutdown()
        print("told", flush=True)
        """
    with processes.launching(tmp_path, 2, body) as job:
        assert job.wait() == 0, job.report()
    assert len(job.lines("told")) == 2, job.report()


@needs_mpirun
def test_a_rank_of_mpirun_that_is_killed_is_named(tmp_path: Path) -> None:
    body = """
print("pid", os.getpid(), flush=True)
if hvd.rank() == 1:
    os.kill(os.getpid(), 9)
import light
try:
    light.allreduce(light.ones(1))
except Exception as error:
    print("told", error, flush=True)
"""
    # mpirun would end the others before they could say anything.
    keep = ["--mca", "orte_abort_on_non_zero_status", "0", "--mca", "orte_enable_recovery", "1"]
    command = mpirun(2, sys.executable, script(tmp_path, body))
    with processes.running([*command[:-4], *keep, *command[-4:]], tmp_path) as job:
        job.wait()
    # mpirun waits for its children, and may be quicker than the agent.
    how = re.compile(r"rank 1 \(pid \d+ on host \S+\) (ended without leaving|was killed by signal 9)")
    assert any(how.match(line) for line in job.lines("told ")), job.report()
    assert "starting it again" not in job.stderr, job.report()


@needs_mpich
def test_two_jobs_of_mpich_at_once(tmp_path: Path) -> None:
    """Nothing in the environment tells them apart."""
    command = ["mpiexec.mpich", "-n", "2", "sh", "-c", f"{sys.executable} {script(tmp_path)}"]
    with processes.running(command, tmp_path) as first, processes.running(command, tmp_path) as second:
        for job in (first, second):
            assert job.wait() == 0, job.report()
            assert sorted(job.lines("rank ")) == ["0 2 0 2 0", "1 2 1 2 0"], job.report()


@pytest.mark.parametrize(
    "family",
    [
        ("HOROVOD_RANK", "HOROVOD_SIZE", {"HOROVOD_LOCAL_RANK": "{}", "HOROVOD_LOCAL_SIZE": "2"}),
        (
            "RANK",
            "WORLD_SIZE",
            {"LOCAL_WORLD_SIZE": "2", "LOCAL_RANK": "{}", "MASTER_ADDR": "a", "MASTER_PORT": "29511"},
        ),
        ("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", {"MV2_COMM_WORLD_LOCAL_SIZE": "2"}),
        ("FLUX_TASK_RANK", "FLUX_JOB_SIZE", {"FLUX_JOB_NNODES": "1", "FLUX_JOB_ID": "f7", "FLUX_TASK_LOCAL_ID": "{}"}),
    ],
    ids=["horovod", "torch", "mvapich2", "flux"],
)
def test_variables_of_others_set_by_hand(tmp_path: Path, family: tuple[str, str, dict[str, str]]) -> None:
    rank, size, more = family

    def variables(number: str) -> dict[str, str]:
        return {rank: number, size: "2", **{name: value.format(number) for name, value in more.items()}}

    command = [sys.executable, script(tmp_path)]
    with processes.running(command, tmp_path, variables("0")) as first:
        with processes.running(command, tmp_path, variables("1")) as second:
            assert second.wait() == 0 and first.wait() == 0, first.report() + second.report()
    assert first.lines("rank ") == ["0 2 0 2 0"] and second.lines("rank ") == ["1 2 1 2 0"]


@pytest.mark.parametrize(
    "variables",
    [
        {"PMI_SIZE": "2"},
        {"RANK": "0", "WORLD_SIZE": "2"},
        {"HOROVOD_RANK": "1"},
        {"SLURM_PROCID": "0", "SLURM_STEP_ID": "0", "SLURM_NTASKS": "2"},
    ],
)
def test_nobody_trains_alone_by_mistake(tmp_path: Path, variables: dict[str, str]) -> None:
    with processes.running([sys.executable, script(tmp_path)], tmp_path, variables) as job:
        assert job.wait() == 1, job.report()
    assert not job.lines("rank ") and "if this one is to train alone" in job.stderr, job.report()


def test_torchrun(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", "0"]
    with processes.running([*command, script(tmp_path)], tmp_path) as job:
        assert job.wait() == 0, job.report()
    assert sorted(job.lines("rank ")) == ["0 2 0 2 0", "1 2 1 2 0"], job.report()


def plain(rank: int, size: int, **more: str) -> dict[str, str]:
    return {"FARANDOLE_RANK": str(rank), "FARANDOLE_SIZE": str(size), **more}


def test_plain_variables_and_again_at_once(tmp_path: Path) -> None:
    """The second job of the same name begins while the keeper of the first may still be ending."""
    command, job = [sys.executable, script(tmp_path)], str(tmp_path)
    for _ in range(3):
        with processes.running(command, tmp_path, plain(0, 2, FARANDOLE_JOB=job)) as first:
            with processes.running(command, tmp_path, plain(1, 2, FARANDOLE_JOB=job)) as second:
                assert second.wait() == 0, second.report()
            assert first.wait() == 0, first.report()
        assert first.lines("rank ") == ["0 2 0 2 0"] and second.lines("rank ") == ["1 2 1 2 0"]


def test_two_hosts_with_a_key_file(tmp_path: Path) -> None:
    reason = namespaces.why_not()
    if reason:
        pytest.skip(reason)
    more = {"FARANDOLE_KEY_FILE": key_file(tmp_path), "FARANDOLE_CONTROLLER": "10.77.0.1:4711"}
    body = """
import light
total = light.allreduce(light.full((1000,), hvd.rank() + 1.0), op=light.Sum)
assert total.tolist() == [3.0] * 1000, total
print("at", os.environ["FARANDOLE_AGENT_SOCKET"], flush=True)
"""
    network = namespaces.Network(2)
    try:
        command = [sys.executable, script(tmp_path, body)]
        with processes.running(network.hosts[0].command(*command), tmp_path, plain(0, 2, **more)) as first:
            with processes.running(network.hosts[1].command(*command), tmp_path, plain(1, 2, **more)) as second:
                assert second.wait() == 0, second.report()
                assert first.wait() == 0, first.report()
                assert first.lines("at ") != second.lines("at ")
            assert (first.lines("rank "), second.lines("rank ")) == (["0 2 0 1 0"], ["1 2 0 1 1"])
    finally:
        network.end()


@pytest.mark.parametrize(
    ("mode", "content", "sentence"),
    [
        (0o644, "0123456789abcdef" * 4, "has mode 644; others may read it: chmod 600"),
        (0o600, "short", "holds 5 characters, too few for a secret"),
        (None, "", "No such file"),
    ],
)
def test_key_files_that_are_refused(tmp_path: Path, mode: int | None, content: str, sentence: str) -> None:
    key = tmp_path / "key"
    if mode is not None:
        key.write_text(content)
        key.chmod(mode)
    more = {"FARANDOLE_KEY_FILE": str(key), "FARANDOLE_CONTROLLER": "127.0.0.1:1"}
    with processes.running([sys.executable, script(tmp_path)], tmp_path, plain(1, 2, **more)) as job:
        assert job.wait() == 1, job.report()
        processes.wait_until_gone(job.mark, 15.0)
    assert f"FARANDOLE_KEY_FILE={key}" in job.stderr and sentence in job.stderr, job.report()


def test_a_process_that_dies_first_leaves_nothing(tmp_path: Path) -> None:
    """The one that started the keeper; the other waits in init() as it would for any rank that does not come."""
    path = script(tmp_path)
    more = {"FARANDOLE_JOB": str(tmp_path), "FARANDOLE_START_TIMEOUT": "60"}
    with processes.running([sys.executable, path], tmp_path, plain(0, 2, **more)) as job:
        job.wait_for(lambda: any("agent" in processes.command_line(pid) for pid in processes.marked(job.mark)), "agent")
        os.kill(job.process.pid, signal.SIGKILL)
        assert job.wait() == -signal.SIGKILL
