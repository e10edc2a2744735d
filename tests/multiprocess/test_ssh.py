"""Jobs on hosts that the launcher reaches by ssh: a real sshd in each of several network namespaces."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import processes
import pytest
import ssh_hosts

_REASON = ssh_hosts.why_not()
pytestmark = pytest.mark.skipif(bool(_REASON), reason=_REASON or "sshd is here")

# Of the other hosts, from the first failure on.
END_S = 15.0
# No framework: what is tried is who starts, finds and ends whom.
SCRIPT = """
import os, signal, socket, sys, time
from farandole.process import basics as hvd
from farandole.session.init import init
init()
print("rank", hvd.rank(), socket.gethostname(), os.getpid(), hvd.local_rank(), hvd.cross_rank(), flush=True)
"""


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ssh_hosts.SshHosts]:
    with ssh_hosts.ssh_hosts(tmp_path_factory.mktemp("hosts"), 2) as found:
        yield found


def script(folder: Path, body: str, head: str = SCRIPT) -> list[str]:
    path = folder / "script.py"
    path.write_text(head + body)
    return [sys.executable, str(path)]


def ranks(job: processes.Job, count: int) -> dict[int, tuple[str, int]]:
    """Host and pid by rank, once all have said theirs."""
    job.wait_for(lambda: len(job.lines("rank ")) >= count, f"{count} ranks")
    return {int(words[0]): (words[1], int(words[2])) for words in map(str.split, job.lines("rank "))}


def gone(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists() or Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z"


def children_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def named(pids: list[int], word: str) -> int:
    (found,) = [pid for pid in pids if word in processes.command_line(pid)]
    return found


def test_ranks_data_and_output_files(hosts: ssh_hosts.SshHosts, tmp_path: Path) -> None:
    body = """
import torch, farandole.torch
total = farandole.torch.allreduce(torch.full((1000,), float(hvd.rank())), op=farandole.torch.Sum)
assert total.tolist() == [6.0] * 1000, total
assert os.environ["FROM_LAUNCHER"] == "kept" and not any("TOKEN" in name for name in os.environ)
places = [os.environ[f"HOROVOD_{name}"] for name in ("LOCAL_RANK", "LOCAL_SIZE", "CROSS_RANK", "CROSS_SIZE")]
print("place", hvd.rank(), hvd.local_rank(), hvd.local_size(), hvd.cross_rank(), hvd.cross_size(), flush=True)
assert places[:3] == [str(n) for n in (hvd.local_rank(), hvd.local_size(), hvd.cross_rank())], places
assert places[3] == str(hvd.cross_size()), places
"""
    command = hosts.launch("-H", "node1:2,localhost:1,node2:1", "--output-filename", "out", *script(tmp_path, body))
    with processes.running(command, tmp_path, {"FARANDOLE_SSH": hosts.ssh, "FROM_LAUNCHER": "kept"}) as job:
        assert job.wait() == 0, job.report()
    assert sorted(job.lines("place ")) == ["0 0 2 0 3", "1 1 2 0 1", "2 0 1 1 3", "3 0 1 2 3"], job.report()
    where = {rank: host for rank, (host, _) in ranks(job, 4).items()}
    assert (where[0], where[1], where[3]) == ("node1", "node1", "node2"), job.report()
    for rank in range(4):
        assert f"place {rank} " in (tmp_path / "out" / f"rank.{rank}" / "stdout").read_text()


def test_no_secret_on_any_command_line(hosts: ssh_hosts.SshHosts, tmp_path: Path) -> None:
    done = tmp_path / "done"
    body = f"while not os.path.exists({str(done)!r}): time.sleep(0.02)\n"
    command = hosts.launch("-H", "node1:1,node2:1", *script(tmp_path, body))
    with processes.running(command, tmp_path, {"FARANDOLE_SSH": hosts.ssh}) as job:
        pids = [pid for _, pid in ranks(job, 2).values()]
        lines = [processes.command_line(int(entry)) for entry in os.listdir("/proc") if entry.isdigit()]
        ours = [line for line in lines if "farandole" in line and "pytest" not in line]
        assert sum("farandole.launch.remote.host" in line for line in ours) >= 2, lines
        assert not any(re.fullmatch(r"[0-9a-f]{64}", word) for line in ours for word in line.split()), ours
        variables = Path(f"/proc/{pids[0]}/environ").read_text()
        assert not re.search(r"=[0-9a-f]{64}\0", variables) and "BEGIN CERTIFICATE" not in variables
        done.touch()
        assert job.wait() == 0, job.report()


def test_status(hosts: ssh_hosts.SshHosts, tmp_path: Path) -> None:
    """On the launcher's host the controller can be asked, over TLS, and says what carries tensors between hosts."""
    body = """
import torch, farandole.torch
farandole.torch.allreduce(torch.ones(4))
print("reduced", flush=True)
while not os.path.exists("done"): time.sleep(0.02)
"""
    command = hosts.launch("-H", "node1:1,node2:1", *script(tmp_path, body))
    runtime = tmp_path / "runtime"
    runtime.mkdir(mode=0o700)
    variables = {"FARANDOLE_SSH": hosts.ssh, "XDG_RUNTIME_DIR": str(runtime)}
    with processes.running(command, tmp_path, variables) as job:
        where = ranks(job, 2)
        # Before it there is nothing to say, and importing torch takes as long as it takes.
        job.wait_for(lambda: len(job.lines("reduced")) == 2, "an allreduce")
        ask = hosts.network.hosts[0].command(sys.executable, "-m", "farandole", "status", "--json")
        environment = processes.environment(**variables)
        answer, carried = None, ""
        with processes.Stopwatch() as watch:
            # A rank reports once a second.
            while not carried and watch.seconds < 10:
                answer = subprocess.run(ask, env=environment, capture_output=True, text=True, timeout=30)
                carried = json.loads(answer.stdout)["communicatesBy"]
        (tmp_path / "done").touch()
        assert job.wait() == 0, job.report()
    assert re.match(r"CPU tensors by tcp \(not verbs: rank 0 \(.*\): .*RDMA.*\)$", carried), carried
    assert answer is not None
    members = [member["member"] for member in json.loads(answer.stdout)["members"]]
    assert [(member["host"], int(member["pid"])) for member in members] == [where[0], where[1]], answer


