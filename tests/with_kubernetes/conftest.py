"""One cluster for all tests of this folder, with our images and a stand-in for Indexed Jobs."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import images
import pytest
from cluster import ROOT, Cluster, why_not

FOLDER = ROOT / "build" / "kubernetes"


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    if reason := why_not():
        pytest.skip(reason)
    archives = images.ours("controller", "worker-examples")
    made = Cluster(FOLDER)
    try:
        for archive in archives:
            made.load(archive)
        with (made.logs / "indexed_jobs.log").open("w") as log:
            script = ROOT / "tests" / "with_kubernetes" / "indexed_jobs.py"
            made.python(str(script), stdout=log, stderr=subprocess.STDOUT)
        yield made
    finally:
        made.end()
