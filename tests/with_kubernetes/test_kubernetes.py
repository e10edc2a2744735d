"""Real pods of our images on a real cluster: `make test-kubernetes`."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Callable
from contextlib import ExitStack

import pytest
from cluster import Cluster
from jobs import IMAGE, RUN_S, command, interrupt, name_of, node_of, run
from node import ROOT, until


@pytest.mark.short
def test_digits_are_learnt_by_pods_of_two_ranks(cluster: Cluster) -> None:
    code = (ROOT / "examples" / "torch_digits.py").read_text()
    with run(cluster, "digits", 4, code, "--slots", "2", "--env", "OMP_NUM_THREADS=1") as job:
        assert job.wait() == 0, job.report()
        (accuracy,) = re.findall(r"^\[0\] test accuracy (\d\.\d+), processes 4", job.stdout, re.MULTILINE)
        assert float(accuracy) > 0.95
        assert "2 of 2 pods run" in job.stderr
        # Whatever it has made is gone.
        job.until_gone()
        for kind in ("secret", "service", "deployment", "job", "networkpolicy"):
            assert not cluster.get(kind, "-l", "farandole.dev/job=digits")["items"], kind


@pytest.mark.short
def test_a_script_that_fails_gives_its_exit_code(cluster: Cluster) -> None:
    code = """
import sys, time
import farandole.torch as hvd
hvd.init()
if hvd.rank() == 1: sys.exit(7)
hvd.barrier()
"""
    with run(cluster, "fails", 2, code) as job:
        assert job.wait() == 7, job.report()
    assert re.search(r"job fails failed: pod fails-1-\w+ ended with code 7", job.stderr), job.stderr


def test_pods_that_do_not_start_say_why(cluster: Cluster) -> None:
    """Beside each other, as each waits until its time is up."""
    late = ("--start-timeout", "12")
    with ExitStack() as stack:
        no_image = stack.enter_context(run(cluster, "no-image", 1, "pass", "--image", "farandole/none:1", *late))
        no_room = stack.enter_context(run(cluster, "no-room", 1, "pass", "--cpu", "1000", *late))
        options = ("--controller-image", "farandole/none:1", *late)
        no_one = stack.enter_context(run(cluster, "no-one", 1, "import time; time.sleep(60)", *options))
        for job, who in (
            (no_image, r"0-\w+: ErrImageNeverPull"),
            (no_room, r"0-\w+: Unschedulable: .*Insufficient cpu"),
        ):
            assert job.wait() == 1, job.report()
            assert re.search(rf"0 of 1 pods run; {job.name}-{who}", job.stderr), job.stderr
            assert "not all pods ran within 12 s" in job.stderr
        assert no_one.wait() == 1, no_one.report()
        assert re.search(r"pods run; no-one-controller-\S+: ErrImageNeverPull", no_one.stderr), no_one.stderr


def test_a_pod_without_memory_is_named(cluster: Cluster) -> None:
    code = "x = bytearray(10**9)"
    with run(cluster, "memory", 1, code, "--memory", "100Mi", "--shared-memory", "10Mi") as job:
        assert job.wait() == 137, job.report()
    assert re.search(r"pod memory-0-\w+ ended with code 137: out of memory", job.stderr), job.stderr


def test_a_name_that_is_used_is_said(cluster: Cluster) -> None:
    with run(cluster, "twice", 1, "pass", "--detach") as job:
        assert job.wait() == 0
        with run(cluster, "twice", 1, "pass") as again:
            assert again.wait() == 1, again.report()
        assert "`farandole kubernetes delete twice` removes a job" in again.stderr, again.stderr


def test_a_rendered_job_is_deleted(cluster: Cluster) -> None:
    words = ("render", "-np", "1", "--name", "rendered", "--image", IMAGE, "--pull", "Never", "--", "sleep", "100")
    path = cluster.folder / "rendered.json"
    path.write_text(command(cluster, *words))
    cluster.kubectl("apply", "--validate=false", "-f", str(path))
    command(cluster, "delete", "rendered")
    for kind in ("secret", "service", "deployment", "job", "networkpolicy"):
        until(lambda kind=kind: not cluster.get(kind, "-l", "farandole.dev/job=rendered")["items"], kind, 30)


def test_a_quota_that_is_used_up_is_named(cluster: Cluster) -> None:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "none"},
        "spec": {"hard": {"secrets": "0"}},
    }
    cluster.apply(quota)
    try:
        until(lambda: cluster.get("resourcequota", "none").get("status", {}).get("hard"), "the quota", 30)
        with run(cluster, "no-quota", 1, "pass") as job:
            assert job.wait() == 1, job.report()
        assert "Secret no-quota cannot be made in namespace default: " in job.stderr
        assert "exceeded quota: none" in job.stderr
    finally:
        cluster.kubectl("delete", "resourcequota", "none")


# A hundred steps of a tenth of a second.
STEPS = """
import time
import torch
import farandole.torch as hvd
hvd.init()
for step in range(100):
    total = hvd.allreduce(torch.ones(1000), op=hvd.Sum, name="x")
    assert total[0] == hvd.size()
    if step == 10: print("stepping", flush=True)
    time.sleep(0.1)
