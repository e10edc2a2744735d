"""The tenants of bench_agents do what their rows say."""

from __future__ import annotations

import re

import bench_agents
import pytest


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_agents, "ATTACK_S", 2.0)


def test_tenants_misbehave() -> None:
    with bench_agents.site() as place:
        did = {kind: bench_agents.attack(place, kind, 0) for kind in bench_agents.KINDS if kind != "spinning"}
    assert int(re.fullmatch(r"(\d+) connections", did["knocking"])[1]) > 20
    kept, opened = map(int, re.fullmatch(r"(\d+) of (\d+) streams", did["streams"]).groups())
    assert kept == opened >= bench_agents.STREAMS_EACH
    with bench_agents.site(bench_agents.LIMITS) as place:
        limited = bench_agents.attack(place, "streams", 0)
    kept, opened = map(int, re.fullmatch(r"(\d+) of (\d+) streams", limited).groups())
    # Twice its agents, and those that had no answer yet.
    assert 128 <= kept <= 128 + 2 * bench_agents.STREAMS_EACH < opened, limited
    # One in flight at a time would be a job as any other.
    assert int(re.fullmatch(r"(\d+) tensors", did["announcing"])[1]) > 2000
