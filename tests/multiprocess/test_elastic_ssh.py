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
