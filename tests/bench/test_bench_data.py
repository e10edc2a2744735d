"""What bench_data is made of: ranks that take turns, judgement of what they give, pictures."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import bench_data
import curves
import peers
import pictures
import players
import pytest
from players import NotMeasuredError, Samples, Task


@pytest.mark.parametrize("bytes_", [4**k for k in range(1, 15)])
@pytest.mark.parametrize("slowness", [1, 16])
def test_a_turn_is_bounded(bytes_: int, slowness: int) -> None:
    task = players.task("any", bytes_, slowness=slowness)
    stride = max(bytes_, players.STRIDE_MIN)
    assert 1 <= task.calls <= players.CALLS_MAX and 1 <= task.blocks <= players.BLOCKS_MAX
    assert task.calls * stride <= max(players.BLOCK_BYTES, stride)
    assert task.calls * task.blocks * stride <= max(players.ROUND_BYTES, stride)


def test_native_ranks_measure_everything_that_they_are_told() -> None:
    ours = peers.ours(2)
    try:
        for what in ("shm_buffer", "shm_private", "shm_packed", "tcp", "ping_pong", "exchange", "sockets_128"):
            seconds = ours.run(Task(what, 4096, 4 if what[0] != "s" or what[1] == "h" else 1, 3))
            assert len(seconds) == 3 and all(s > 0 for s in seconds), what
        for what in bench_data.LOOPS:
            assert len(ours.run(Task(what, 1 << 20, 1, 2))) == 2
        for dtype in ("float16", "bfloat16"):
            assert len(ours.run(Task("shm_buffer", 1 << 20, 1, 2, dtype))) == 2
        with pytest.raises(NotMeasuredError, match="nobody can measure songs"):
            ours.run(Task("songs", 4, 1, 1))
    finally:
        ours.close()


def test_gloo_ranks_measure_and_refuse() -> None:
    gloo = peers.gloo(2)
    try:
        assert len(gloo.run(players.task("gloo", 100000, slowness=16))) >= 1
        with pytest.raises(NotMeasuredError, match="gloo does not measure shm"):
            gloo.run(Task("shm", 4, 1, 1))
    finally:
        gloo.close()


def test_ranks_that_do_not_come_are_said() -> None:
    with pytest.raises(NotMeasuredError, match="nobody ended with code 3"):
        players.Player("nobody", 1, lambda path: ["sh", "-c", "exit 3"])


class Script:
    """A player that answers with the numbers of its turns."""

    def __init__(self, log: list[str], name: str) -> None:
        self._log, self._name = log, name

    def run(self, task: Task) -> list[float]:
        self._log.append(self._name)
        return [1.0, 2.0, 9.0]


def test_turns_begin_with_another_each_round() -> None:
    log: list[str] = []
    turns = {name: (Script(log, name), Task("x", 4, 1, 1)) for name in "abc"}
    found = players.by_turns(turns, 3)  # type: ignore[arg-type]
    assert "".join(log) == "abc" + "abc" + "bca" + "cab"
    assert found["a"].medians == [2.0] * 3
    assert found["a"].p99 == 9.0


def constant(seconds: float) -> Samples:
    return Samples([[seconds]] * bench_data.ROUNDS)


def in_memory(**seconds: float) -> bench_data.SharedMemory:
    shm = bench_data.SharedMemory(None, None, None)  # type: ignore[arg-type]
    times = {"buffer": 1, "copied": 1, "gloo": 10, "open_mpi": 3, "float16": 1, "bfloat16": 1}
    times |= dict.fromkeys(bench_data.LOOPS, 0.95)
    found = {name: constant(value) for name, value in {**times, **seconds}.items() if value}
    shm.samples = dict.fromkeys(bench_data.SIZES, found)
    return shm


def missed(shm: bench_data.SharedMemory) -> list[str]:
    return [row.name for row in shm.judge() if not row.met]


def test_every_goal_can_be_met_and_missed() -> None:
    assert missed(in_memory()) == []
    for change, wanted in (
        ({"gloo": 7.9}, "gloo / ours, 1 MiB"),
        ({"open_mpi": 0.9}, "open_mpi / ours, 4 B"),
        ({"open_mpi": 1.9}, "geometric mean"),
        ({"copied": 11}, "copied in and out, gloo / ours"),
        ({"copied": 3.2}, "copied in and out, open_mpi / ours"),
        ({bench_data.LOOPS[2]: 0.8}, "buffer: share of the best loop's rate"),
        ({"float16": 1.1}, " float16: share"),
        ({"bfloat16": 1.1}, "bfloat16: share"),
        ({"open_mpi": 0}, "open_mpi was not measured"),
    ):
        assert any(wanted in name for name in missed(in_memory(**change))), change


def test_pictures_are_drawn_within_their_frame(tmp_path: Path) -> None:
    points = [(4.0, 0.1), (4096.0, 2.0), (float(64 << 20), 50000.0)]
    series = [curves.Series("one & only", points), curves.Series("bound", points[1:], dashed=True)]
    series.append(curves.Series("nothing", []))
    curves.draw(tmp_path / "deep" / "x.svg", "A title", "us", series, "a source")
    root = ElementTree.parse(tmp_path / "deep" / "x.svg").getroot()
    name = "{http://www.w3.org/2000/svg}"
    circles = root.findall(f"{name}circle")
    assert len(circles) == 5
    for circle in circles:
        assert curves.LEFT <= float(circle.get("cx")) <= curves.WIDTH - curves.RIGHT
        assert curves.TOP <= float(circle.get("cy")) <= curves.HEIGHT - curves.BOTTOM
    words = [text.text for text in root.findall(f"{name}text")]
    assert {"A title, us", "a source", "one & only", "bound", "64 MiB"} <= set(words) and "nothing" not in words


def test_bus_bandwidth_is_that_of_nccl_tests() -> None:
    points = pictures.medians({1 << 20: {"ours": constant(0.5)}}, pictures.OVER_TCP)
    line = pictures.series(points, pictures.OVER_TCP, 1.0, bus_ranks=4)[0]
    assert line.points == [(1 << 20, 2 * 3 / 4 * (1 << 20) / 0.5)]