FUNCTION = """
import os, socket, sys
import farandole
from farandole.exceptions import RunError

class Result:
    def __init__(self, *values):
        self.values = values

def train(x):
    import torch, farandole.torch as hvd
    hvd.init()
    total = hvd.allreduce(torch.tensor(float(x + hvd.rank())), op=hvd.Sum).item()
    if x < 0 and hvd.rank() == 1:
        raise ValueError("it is negative")
    hvd.barrier()
    return Result(hvd.rank(), socket.gethostname(), total)

results = [each.values for each in farandole.run(train, (1,), hosts=sys.argv[1], num_proc=3)]
assert [result[::2] for result in results] == [(rank, 6.0) for rank in range(3)], results
assert [result[1] for result in results][::2] == ["node1", "node2"], results
try:
    farandole.run(train, (-1,), hosts=sys.argv[1], num_proc=3)
except RunError as error:
    print("told", error.rank, "ValueError: it is negative" in str(error), "in train" in error.traceback)
try:
    farandole.run(train, (1,), hosts="node1:1,node9:1", num_proc=2)
except RunError as error:
    print("refused", error.exit_code)
print("left", os.listdir(os.environ["TMPDIR"]))
"""


def test_a_function_on_other_hosts(hosts: ssh_hosts.SshHosts, tmp_path: Path) -> None:
    """Which have nothing in common with this one in the folder for its files."""
    caller = tmp_path / "caller.py"
    caller.write_text(FUNCTION)
    command = hosts.network.hosts[0].command(sys.executable, str(caller), "node1:1,localhost:1,node2:1")
    with processes.running(command, tmp_path, {"FARANDOLE_SSH": hosts.ssh, "TMPDIR": str(hosts.own)}) as job:
        assert job.wait() == 0, job.report()
    assert job.lines("told ") == ["1 True True"], job.report()
    assert job.lines("refused ") == ["1"] and "host node9: ssh failed: " in job.stderr, job.report()
    assert job.lines("left ") == ["[]"], job.report()
    assert hosts.files("node1") == ""


def test_what_is_wrong_with_each_host(hosts: ssh_hosts.SshHosts, tmp_path: Path) -> None:
    unknown, silent = "10.77.0.1", "10.77.0.99"
    config = tmp_path / "config"
    config.write_text(Path(hosts.ssh.split()[-1]).read_text().replace("Host node2", "Host other"))
    command = hosts.launch("-H", f"node1:1,node2:1,root@{unknown}:1,{silent}:1", "true")
    variables = {"FARANDOLE_SSH": f"ssh -F {config}", "FARANDOLE_START_TIMEOUT": "5"}
    with processes.running(command, tmp_path, variables) as job:
        assert job.wait() == 1, job.report()
    said = [line for line in job.stderr.splitlines() if line.startswith("farandole run: host ")]
    assert len(said) == 3, job.report()
    assert re.search(r"host node2: ssh failed: .*resolve hostname", said[0]), said
    assert re.search(rf"host root@{unknown}: ssh failed: .*refused", said[1]), said
    assert re.search(rf"host {silent}: (ssh failed: .*(timed out|No route)|no answer within 5 s)", said[2]), said


@pytest.mark.parametrize(
    ("variables", "arguments", "sentence"),
    [
        ({"FARANDOLE_REMOTE_PYTHON": "/no/python"}, [], "there is no /no/python"),
        ({"FARANDOLE_REMOTE_PYTHON": "/usr/bin/false"}, [], "the check there ended with code 1"),
        ({}, ["--network-interfaces", "ib7"], "none of the network interfaces ib7 has an address there"),
        ({}, ["-i", "/no/key", "-p", "23"], "ssh failed: .*port 23: Connection refused"),
    ],
)
def test_what_is_wrong_there(
    hosts: ssh_hosts.SshHosts, tmp_path: Path, variables: dict[str, str], arguments: list[str], sentence: str
) -> None:
    command = hosts.launch("-H", "node1:1", *arguments, "true")
    with processes.running(command, tmp_path, {"FARANDOLE_SSH": hosts.ssh, **variables}) as job:
        assert job.wait() == 1, job.report()
    assert re.search(f"farandole run: host node1: {sentence}", job.stderr), job.report()


