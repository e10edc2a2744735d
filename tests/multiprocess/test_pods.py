"""What a pod of Kubernetes runs: an agent with --pod as its first process, beside a controller that others have
started. Here pods are plain processes on one host."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import processes
import pytest
from pod_parts import JOB, KEY, controller, last_words, secret

from farandole.base import locate
from farandole.launch.processes import tokens

TRAIN = r"""
import os, sys, time
import light as hvd
hvd.init()
stop = sys.argv[1]
for step in range(10**9):
    total = hvd.allreduce(hvd.full((4,), hvd.rank() + 1.0), op=hvd.Sum, name="x")[0]
    if step == 20:
        os.write(1, f"started {hvd.rank()} {hvd.size()} {hvd.local_rank()} {total}\n".encode())
        if stop == "none":
            break
    # All have begun: this step has the parts of them all.
    if step == 21 and hvd.rank() == 1:
        if stop == "error":
            raise ValueError("the script is wrong")
        if stop == "exit":
            sys.exit(3)
    time.sleep(0.002)
hvd.shutdown()
"""


class Pods:
    """Those of one attempt of a job; each as its Indexed Job would start it."""

    def __init__(self, folder: Path, address: str, pods: int, slots: int, stop: str, job: str = JOB) -> None:
        script = folder / "train.py"
        script.write_text(TRAIN)
        token = secret(folder / "token", tokens.member_token(KEY, job))
        command = [locate.find("farandole-agent"), "--pod", "--job", job, "--controller", address]
        command += ["--token-file", str(token), "--size", str(pods * slots), "--local-size", str(slots)]
        command += ["--grace-seconds", "1", "--", sys.executable, str(script), stop]
        self.stack = ExitStack()
        self.jobs = []
        for index in range(pods):
            place = folder / f"pod{index}"
            place.mkdir(exist_ok=True)
            variables = {"JOB_COMPLETION_INDEX": str(index)}
            self.jobs.append(self.stack.enter_context(processes.running(command, place, variables)))

    def wait_until_started(self, ranks: int) -> None:
        def started() -> bool:
            all_run = all(job.process.poll() is None for job in self.jobs)
            there = len(self.lines("started ")) == ranks
            # One that fails by itself may have done so before anybody looked.
            assert all_run or there, [job.report() for job in self.jobs]
            return there

        self.jobs[0].wait_for(started, "step 20 on all ranks")

    def lines(self, mark: str) -> list[str]:
        return [line for job in self.jobs for line in job.lines(mark)]

    def codes(self) -> list[int]:
        """All pods end by themselves."""
        codes = [job.wait() for job in self.jobs]
        self.stack.close()
        return codes


def test_ranks_are_where_their_pods_are(tmp_path: Path) -> None:
    with controller(tmp_path) as address:
        pods = Pods(tmp_path, address, 2, 2, "none")
        assert pods.codes() == [0, 0], [job.report() for job in pods.jobs]
        assert sorted(pods.lines("started ")) == [f"{r} 4 {r % 2} 10.0" for r in range(4)]


@pytest.mark.parametrize("how", ["error", "exit", "killed", "evicted"])
def test_the_exit_code_says_whether_another_attempt_may_help(tmp_path: Path, how: str) -> None:
    """1 and 3: of a script that failed; 137 and 143: of the one that was killed or asked to end; 75: of those that
    lost it. Then the job runs in new pods, at the same controller."""
    with controller(tmp_path) as address:
        pods = Pods(tmp_path, address, 3, 1, how)
        pods.wait_until_started(3)
        if how == "killed":
            (worker,) = [pid for pid in processes.marked(pods.jobs[1].mark) if "train.py" in last_words(pid)]
            os.kill(worker, signal.SIGKILL)
        elif how == "evicted":
            pods.jobs[1].process.send_signal(signal.SIGTERM)
        codes = pods.codes()
        assert codes == [75, {"error": 1, "exit": 3, "killed": 137, "evicted": 143}[how], 75], [
            j.report() for j in pods.jobs
        ]
        said = pods.jobs[0].stderr
        assert re.search(r"rank 1 \(pid \d+ on host ", said), said
        for index in range(3):
            (tmp_path / f"pod{index}" / "0.out").unlink()
        again = Pods(tmp_path, address, 3, 1, "none")
        assert again.codes() == [0, 0, 0], [job.report() for job in again.jobs]


def test_a_script_that_fails_beside_another_rank_of_its_pod_is_at_fault(tmp_path: Path) -> None:
    with controller(tmp_path) as address:
        pods = Pods(tmp_path, address, 2, 2, "error")
        assert pods.codes() == [1, 75], [job.report() for job in pods.jobs]
        assert "rank 1 " in pods.jobs[0].stderr and "failed first" in pods.jobs[0].stderr


def test_what_a_worker_leaves_behind_is_reaped(tmp_path: Path) -> None:
    """The first process of a container is the parent of all whose own has ended."""
    body = """
import os, subprocess, sys, time
import light as hvd
hvd.init()
for _ in range(5):
    subprocess.run(["sh", "-c", "sleep 0.2 &"])
