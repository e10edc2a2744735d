"""Parts of what was started together as jobs of their own, on hosts that are network namespaces."""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import namespaces
import processes
import pytest
import ssh_hosts

_REASON = namespaces.why_not()
pytestmark = pytest.mark.skipif(bool(_REASON), reason=_REASON or "namespaces can be made")

WORKER = [sys.executable, str(processes.ROOT / "tests" / "multiprocess" / "parts_worker.py"), "2", "2"]
PORT = 4711
# Of an init() that somebody waits in, and of a controller for the processes of other parts that may still come.
START_S = 10
HEAD = """
import os, sys, time
import light as hvd

RANK = int(os.environ["FARANDOLE_RANK"])

def step():
    return hvd.allreduce(hvd.tensor([float(RANK)]), op=hvd.Sum).item()
"""


@pytest.fixture(scope="module")
def network() -> Iterator[namespaces.Network]:
    network = namespaces.Network(2)
    yield network
    network.end()


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ssh_hosts.SshHosts]:
    reason = ssh_hosts.why_not()
    if reason:
        pytest.skip(reason)
    with ssh_hosts.ssh_hosts(tmp_path_factory.mktemp("hosts"), 1) as found:
        yield found


def script(folder: Path, body: str) -> list[str]:
    path = folder / "script.py"
    path.write_text(HEAD + body)
    return [sys.executable, str(path)]


@contextmanager
def plain(network: namespaces.Network, folder: Path, command: list[str]) -> Iterator[list[processes.Job]]:
    """Four processes, ranks 0 and 1 on one host, 2 and 3 on the other; no launcher but their variables."""
    key = folder / "key"
    key.touch(0o600)
    key.write_text("0123456789abcdef" * 4)
    common = {
        "FARANDOLE_SIZE": "4",
        "FARANDOLE_LOCAL_SIZE": "2",
        "FARANDOLE_JOB": folder.name,
        "FARANDOLE_CONTROLLER": f"{network.address(0)}:{PORT}",
        "FARANDOLE_KEY_FILE": str(key),
        "FARANDOLE_START_TIMEOUT": str(START_S),
    }
    with ExitStack() as stack:
        jobs: list[processes.Job] = []
        for rank in range(4):
            variables = {**common, "FARANDOLE_RANK": str(rank), "FARANDOLE_LOCAL_RANK": str(rank % 2)}
            host = network.hosts[rank // 2]
            jobs.append(stack.enter_context(processes.running(host.command(*command), folder, variables)))
        yield jobs
        # The controller of a part may wait for those of others.
        for job in jobs:
            job.wait()
        for job in jobs:
            processes.wait_until_gone(job.mark, 2 * START_S)


def report(jobs: list[processes.Job]) -> str:
    return "\n".join(f"=== {number}\n{job.report()}" for number, job in enumerate(jobs))


def test_parts_of_plain_processes(network: namespaces.Network, tmp_path: Path) -> None:
    with plain(network, tmp_path, WORKER) as jobs:
        codes = [job.wait() for job in jobs]
        assert codes == [0] * 4 and all(job.lines("parts ") for job in jobs), report(jobs)


def test_parts_under_our_launcher(hosts: ssh_hosts.SshHosts, tmp_path: Path) -> None:
    command = hosts.launch("-H", "localhost:2,node1:2", *WORKER)
    with processes.running(command, tmp_path, {"FARANDOLE_SSH": hosts.ssh}) as job:
        assert job.wait() == 0, job.report()
    assert len(job.lines("parts ")) == 4, job.report()
    assert "starting it again" not in job.stderr, job.report()


def test_rank_0_never_calls_init(network: namespaces.Network, tmp_path: Path) -> None:
    body = """
if RANK > 0:
    try:
        hvd.init(comm=[1, 2, 3])
    except hvd.InitializationError as error:
        print("told", error, flush=True)
"""
    with plain(network, tmp_path, script(tmp_path, body)) as jobs:
        assert [job.wait(3 * START_S + processes.TIMEOUT_S) for job in jobs] == [0] * 4, report(jobs)
    told = [line for job in jobs for line in job.lines("told ")]
    sentence = "no connection to the controller at 10.77.0.1:4711.*the process of rank 0 starts the controller at "
    assert len(told) == 3 and all(re.search(f"{sentence}10.77.0.1:4711 when it calls", line) for line in told), told


def test_the_controller_outlives_rank_0(network: namespaces.Network, tmp_path: Path) -> None:
    """Those of the other part do not even call init() before rank 0 has ended, and go on for long after that."""
    go, done = tmp_path / "go", tmp_path / "done"
    body = f"""
if RANK == 0:
    hvd.init(comm=[0])
    sys.exit()
while not os.path.exists({str(go)!r}):
    time.sleep(0.01)
hvd.init(comm=[1, 2, 3])
for number in range(10**9):
    assert step() == 6.0
    if hvd.rank() == 0 and number % 20 == 0:
        print("step", number, flush=True)
    if hvd.allreduce(hvd.tensor([float(os.path.exists({str(done)!r}))]), op=hvd.Max).item():
        break
hvd.shutdown()
hvd.init(comm=[3, 2, 1])
assert step() == 6.0
"""
    with plain(network, tmp_path, script(tmp_path, body)) as jobs:
        assert jobs[0].wait() == 0, report(jobs)
        go.touch()
        jobs[1].wait_for(lambda: jobs[1].lines("step "), "a step")
        ended = time.monotonic()
        # Longer than it waits for others that might come.
        jobs[1].wait_for(lambda: time.monotonic() > ended + START_S + 2, "some time")
        before = len(jobs[1].lines("step "))
        jobs[1].wait_for(lambda: len(jobs[1].lines("step ")) > before + 2, "further steps")
        done.touch()
        assert [job.wait() for job in jobs] == [0] * 4, report(jobs)


def test_the_end_of_the_launcher_ends_its_parts(hosts: ssh_hosts.SshHosts, tmp_path: Path) -> None:
    """And what they know of the controller is no secret of a command line or an environment."""
    body = """
hvd.init(comm=[[0, 2], [1, 3]][RANK % 2])
while True:
    step()
    print("step", RANK, flush=True)
    time.sleep(0.02)
"""
    command = hosts.launch("-H", "localhost:2,node1:2", *script(tmp_path, body))
    with processes.running(command, tmp_path, {"FARANDOLE_SSH": hosts.ssh}) as job:
        job.wait_for(lambda: all(job.lines(f"step {rank}") for rank in range(4)), "steps of all")
        ours = [pid for pid in processes.marked(job.mark) if "farandole" in processes.command_line(pid)]
        assert sum("farandole.launch.keeper.keeper" in processes.command_line(pid) for pid in ours) == 4, job.report()
        for pid in ours:
            text = processes.command_line(pid) + Path(f"/proc/{pid}/environ").read_text()
            assert not re.search(r"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])", text) and "BEGIN CERT" not in text, text
        os.kill(job.process.pid, signal.SIGKILL)
        job.wait()
        assert not processes.wait_until_gone(job.mark, START_S), job.report()