print(f"steps {step + 1} ", flush=True)
hvd.shutdown()
"""


@pytest.mark.short
@pytest.mark.fault("pods that run before the name of their controller is known")
def test_a_name_that_comes_late(cluster: Cluster, outcome: Callable[[str], None]) -> None:
    """On two nodes, whose ranks find each other although at first nobody knew from where the controller is reached."""
    with run(cluster, "early", 2, STEPS, named=False) as job:
        job.until(lambda: len(job.running()) == 2 and all(map(job.waits, job.running())), "what both agents say")
        assert {node_of(pod) for pod in job.running()} == {"n1", "n2"}
        begin = time.monotonic()
        cluster.name_services()
        job.until(lambda: job.stdout.count("stepping") == 2, "steps")
        outcome(f"they wait, and step {time.monotonic() - begin:.0f} s after it is")
        assert job.wait() == 0, job.report()


@pytest.mark.fault("pod deleted, fixed size, one attempt more")
def test_a_killed_pod_ends_its_job_unless_there_are_attempts(cluster: Cluster, outcome: Callable[[str], None]) -> None:
    with run(cluster, "attempts", 2, STEPS, "--attempts", "1") as job:
        job.until(lambda: job.stdout.count("stepping") == 2, "steps")
        begin = time.monotonic()
        victim = next(pod for pod in job.pods() if "-1-" in name_of(pod))
        cluster.kubectl("delete", "pod", name_of(victim), "--grace-period=1", "--wait=false")
        job.until(lambda: job.stdout.count("stepping") == 4, "steps of the second attempt")
        outcome(f"all pods end and are made again: steps {time.monotonic() - begin:.0f} s later")
        assert job.wait() == 0, job.report()
    # The second attempt did all steps.
    assert len(re.findall(r"steps 100 ", job.stdout)) == 2, job.report()


# It says as much as is looked for; what Python itself takes to import is not what these tests are about.
IDLE = """
import time
print("stepping")
time.sleep({})
print("steps 100")
"""


def test_ctrl_c_deletes_the_job(cluster: Cluster) -> None:
    with run(cluster, "stopped", 2, IDLE.format(10**6)) as job:
        job.until(lambda: job.stdout.count("stepping") == 2, "steps")
        interrupt(job.process.pid)
        assert job.wait(30) == 130, job.report()
        assert "interrupted: deleting job stopped" in job.stderr
        job.until_gone()


def test_a_detached_job_is_looked_at_and_deleted(cluster: Cluster) -> None:
    with run(cluster, "detached", 2, IDLE.format(8), "--detach") as job:
        assert job.wait() == 0
        job.until(lambda: job.lines().count("stepping") == 2, "steps")
        status = command(cluster, "status", "detached")
        assert "job detached: under way" in status and len(re.findall(r"Running on n[12]\b", status)) == 3, status
        assert command(cluster, "logs", "--follow", "detached").count("steps 100") == 2
        job.until(lambda: "job detached: complete" in command(cluster, "status", "detached"), "the end", 30)
        command(cluster, "delete", "detached")
        until(lambda: not cluster.get("job", "-l", "farandole.dev/job=detached")["items"], "no Job", 30)
        gone = cluster.python("-m", "farandole", "kubernetes", "status", "detached", stderr=subprocess.PIPE)
        assert "there is no job 'detached' in namespace default; there are: none" in gone.communicate(timeout=30)[1]
        assert gone.returncode == 1


def test_time_to_the_first_line_beside_a_bare_pod(cluster: Cluster) -> None:
    """From the command to the script's first line, beside kubectl run of the same image."""
    begin = time.monotonic()
    words = ["run", "bare", f"--image={IMAGE}", "--image-pull-policy=Never", "--restart=Never", "--attach", "-q"]
    cluster.kubectl(*words, "--command", "--", "python", "-c", "print('here')", timeout=RUN_S)
    bare = time.monotonic() - begin
    cluster.kubectl("delete", "pod", "bare", "--wait=false")
    begin = time.monotonic()
    with run(cluster, "first-line", 1, "print('here', flush=True)") as job:
        until(lambda: job.stdout, "a line", RUN_S, every=0.05)
        ours = time.monotonic() - begin
        assert job.stdout.startswith("[0] here\n"), job.stdout
        assert job.wait() == 0, job.report()
    print(f"first line after {ours:.1f} s, of a bare pod after {bare:.1f} s")
    assert ours - bare < 15.0