time.sleep(1)
zombies = 0
for entry in os.listdir("/proc"):
    if entry.isdigit():
        try:
            fields = open(f"/proc/{entry}/stat").read().rpartition(")")[2].split()
        except OSError:
            continue
        zombies += fields[0] == "Z" and int(fields[1]) == 1
print("first", os.getppid(), "zombies", zombies, flush=True)
hvd.shutdown()
"""
    script = tmp_path / "script.py"
    script.write_text(body)
    with controller(tmp_path) as address:
        token = secret(tmp_path / "token", tokens.member_token(KEY, "j"))
        command = [
            "unshare",
            "--user",
            "--map-root-user",
            "--pid",
            "--fork",
            "--mount-proc",
            "--kill-child",
            locate.find("farandole-agent"),
            "--pod",
        ]
        command += ["--job", "j", "--controller", address, "--token-file", str(token), "--size", "1", "--"]
        command += [sys.executable, str(script)]
        with processes.running(command, tmp_path, {"JOB_COMPLETION_INDEX": "0"}) as job:
            assert job.wait() == 0, job.report()
        assert job.lines("first ") == ["1 zombies 0"], job.report()


def test_a_token_that_expires_while_its_job_runs(tmp_path: Path) -> None:
    """The stream goes on. When it breaks, the agent says why it cannot come back, and nobody waits for ever."""
    body = """
import os, time
import light as hvd
hvd.init()
# Never a replay: each step needs the controller.
for step in range(10**9):
    hvd.allreduce(hvd.full((4,), 1.0), name=f"x{step}")
    if step % 100 == 0:
        os.write(1, f"at {step}\\n".encode())
    time.sleep(0.002)
"""
    script = tmp_path / "script.py"
    script.write_text(body)
    valid_s = 10
    program = locate.find("farandole-controller")
    with ExitStack() as stack:
        first = stack.enter_context(ExitStack())
        address = first.enter_context(controller(tmp_path))
        make = [program, "token", "--job", "j", "--key-file", str(tmp_path / "key"), "--valid-for", f"{valid_s}s"]
        until = time.monotonic() + valid_s
        token = secret(tmp_path / "token", subprocess.run(make, check=True, capture_output=True, text=True).stdout)
        command = [locate.find("farandole-agent"), "--pod", "--job", "j", "--controller", address]
        command += ["--token-file", str(token), "--size", "1", "--", sys.executable, str(script)]
        variables = {"JOB_COMPLETION_INDEX": "0", "FARANDOLE_CONTROLLER_TIMEOUT_SECONDS": "1"}
        job = stack.enter_context(processes.running(command, tmp_path, variables))
        job.wait_for(lambda: len(job.lines("at ")) > 0, "a step")
        time.sleep(max(0.0, until + 1.5 - time.monotonic()))
        steps = len(job.lines("at "))
        job.wait_for(lambda: len(job.lines("at ")) > steps + 1, "steps after the end of the token")
        first.close()
        again = [program, "--key-file", str(tmp_path / "key"), "--listen", address]
        process = subprocess.Popen(again, stdin=subprocess.DEVNULL, env=processes.environment())
        stack.callback(process.wait)
        stack.callback(process.kill)
        # As when the controller is gone; the next attempt cannot begin, which is 1.
        assert job.wait() == 75, job.report()
    refusal = f"farandole-agent: the controller at {address} refuses the token: the token has expired, on "
    assert refusal in job.stderr, job.report()
    assert "FARANDOLE_CONTROLLER_TIMEOUT_SECONDS" in job.stderr, job.report()


def test_a_pod_says_why_it_gives_up_after_it_has_waited(tmp_path: Path) -> None:
    with controller(tmp_path) as address:
        pass
    pods = Pods(tmp_path, address, 1, 1, "none")
    time.sleep(7)
    other = tmp_path / "other"
    other.write_text("o" * 64)
    other.chmod(0o600)
    command = [locate.find("farandole-controller"), "--key-file", str(other), "--listen", address]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, env=processes.environment())
    try:
        assert pods.codes() == [1], pods.jobs[0].report()
    finally:
        process.kill()
        process.wait()
    said = pods.jobs[0].stderr
    waits = f"farandole-agent: no connection to the controller at {address}"
    refused = f"farandole-agent: the controller at {address} refuses the token"
    assert -1 < said.find(waits) < said.find(refused), said


def test_a_pod_waits_for_its_controller(tmp_path: Path) -> None:
    """It may be scheduled before it."""
    with controller(tmp_path) as address:
        pass
    pods = Pods(tmp_path, address, 1, 1, "none")
    # Longer than the agent is silent about it.
    time.sleep(7)
    host_and_port = address
    command = [locate.find("farandole-controller"), "--key-file", str(tmp_path / "key"), "--listen", host_and_port]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, env=processes.environment())
    try:
        assert pods.codes() == [0], pods.jobs[0].report()
    finally:
        process.kill()
        process.wait()
    said = pods.jobs[0].stderr
    assert f"farandole-agent: no connection to the controller at {address}" in said, said
    assert f"farandole-agent: connected to the controller at {address}\n" in said, said
