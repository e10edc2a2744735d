"""What stands in on the nodes for what the cluster lacks: Indexed Jobs, and a network that enforces policies."""

from __future__ import annotations

import subprocess
from pathlib import Path

from cluster import Cluster
from node import ROOT, Node

HERE = ROOT / "tests" / "with_kubernetes"


def begin(cluster: Cluster) -> dict[str, subprocess.Popen[str]]:
    """By a name; they end with the cluster."""
    started = {"indexed_jobs of n1": _start(cluster.nodes[0], "indexed_jobs", cluster.logs)}
    for node in cluster.nodes:
        started[f"policies of {node.name}"] = _start(node, "policies", cluster.logs / node.name)
    return started


def _start(node: Node, name: str, folder: Path) -> subprocess.Popen[str]:
    with (folder / f"{name}.log").open("w") as log:
        return node.python(str(HERE / f"{name}.py"), stdout=log, stderr=subprocess.STDOUT)
