from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import elastic_jobs
import processes
import pytest
import ssh_hosts

_REASON = ssh_hosts.why_not()
pytestmark = pytest.mark.skipif(bool(_REASON), reason=_REASON)


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ssh_hosts.SshHosts]:
    with ssh_hosts.ssh_hosts(tmp_path_factory.mktemp("hosts"), 2) as found:
        yield found


def test_another_host_joins_and_its_worker_is_lost(hosts: ssh_hosts.SshHosts, tmp_path: Path) -> None:
    known = tmp_path / "known"
    known.write_text("node1:2\n")
    script = processes.script_file(tmp_path, elastic_jobs.TRAIN.replace("EXTRA", "pass"))
    options = ("-np", "2", "--min-np", "1", "--host-discovery-script", f"cat {known}")
    command = hosts.launch(*options, sys.executable, str(script))
    with processes.running(command, tmp_path, {"FARANDOLE_SSH": hosts.ssh}) as job:
        elastic = elastic_jobs.Elastic(job, tmp_path)
        first = elastic.await_turns(2)
        known.write_text("node1:2\nnode2:1\n")
        second = elastic.await_turns(3)
        assert [second[0].pid, second[1].pid] == [first[0].pid, first[1].pid]
        elastic.await_steps(3)
        os.kill(second[2].pid, signal.SIGKILL)
        third = elastic.await_turns(2)
        assert [third[0].pid, third[1].pid] == [first[0].pid, first[1].pid] and third[0].step == third[0].history
        elastic.enough(2)
    assert f"slot node2:0 has ended: pid {second[2].pid}, was killed by SIGKILL" in job.stderr


def test_another_host_joins_a_job_that_began_here(hosts: ssh_hosts.SshHosts, tmp_path: Path) -> None:
    known = tmp_path / "known"
    known.write_text("localhost:1\n")
    script = processes.script_file(tmp_path, elastic_jobs.TRAIN.replace("EXTRA", "pass"))
    options = ("-np", "1", "--min-np", "1", "--host-discovery-script", f"cat {known}")
    command = hosts.launch(*options, sys.executable, str(script))
    with processes.running(command, tmp_path, {"FARANDOLE_SSH": hosts.ssh}) as job:
        elastic = elastic_jobs.Elastic(job, tmp_path)
        first = elastic.await_turns(1)
        known.write_text("localhost:1\nnode1:1\n")
        second = elastic.await_turns(2)
        assert second[0].pid == first[0].pid and second[1].step == second[0].step
        elastic.enough(2)


def host_program(worker: int) -> int:
    """The parent of a worker on another host."""
    return int(Path(f"/proc/{worker}/stat").read_text().rsplit(")", 1)[1].split()[1])


def test_a_host_whose_program_is_killed_is_lost(hosts: ssh_hosts.SshHosts, tmp_path: Path) -> None:
    """With its worker, and the job goes on without."""
    script = processes.script_file(tmp_path, elastic_jobs.TRAIN.replace("EXTRA", "pass"))
    command = hosts.launch("-np", "2", "--min-np", "1", "-H", "localhost:1,node1:1", sys.executable, str(script))
    with processes.running(command, tmp_path, {"FARANDOLE_SSH": hosts.ssh}) as job:
        elastic = elastic_jobs.Elastic(job, tmp_path)
        first = elastic.await_turns(2)
        pid = host_program(first[1].pid)
        os.kill(pid, signal.SIGKILL)
        assert elastic.await_turns(1)[0].pid == first[0].pid
        elastic.enough(1)
    assert "the connection to host node1 ended" in job.stderr, job.report()
    assert "the process in slot node1:0 has ended: has ended with its host's agent" in job.stderr, job.report()


FUNCTION = """
import os, socket, sys
import farandole

def train(known):
    import torch, farandole.torch as hvd
    from farandole.torch import elastic

    hvd.init()

    @elastic.run
    def steps(state):
        while not state.grown or hvd.size() == 3:
            hvd.allreduce(torch.ones(1), name="step")
            state.step += 1
            if hvd.rank() == 0 and state.step == 2:
                with open(known, "a") as file:
                    print("node2:1", file=file)
            state.grown = state.grown or hvd.size() == 3
            state.commit()
            if hvd.size() == 3 and hvd.rank() == 1:
                os.kill(os.getpid(), 9)
        return hvd.rank(), socket.gethostname(), hvd.size()

    return steps(elastic.TorchState(step=0, grown=False))

results = farandole.run(train, (sys.argv[1],), num_proc=2, min_num_proc=2, host_discovery_script=f"cat {sys.argv[1]}")
print("results", *results[1])
print("left", os.listdir(os.environ["TMPDIR"]))
"""


def test_a_function_goes_to_a_host_that_comes_later(hosts: ssh_hosts.SshHosts, tmp_path: Path) -> None:
    """And its result is rank 1's in the end, as that of the other host is lost."""
    known, caller = tmp_path / "known", tmp_path / "caller.py"
    known.write_text("localhost:1\nnode1:1\n")
    caller.write_text(FUNCTION)
    command = hosts.network.hosts[0].command(sys.executable, str(caller), str(known))
    with processes.running(command, tmp_path, {"FARANDOLE_SSH": hosts.ssh, "TMPDIR": str(hosts.own)}) as job:
        assert job.wait() == 0, job.report()
    assert job.lines("results ") == ["1 node2 2"], job.report()
    assert job.lines("left ") == ["[]"], job.report()
    assert [hosts.files(node) for node in ("node1", "node2")] == ["", ""]
