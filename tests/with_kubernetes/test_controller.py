"""A job of a fixed size while its controller is killed, deleted, moved: no fault of the controller costs a step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from cluster import Cluster
from jobs import STEADY, Job, kill, leads, leads_instead, longest_step, name_of, node_of, run, steps

# Of a machine of two cores on which pods start meanwhile; a lost connection would cost more.
LONGEST_S = 5.0


@pytest.fixture(scope="module")
def steady(cluster: Cluster) -> Iterator[Job]:
    """A job that has begun, and goes on until all faults have been; then it ends as if nothing had been."""
    with run(cluster, "steady", 2, STEADY) as job:
        job.until(lambda: len(steps(job.stdout)) == 2, "steps")
        yield job
        job.enough()
        assert job.wait() == 0, job.report()
        assert job.stdout.count("done after step") == 2, job.report()


def starts(pod: Any) -> int:
    """How often its container has been started again."""
    return pod["status"]["containerStatuses"][0]["restartCount"]


@pytest.mark.fault("kill -9 of the controller")
def test_a_killed_controller_costs_no_step(steady: Job, outcome: Callable[[str], None]) -> None:
    before = steady.until(lambda: leads(steady), "a controller")

    def again() -> bool:
        pod = leads(steady)
        return pod is not None and starts(pod) > starts(before)

    def fault() -> None:
        kill(name_of(before), "farandole-controller")
        steady.until(again, "the controller again")

    longest = longest_step(lambda: steady.stdout, 2, fault)
    outcome(f"started again in its pod; no step lost, longest step {longest:.2f} s")
    assert longest < LONGEST_S


@pytest.mark.short
@pytest.mark.fault("controller's pod deleted")
def test_a_deleted_controller_costs_no_step(cluster: Cluster, steady: Job, outcome: Callable[[str], None]) -> None:
    before = steady.until(lambda: leads(steady), "a controller")

    def fault() -> None:
        cluster.kubectl("delete", "pod", name_of(before), "--wait=false")
        steady.until(lambda: leads_instead(steady, before), "another controller")

    longest = longest_step(lambda: steady.stdout, 2, fault)
    outcome(f"made again; no step lost, longest step {longest:.2f} s")
    assert longest < LONGEST_S


@pytest.mark.fault("controller's pod evicted, to another node")
def test_a_controller_on_another_node_costs_no_step(
    cluster: Cluster, steady: Job, outcome: Callable[[str], None]
) -> None:
    before = steady.until(lambda: leads(steady), "a controller")

    def fault() -> None:
        with cluster.closed(node_of(before)):
            cluster.evict(before)
            after = steady.until(lambda: leads_instead(steady, before), "another controller")
        assert node_of(after) != node_of(before)

    longest = longest_step(lambda: steady.stdout, 2, fault)
    outcome(f"made again on the other node; no step lost, longest step {longest:.2f} s")
    assert longest < LONGEST_S
