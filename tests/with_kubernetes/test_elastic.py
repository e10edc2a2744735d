"""Elastic jobs on a real cluster: pods come and go while the others train."""

from __future__ import annotations

import os
import re
import signal
import statistics
import time
from pathlib import Path
from typing import Any

from cluster import Cluster, until
from test_kubernetes import Job, command, run

KILLS = 3
# Steps of a tenth of a second until a file says that it is enough; each new turn says how long it was since the last
# step before it.
STEPS = """
import os, socket, time
import torch
import farandole.torch as hvd
from farandole.torch import elastic
hvd.init()
state = elastic.TorchState(step=0)
last = time.monotonic()

@elastic.run
def train(state):
    global last
    first = True
    while True:
        assert hvd.allreduce(torch.ones(1000), op=hvd.Sum, name="x")[0] == hvd.size()
        now = time.monotonic()
        if first:
            print(f"turn {hvd.rank()} {hvd.size()} {state.step} {now - last:.3f} {socket.gethostname()}", flush=True)
        first, last = False, now
        state.step += 1
        enough = torch.tensor([float(os.path.exists("/tmp/enough"))])
        if hvd.allreduce(enough, op=hvd.Max, name="enough")[0]:
            return
        time.sleep(0.1)
        state.commit()

train(state)
print(f"done {hvd.rank()} {hvd.size()} {state.step}", flush=True)
"""


def running(job: Job) -> list[Any]:
    """Pods of the script that are to stay."""
    return [
        pod for pod in job.pods() if pod["status"]["phase"] == "Running" and "deletionTimestamp" not in pod["metadata"]
    ]


def lines(job: Job) -> str:
    """What all its pods have printed."""
    selector = f"farandole.dev/job={job.name},farandole.dev/role=script"
    return job.cluster.kubectl("logs", "-l", selector, "--tail", "-1", check=False).stdout


def turns(job: Job, size: int) -> dict[str, tuple[int, float]]:
    """Step and gap of the newest turn of each pod that runs, by pod, if all of these are of this size; or nothing."""
    there = {pod["metadata"]["name"] for pod in running(job)}
    found = {}
    for _, of, step, gap, pod in re.findall(r"turn (\d+) (\d+) (\d+) ([\d.]+) (\S+)", lines(job)):
        found[pod] = int(of), int(step), float(gap)
    found = {pod: turn for pod, turn in found.items() if pod in there}
    whole = len(found) == len(there) == size and all(of == size for of, _, _ in found.values())
    return {pod: (step, gap) for pod, (_, step, gap) in found.items()} if whole else {}


def enough(job: Job) -> None:
    """Has the job end."""
    job.cluster.kubectl("exec", running(job)[0]["metadata"]["name"], "--", "touch", "/tmp/enough")


def agent_of(pod: str) -> int:
    """The process of a pod's agent, as it is on this machine."""
    for place in Path("/proc").glob("[0-9]*"):
        try:
            words = (place / "cmdline").read_bytes().split(b"\0")
            variables = (place / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if words[0].endswith(b"farandole-agent") and f"HOSTNAME={pod}".encode() in variables:
            return int(place.name)
    raise AssertionError(f"no agent of pod {pod}")


def test_an_elastic_job_grows_and_shrinks(cluster: Cluster) -> None:
    with run(cluster, "grows", 2, STEPS, "--min-np", "1", "--env", "OMP_NUM_THREADS=1") as job:
        until(lambda: turns(job, 2), "two pods", 60)
        assert command(cluster, "scale", "grows", "-np", "4") == ""
        grown = until(lambda: turns(job, 4), "four pods", 60)
        assert min(step for step, _ in grown.values()) == max(step for step, _ in grown.values()) > 0, "one state"
        command(cluster, "scale", "grows", "-np", "2")
        until(lambda: turns(job, 2), "two pods again", 60)
        until(lambda: len(job.pods()) <= 4 and len(running(job)) == 2, "the end of the others", 60)
        enough(job)
        assert job.wait() == 0, job.report()
    assert "going back to the last commit" not in job.stdout + job.stderr, "pods that leave cost no step"
    assert job.stdout.count("its place in the job was taken away") == 2, job.report()
    assert len(re.findall(r"done \d 2 ", job.stdout)) == 2, job.report()


def test_a_killed_pod_is_missed_at_once_and_replaced(cluster: Cluster) -> None:
    """kill -9 of the first process of a pod, from outside: everything in it ends with it."""
    gaps = []
    with run(cluster, "killed", 3, STEPS, "--min-np", "1", "--env", "OMP_NUM_THREADS=1") as job:
        for _ in range(KILLS):
            before = until(lambda: turns(job, 3), "three pods", 60)
            victim = sorted(before)[1]
            time.sleep(1.0)
            os.kill(agent_of(victim), signal.SIGKILL)
            until(lambda v=victim: v not in {p["metadata"]["name"] for p in running(job)}, "its end", 30)
            until(lambda: turns(job, 3), "another one", 60)
            for pod in set(before) - {victim}:
                of_two = re.findall(rf"turn \d 2 \d+ ([\d.]+) {pod}", lines(job))
                gaps.append(float(of_two[-1]))
        enough(job)
        assert job.wait() == 0, job.report()
    print(f"step after a killed pod: {gaps}, median {statistics.median(gaps):.2f} s")
    assert statistics.median(gaps) < 5.0


def test_an_evicted_pod_leaves_without_a_loss(cluster: Cluster) -> None:
    with run(cluster, "evicted", 2, STEPS, "--min-np", "1", "--env", "OMP_NUM_THREADS=1") as job:
        before = until(lambda: turns(job, 2), "two pods", 60)
        victim = sorted(before)[0]
        cluster.kubectl("delete", "pod", victim, "--wait=false")
        until(lambda: victim not in {p["metadata"]["name"] for p in job.pods()}, "its end", 60)
        until(lambda: turns(job, 2), "another one", 60)
        enough(job)
        assert job.wait() == 0, job.report()
    assert "going back to the last commit" not in job.stdout, job.report()
    assert "asked to end: the processes of this host leave the job at their next commit" in job.stdout


def test_a_script_that_fails_again_and_again_ends_the_job(cluster: Cluster) -> None:
    with run(cluster, "broken", 2, "raise SystemExit(7)", "--min-np", "1", "--attempts", "1") as job:
        assert job.wait() == 7, job.report()
