"""One cluster for all tests of this folder, with our images and stand-ins for what it lacks: Indexed Jobs, and a
network that enforces policies. What became of each fault is a table at the end of the run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import images
import pytest
import substitutes
from cluster import Cluster, why_not
from node import ROOT

FOLDER = ROOT / "build" / "kubernetes"


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    if reason := why_not():
        pytest.skip(reason)
    made = Cluster(FOLDER, images.ours("controller", "worker-examples"))
    try:
        started = substitutes.begin(made)
        yield made
        over = [name for name, process in started.items() if process.poll() is not None]
        assert not over, f"{', '.join(over)} ended before the cluster; {made.logs} says why"
    finally:
        made.end()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "short: of the three minutes that say whether jobs on Kubernetes work at all")
    config.addinivalue_line("markers", "fault(name): a row of the table at the end of the run")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if mark := item.get_closest_marker("fault"):
            item.user_properties.append(("fault", mark.args[0]))


@pytest.fixture
def outcome(record_property: Callable[[str, object], None]) -> Callable[[str], None]:
    """Says what became of the test's fault."""
    return lambda text: record_property("outcome", text)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    rows = []
    for state in ("passed", "failed", "error"):
        for report in terminalreporter.stats.get(state, ()):
            known = dict(report.user_properties)
            if "fault" in known and (state != "passed" or report.when == "call"):
                rows.append((known["fault"], known["outcome"] if state == "passed" else "FAILED"))
    if rows:
        terminalreporter.section("what became of each fault")
        width = max(len(fault) for fault, _ in rows)
        for fault, text in rows:
            terminalreporter.write_line(f"{fault:{width}}  {text}")
