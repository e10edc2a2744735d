"""One file for all ranks: who was ready when, valid JSON at any moment, also for batches that no controller sees."""

from __future__ import annotations

import collections
import json
from pathlib import Path

import processes
import pytest

SCRIPT = """
    import json
    path, steps, call = os.environ["TEST_PATH"], int(os.environ["TEST_STEPS"]), os.environ["TEST_START"] == "call"
    hvd.init()
    if call:
        hvd.start_timeline(path, mark_cycles=True)
    for step in range(steps):
        if hvd.rank() == hvd.size() - 1:
            time.sleep(0.03)  # always the last
        hvd.allreduce(ones(4), name="gradient", op=hvd.Sum)
    if hvd.rank() == 0:
        time.sleep(0.2)
        print("alive", len(json.load(open(path))))
    hvd.barrier()
    if call:
        hvd.stop_timeline()
        hvd.stop_timeline()
    hvd.allreduce(ones(4), name="after", op=hvd.Sum)
    hvd.shutdown()
"""


def spans(events: list[dict]) -> dict[str, list[dict]]:
    """Complete NEGOTIATE spans by tensor: begin, end, and the time at which each rank was ready."""
    names = {e["pid"]: e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == "process_name"}
    found: dict[str, list[dict]] = collections.defaultdict(list)
    stacks: dict[int, list[dict]] = collections.defaultdict(list)
    for event in events:
        stack = stacks[event["pid"]]
        if event["ph"] == "B":
            stack.append({"name": event["name"], "begin": event["ts"], "ready": {}})
        elif event["ph"] == "X":
            stack[-1]["ready"][int(event["name"])] = event["ts"]
        elif event["ph"] == "E":
            span = stack.pop()
            span["end"], span["args"] = event["ts"], event.get("args")
            found[names[event["pid"]] + "/" + span["name"]].append(span)
    assert not any(stacks.values()), "every span ends"
    return found


@pytest.mark.parametrize("start", ["environment", "call"])
@pytest.mark.parametrize("size", [1, 3])
def test_shows_all_ranks(tmp_path: Path, size: int, start: str) -> None:
    path = tmp_path / "timeline.json"
    steps = 40
    variables = {"TEST_PATH": str(path), "TEST_STEPS": str(steps), "TEST_START": start}
    if start == "environment":
        variables.update(HOROVOD_TIMELINE=str(path), HOROVOD_TIMELINE_MARK_CYCLES="1")
    job = processes.launch(tmp_path, size, SCRIPT, **variables)
    assert job.wait() == 0, job.report()
    assert int(job.lines("alive ")[0]) > steps, "the file is behind the job"
    events = json.loads(path.read_text())
    found = spans(events)
    negotiated = found["allreduce.gradient/NEGOTIATE_ALLREDUCE"]
    assert len(negotiated) == steps
    assert len(found["allreduce.gradient/ALLREDUCE"]) == steps
    assert ("allreduce.after/ALLREDUCE" in found) == (start == "environment")
    assert found["allreduce.gradient/ALLREDUCE"][0]["args"] == {"dtype": "float64", "shape": "[4]"}
    assert sum(e["ph"] == "i" and e["name"] == "CYCLE_START" for e in events) >= steps
    for span in negotiated:
        assert all(span["begin"] <= ts <= span["end"] for ts in span["ready"].values()), span
    complete = [span for span in negotiated if len(span["ready"]) == size]
    assert len(complete) >= steps * 3 // 4, "reports are missing"
    late = [span for span in complete if max(span["ready"], key=span["ready"].get) == size - 1]
    assert len(late) >= len(complete) * 3 // 4, "the rank that sleeps is the last"


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    script = """
        hvd.init()
        try:
            hvd.start_timeline("/nowhere/timeline.json")
        except ValueError as error:
            print("refused:", error)
        hvd.shutdown()
        try:
            hvd.start_timeline("/nowhere/timeline.json")
        except ValueError as error:
            print("refused:", error)
    """
    job = processes.launch(tmp_path, 1, script)
    assert job.wait() == 0, job.report()
    refused = job.lines("refused: ")
    assert refused[0] == "cannot write the timeline to /nowhere/timeline.json: No such file or directory"
    assert "not been initialized" in refused[1]
