"""An elastic job on a real cluster: pods come and go while the others train."""

from __future__ import annotations

import re
import statistics
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest
from cluster import Cluster
from jobs import STEADY, Job, command, kill, leads, leads_instead, name_of, node_of, run, steps
from node import until

KILLS, PODS = 3, 3
# What a pod says when there are to be fewer.
LEFT = "its place in the job was taken away"
CUT_S = 40.0
# After so long the controller gives a host up that it has not heard of.
SILENT_S = 30.0
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


Outcome = Callable[[str], None]


def last_turns(job: Job) -> dict[str, tuple[int, int, float]]:
    """Size, step and gap of the newest turn of each pod that there was, by pod."""
    found = re.findall(r"turn \d+ (\d+) (\d+) ([\d.]+) (\S+)", job.stdout)
    return {pod: (int(size), int(step), float(gap)) for size, step, gap, pod in found}


def turns(job: Job, size: int) -> dict[str, tuple[int, float]]:
    """Step and gap of the newest turn of each pod that runs, by pod, if all of these are of this size; or nothing."""
    there = {name_of(pod) for pod in job.running()}
    found = {pod: turn for pod, turn in last_turns(job).items() if pod in there}
    whole = len(found) == len(there) == size and all(of == size for of, _, _ in found.values())
    return {pod: (step, gap) for pod, (_, step, gap) in found.items()} if whole else {}


@pytest.fixture(scope="module")
def begun(cluster: Cluster) -> Iterator[Job]:
    """A job that goes on until all faults have been; then it ends as if nothing had been."""
    options = ("--min-np", "1", "--attempts", "20", "--env", "OMP_NUM_THREADS=1")
    with run(cluster, "elastic", PODS, STEPS, *options) as job:
        job.until(lambda: turns(job, PODS), f"{PODS} pods")
        yield job
        job.enough()
        assert job.wait() == 0, job.report()


@pytest.fixture
def job(begun: Job) -> Job:
    """It with as many pods as it had at its beginning, all of them in their steps."""
    make_whole(begun)
    return begun


def make_whole(job: Job) -> None:
    """Has it as many pods as at its beginning, on both nodes, whatever has happened to it before."""
    if len({node_of(pod) for pod in job.running()}) == 1:
        command(job.cluster, "scale", job.name, "-np", "1")
        job.until(lambda: turns(job, 1), "one pod")
    command(job.cluster, "scale", job.name, "-np", str(PODS))
    job.until(lambda: turns(job, PODS), f"{PODS} pods")
    assert {node_of(pod) for pod in job.running()} == {"n1", "n2"}, job.report()


def gap_of_others(job: Job, victim: str, fault: Callable[[], None]) -> list[float]:
    """How long each other pod had no step when one was lost, which has been replaced afterwards."""
    others = sorted(set(turns(job, PODS)) - {victim})
    mark = len(job.stdout)
    fault()
    job.until(lambda: victim not in {name_of(pod) for pod in job.running()}, f"the end of {victim}", 30)
    job.until(lambda: turns(job, PODS), "another pod")
    said = job.stdout[mark:]
    return [float(re.findall(rf"turn \d+ {PODS - 1} \d+ ([\d.]+) {pod}", said)[0]) for pod in others]


@pytest.mark.short
@pytest.mark.fault("kill -9 of an agent, elastic")
def test_a_killed_agent_is_missed_at_once_and_replaced(job: Job, outcome: Outcome) -> None:
    """The first process of a pod, from outside: everything in it ends with it."""
    gaps = []
    for _ in range(KILLS):
        victim = sorted(job.until(lambda: turns(job, PODS), "all pods"))[1]
        time.sleep(1.0)
        gaps += gap_of_others(job, victim, lambda v=victim: kill(v, "farandole-agent"))
    outcome(f"the others step again after {statistics.median(gaps):.2f} s (median of {len(gaps)}); the pod is replaced")
    assert statistics.median(gaps) < 5.0


@pytest.mark.fault("kill -9 of a worker, elastic")
def test_a_killed_worker_is_missed_at_once_and_replaced(job: Job, outcome: Outcome) -> None:
    victim = sorted(turns(job, PODS))[1]
    gaps = gap_of_others(job, victim, lambda: kill(victim, "python"))
    outcome(f"the others step again after {max(gaps):.2f} s; the pod is replaced")
    assert max(gaps) < 5.0


