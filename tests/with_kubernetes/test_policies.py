"""NetworkPolicies of ours on nodes that enforce them: jobs work beside them, and strangers are kept out."""

from __future__ import annotations

import errno
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest
import shared
from cluster import Cluster
from jobs import STEADY, Job, leads, name_of, node_of, process_of, run, steps
from node import until
from policies import Rules, UnknownPolicyError

Outcome = Callable[[str], None]


def listening(job: Job, pod: Any) -> int:
    """A port on which the rank of a pod waits for the others."""
    code = "awk '$4 == \"0A\" {print $2}' /proc/net/tcp"
    said = job.cluster.kubectl("exec", name_of(pod), "--", "sh", "-c", code).stdout
    ports = [int(line.split(":")[1], 16) for line in said.split() if not line.startswith("0100007F")]
    assert ports, said
    return ports[0]


@pytest.mark.fault("a stranger at the pods of a job, NetworkPolicy of the job")
def test_only_pods_of_a_job_reach_its_pods(cluster: Cluster, outcome: Outcome) -> None:
    with run(cluster, "closed", 2, STEADY) as job, shared.bystander(cluster, "stranger", node="n1") as stranger:
        # Its ranks come together, and its agents to the controller, beside the policy.
        job.until(lambda: len(steps(job.stdout)) == 2, "steps")
        pods = job.running()
        assert {node_of(pod) for pod in pods} == {"n1", "n2"}
        places = [(pod["status"]["podIP"], listening(job, pod)) for pod in pods]
        places.append((leads(job)["status"]["podIP"], shared.AGENTS))
        assert [stranger.reaches(*place) for place in places] == [False, False, False]
        cluster.kubectl("delete", "networkpolicy", "closed")
        for place in places:
            job.until(lambda place=place: stranger.reaches(*place), f"the way to {place}", 10)
        job.enough()
        assert job.wait() == 0, job.report()
    outcome("ranks, on both nodes, and controller are not reached; without the policy they are")


@pytest.mark.fault("strangers at the shared controller, NetworkPolicy of deploy/kubernetes/base")
def test_only_agents_reach_the_shared_controller(cluster: Cluster, outcome: Outcome) -> None:
    with ExitStack() as stack:
        stack.enter_context(shared.controller(cluster))
        first, second, agent, watcher = (
            stack.enter_context(shared.bystander(cluster, name, labels, node))
            for name, labels, node in (
                ("stranger-1", {}, "n1"),
                ("stranger-2", {}, "n2"),
                ("agent", shared.LABELS, ""),
                ("prometheus", {"app.kubernetes.io/name": "prometheus"}, ""),
            )
        )
        pod = shared.controller_pod(cluster)
        address = pod["status"]["podIP"]
        # Nodes learn of new pods within some tenths of a second.
        until(lambda: agent.reaches(address, shared.AGENTS) and watcher.reaches(address, shared.METRICS), "a way", 10)
        reached = {
            who.name: [who.reaches(address, port) for port in (shared.AGENTS, shared.METRICS)]
            for who in (first, second, agent, watcher)
        }
        nothing, agents, metrics = [False, False], [True, False], [False, True]
        assert reached == {"stranger-1": nothing, "stranger-2": nothing, "agent": agents, "prometheus": metrics}
        # From its network, as there is no shell in its image: to a pod that nothing protects.
        assert not goes_out(pod, second.address())
        cluster.kubectl("delete", "networkpolicy", shared.CONTROLLER)
        for port in (shared.AGENTS, shared.METRICS):
            until(lambda port=port: first.reaches(address, port) and second.reaches(address, port), "a way", 10)
        until(lambda: goes_out(pod, second.address()), "the way out", 10)
    outcome("agents alone reach it, Prometheus alone its metrics, it reaches nobody; without the policy all do")


def goes_out(pod: Any, address: str) -> bool:
    """Whether a process in the controller's network reaches another pod: which refuses, as it listens nowhere."""
    pid = process_of(name_of(pod), "farandole-controller")
    code = f"import socket; s = socket.socket(); s.settimeout(2); print(s.connect_ex(('{address}', 9)))"
    words = ["nsenter", "-t", str(pid), "--net", sys.executable, "-c", code]
    said = subprocess.run(words, capture_output=True, text=True, check=True, timeout=20)
    return int(said.stdout) == errno.ECONNREFUSED


@pytest.mark.parametrize(
    "spec",
    [
        {"ingress": [{"from": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}]},
        {"ingress": [{"ports": [{"port": 7000, "endPort": 7002}]}]},
        {"ingress": [{"ports": [{"port": 7000, "protocol": "UDP"}]}]},
        {"ingress": [{"from": [{"podSelector": {"matchExpressions": [{"key": "x", "operator": "Exists"}]}}]}]},
        {"egress": [{"ports": [{"port": "agents"}]}]},
    ],
)
def test_what_the_stand_in_does_not_enforce_is_refused(spec: dict[str, Any]) -> None:
    """Needs no cluster."""
    about = {"name": "any", "namespace": "default"}
    pod = {"metadata": about, "spec": {"containers": []}, "status": {"phase": "Running", "podIP": "10.77.1.2"}}
    kinds = [{"ingress": "Ingress", "egress": "Egress"}[name] for name in spec]
    policy = {"metadata": about, "spec": {"podSelector": {}, "policyTypes": kinds, **spec}}
    with pytest.raises(UnknownPolicyError, match="not enforced here"):
        Rules([policy], [pod], [{"metadata": {"name": "default"}}]).text()
