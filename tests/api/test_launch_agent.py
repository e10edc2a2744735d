"""The agent of a host, as its launcher has it."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from farandole.launch.processes import agents


def test_signals_to_one_that_could_not_be_started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """At the end of a job what has not ended is killed on all hosts, also where the agent never ran."""
    monkeypatch.setattr(agents.locate, "find", lambda name: str(tmp_path / name))
    spec = agents.AgentSpec("j", "c:1", "token", "", 0, (2,), 0, "", False, ("true",))
    said: list[str] = []
    agent = agents.LocalAgent(spec, {}, said.append)
    assert not agent.start()
    agent.send(signal.SIGTERM)
    agent.send(signal.SIGKILL)
    agent.end()
    assert said == [f"cannot start {tmp_path}/farandole-agent: No such file or directory"]