@pytest.mark.fault("pod evicted, elastic")
def test_an_evicted_pod_leaves_without_a_loss(cluster: Cluster, job: Job, outcome: Outcome) -> None:
    victim = sorted(job.running(), key=name_of)[0]
    mark = len(job.stdout)
    gaps = gap_of_others(job, name_of(victim), lambda: cluster.evict(victim))
    outcome(f"no step lost, the others step again after {max(gaps):.2f} s; the pod is replaced")
    assert "going back to the last commit" not in job.stdout[mark:], job.report()
    assert "asked to end: the processes of this host leave the job at their next commit" in job.stdout[mark:]


@pytest.mark.fault("scaled from 2 to 4 to 2, elastic")
def test_an_elastic_job_grows_and_shrinks(cluster: Cluster, job: Job, outcome: Outcome) -> None:
    left = job.stdout.count(LEFT)
    assert command(cluster, "scale", job.name, "-np", "2") == ""
    job.until(lambda: turns(job, 2) and job.stdout.count(LEFT) == left + 1, "two pods")
    mark = len(job.stdout)
    command(cluster, "scale", job.name, "-np", "4")
    grown = job.until(lambda: turns(job, 4), "four pods")
    assert min(step for step, _ in grown.values()) == max(step for step, _ in grown.values()) > 0, "one state"
    command(cluster, "scale", job.name, "-np", "2")
    job.until(lambda: turns(job, 2), "two pods again")
    said = job.stdout[mark:]
    assert "going back to the last commit" not in said, "pods that leave cost no step"
    job.until(lambda: job.stdout[mark:].count(LEFT) == 2, "what those say that left")
    outcome("all have one state; no step lost")


@pytest.mark.parametrize(
    "leader",
    [
        pytest.param("n1", marks=pytest.mark.fault("node drained, elastic")),
        pytest.param("n2", marks=pytest.mark.fault("node drained, with the controller on it, elastic")),
    ],
)
def test_a_drained_node_costs_no_step(cluster: Cluster, job: Job, leader: str, outcome: Outcome) -> None:
    lead_from(job, leader)
    stayed = [name_of(pod) for pod in job.running() if node_of(pod) == "n1"]
    mark = len(job.stdout)
    options = ("--delete-emptydir-data", "--force", "--ignore-daemonsets", "--timeout=60s")
    try:
        cluster.kubectl("drain", "n2", *options, timeout=90)
        job.until(lambda: turns(job, PODS), "as many pods on the other node")
        assert {node_of(pod) for pod in job.running()} == {"n1"}
    finally:
        cluster.kubectl("uncordon", "n2")
    said = job.stdout[mark:]
    assert "going back to the last commit" not in said, job.report()
    gaps = [float(gap) for pod in stayed for gap in re.findall(rf"turn \d+ \d+ \d+ ([\d.]+) {pod}", said)]
    outcome(f"no step lost, as many pods on the other node; longest step of the others {max(gaps):.2f} s")


class Cut(NamedTuple):
    """What became of two jobs when the network of one node, with pods of both, was cut.

    Attributes:
        gaps: seconds without a step of the elastic job's other pods.
        again_s: after the end of the cut until the elastic job was whole again.
        replaced: whether its pods were others then.
        fixed: the job of a fixed size, which has ended.
        attempt_s: after the end of the cut until its second attempt had begun.
    """

    gaps: list[float]
    again_s: float
    replaced: bool
    fixed: Job
    attempt_s: float