def test_an_unknown_host_key_is_refused(hosts: ssh_hosts.SshHosts, tmp_path: Path) -> None:
    command = hosts.launch("-H", "node1:1", "true")
    variables = {"FARANDOLE_SSH": f"{hosts.ssh} -o UserKnownHostsFile=/dev/null"}
    with processes.running(command, tmp_path, variables) as job:
        assert job.wait() == 1, job.report()
    assert "host node1: ssh failed: Host key verification failed" in job.stderr, job.report()


def test_network_interfaces(hosts: ssh_hosts.SshHosts, tmp_path: Path) -> None:
    body = "print('at', os.environ['FARANDOLE_DATA_ADDRESS'], flush=True)\n"
    command = hosts.launch("-H", "localhost:1,node1:1", "--network-interfaces", "ib7,eth0", *script(tmp_path, body))
    with processes.running(command, tmp_path, {"FARANDOLE_SSH": hosts.ssh}) as job:
        assert job.wait() == 0, job.report()
    assert sorted(job.lines("] at ")) == ["10.77.0.1", "10.77.0.2"], job.report()


def test_a_failure_ends_all_hosts(hosts: ssh_hosts.SshHosts, tmp_path: Path) -> None:
    body = """
if hvd.rank() == 2:
    os._exit(7)
time.sleep(600)
"""
    command = hosts.launch("-H", "localhost:1,node1:1,node2:1", *script(tmp_path, body))
    with processes.running(command, tmp_path, {"FARANDOLE_SSH": hosts.ssh}) as job:
        ranks(job, 3)
        began = time.monotonic()
        assert job.wait() != 0, job.report()
        assert time.monotonic() - began < END_S, job.report()
    assert re.search(r"rank 2 \(pid \d+ on host node2\).*exited with code 7", job.stderr), job.report()


def test_interrupt(hosts: ssh_hosts.SshHosts, tmp_path: Path) -> None:
    body = """
try:
    time.sleep(600)
except KeyboardInterrupt:
    print("interrupted", hvd.rank(), flush=True)
"""
    command = hosts.launch("-H", "localhost:1,node1:1", *script(tmp_path, body))
    with processes.running(command, tmp_path, {"FARANDOLE_SSH": hosts.ssh}) as job:
        ranks(job, 2)
        os.kill(job.process.pid, signal.SIGINT)
        assert job.wait() == 0, job.report()
    assert sorted(job.lines("interrupted ")) == ["0", "1"], job.report()


@pytest.mark.parametrize("victim", ["ssh", "launcher"])
def test_the_connection_is_the_lifeline(hosts: ssh_hosts.SshHosts, tmp_path: Path, victim: str) -> None:
    command = hosts.launch("-H", "localhost:1,node1:1", *script(tmp_path, "time.sleep(600)\n"))
    with processes.running(command, tmp_path, {"FARANDOLE_SSH": hosts.ssh}) as job:
        pids = [pid for _, pid in ranks(job, 2).values()]
        ssh = named(children_of(job.process.pid), "ssh -F")
        os.kill(ssh if victim == "ssh" else job.process.pid, signal.SIGKILL)
        began = time.monotonic()
        assert job.wait() != 0, job.report()
        job.wait_for(lambda: all(map(gone, pids)), "the end of all ranks", END_S)
        assert time.monotonic() - began < END_S, job.report()
    if victim == "ssh":
        assert "farandole run: the connection to host node1 ended" in job.stderr, job.report()


def test_killed_controller_and_remote_agent(hosts: ssh_hosts.SshHosts, tmp_path: Path) -> None:
    done = tmp_path / "done"
    body = f"""
import torch, farandole.torch
step = 0
while farandole.torch.allreduce(torch.tensor(float(os.path.exists({str(done)!r})))) < 1:
    step += 1
    time.sleep(0.01)
    if step % 10 == 0:
        print("step", step, flush=True)
"""
    command = hosts.launch("-H", "localhost:1,node1:1", *script(tmp_path, body))
    with processes.running(command, tmp_path, {"FARANDOLE_SSH": hosts.ssh}) as job:

        def goes_on() -> None:
            before = len(job.lines("step "))
            job.wait_for(lambda: len(job.lines("step ")) > before + 6, "further steps")

        remote_worker = ranks(job, 2)[1][1]
        goes_on()
        keeper = int(Path(f"/proc/{remote_worker}/stat").read_text().rsplit(")", 1)[1].split()[1])
        for pid in (named(children_of(job.process.pid), "farandole-controller"), named(children_of(keeper), "agent")):
            os.kill(pid, signal.SIGKILL)
            job.wait_for(lambda: job.stderr.count("starting it again") == 1, "a restart")
            goes_on()
            Path(job.err).write_text("")
        done.touch()
        assert job.wait() == 0, job.report()