@pytest.fixture(scope="module")
def cut(cluster: Cluster, begun: Job) -> Iterator[Cut]:
    make_whole(begun)
    with run(cluster, "cut", 2, STEADY, "--attempts", "1") as fixed:
        fixed.until(lambda: len(steps(fixed.stdout)) == 2, "steps")
        for job in (begun, fixed):
            lead_from(job, "n1")
        assert {node_of(pod) for pod in fixed.running()} == {"n1", "n2"}, fixed.report()
        before = {name_of(pod): node_of(pod) for pod in begun.running()}
        others = [pod for pod, node in before.items() if node == "n1"]
        mark, began = len(begun.stdout), time.monotonic()

        def gaps() -> list[str]:
            found = [re.findall(rf"turn \d+ {len(others)} \d+ ([\d.]+) {pod}", begun.stdout[mark:]) for pod in others]
            return [each[0] for each in found] if all(found) else []

        with cluster.cut(cluster.nodes[1]):
            found = begun.until(gaps, "steps of the others", CUT_S + SILENT_S)
            until(lambda: time.monotonic() - began > CUT_S, "the end of the cut", CUT_S)
        healed = time.monotonic()
        begun.until(lambda: turns(begun, PODS), "all pods again", 120)
        again_s = time.monotonic() - healed
        fixed.until(lambda: fixed.stdout.count("begins") == 4, "the second attempt", 120)
        attempt_s = time.monotonic() - healed
        fixed.enough()
        assert fixed.wait() == 0, fixed.report()
        after = {name_of(pod) for pod in begun.running()}
        yield Cut([float(gap) for gap in found], again_s, after != set(before), fixed, attempt_s)


def lead_from(job: Job, node: str) -> None:
    """Has its controller there."""
    pod = job.until(lambda: leads(job), "a controller")
    if node_of(pod) != node:
        with job.cluster.closed(node_of(pod)):
            job.cluster.evict(pod)
            job.until(lambda: leads_instead(job, pod), f"a controller on {node}")


@pytest.mark.fault("a node's network cut for 40 s, elastic")
def test_the_others_go_on_without_a_node(cut: Cut, outcome: Outcome) -> None:
    what = "its pods are replaced" if cut.replaced else "its pods come back"
    outcome(f"the others step again after {max(cut.gaps):.1f} s; {what}, in the job {cut.again_s:.0f} s after the cut")
    assert max(cut.gaps) < SILENT_S + 10


@pytest.mark.fault("a node's network cut for 40 s, fixed size")
def test_another_attempt_follows_the_loss_of_a_node(cut: Cut, outcome: Outcome) -> None:
    outcome(f"all pods end and are made again: the next attempt begins {cut.attempt_s:.0f} s after the cut")
    assert cut.fixed.stdout.count("done after step") == 2, cut.fixed.report()


@pytest.mark.fault("a node is lost for good, and its pods are taken off the list, elastic")
def test_other_nodes_take_the_pods_of_one_that_stays_away(cluster: Cluster, begun: Job, outcome: Outcome) -> None:
    make_whole(begun)
    lead_from(begun, "n1")
    lost = {name_of(pod) for pod in begun.running() if node_of(pod) == "n2"}
    stay = {name_of(pod) for pod in begun.running()} - lost
    mark = len(begun.stdout)

    def gaps() -> list[float]:
        found = [re.findall(rf"turn \d+ {len(stay)} \d+ ([\d.]+) {pod}", begun.stdout[mark:]) for pod in stay]
        return [float(each[0]) for each in found] if all(found) else []

    with cluster.cut(cluster.nodes[1]):
        found = begun.until(gaps, "steps of the others", SILENT_S + 60)
        until(lambda: cluster.ready() == {"n1"}, "that the node counts as lost")
        # As when the node itself is taken off the list, which a cloud does for one that is gone.
        cluster.kubectl("delete", "pod", *lost, "--force", "--grace-period=0")
        given_up = time.monotonic()
        begun.until(lambda: turns(begun, PODS), "as many pods on the other node", 120)
        again_s = time.monotonic() - given_up
        assert {node_of(pod) for pod in begun.running()} == {"n1"}, begun.report()
    until(lambda: cluster.ready() == {"n1", "n2"}, "the node again")
    # What had gone on there unseen is no part of the job.
    assert set(turns(begun, PODS)) >= stay and not set(turns(begun, PODS)) & lost, begun.report()
    outcome(f"the others step again after {max(found):.1f} s; in their place others, in the job {again_s:.0f} s later")
    assert max(found) < SILENT_S + 10


def test_a_script_that_fails_again_and_again_ends_the_job(cluster: Cluster) -> None:
    with run(cluster, "broken", 2, "raise SystemExit(7)", "--min-np", "1", "--attempts", "1") as job:
        assert job.wait() == 7, job.report()
