"""The pictures of bench_data: latency and bus bandwidth by size, for the README."""

from __future__ import annotations

from pathlib import Path

import report
from curves import Series, draw
from players import Samples

DOCS = report.ROOT / "docs" / "pictures"
BySize = dict[int, dict[str, Samples]]
Points = dict[str, list[tuple[int, float]]]

IN_MEMORY = {
    "buffer": "farandole, in batch buffers",
    "copied": "farandole, copied in and out",
    "gloo": "gloo",
    "open_mpi": "Open MPI",
    "loops": "best of four loops",
}
OVER_TCP = {"ours": "farandole", "gloo": "gloo", "sockets": "plain sockets"}
# Below, a bandwidth says what the latency says.
BUS_BYTES_MIN = 1 << 10
BOUNDS = ("loops", "sockets")


def medians(samples: BySize, names: dict[str, str]) -> Points:
    """Seconds by size of every name that was measured; "loops" are the best of them."""
    points: Points = {name: [] for name in names}
    for size, found in sorted(samples.items()):
        loops = [s.median for what, s in found.items() if what.startswith("loop_")]
        for name in names:
            if name in found:
                points[name].append((size, found[name].median))
            elif name == "loops" and loops:
                points[name].append((size, min(loops)))
    return points


def series(points: Points, names: dict[str, str], scale: float, bus_ranks: int = 0) -> list[Series]:
    """Times, or with `bus_ranks` the bus bandwidth of so many ranks as nccl-tests defines it."""

    def value(size: int, seconds: float) -> float:
        return seconds * scale if bus_ranks == 0 else 2 * (bus_ranks - 1) / bus_ranks * size / seconds * scale

    least = BUS_BYTES_MIN if bus_ranks else 0
    return [
        Series(label, [(size, value(size, seconds)) for size, seconds in points[name] if size >= least], name in BOUNDS)
        for name, label in names.items()
    ]


def draw_all(in_memory: BySize, over_tcp: dict[int, BySize], command: str, quick: bool) -> dict[str, Points]:
    """Writes the pictures into docs/pictures, those of a quick run into build/bench; returns what they show, seconds by
    bytes."""
    folder: Path = report.OUT if quick else DOCS
    machine = report.machine()
    source = f"{command}; {machine['cores']} cores of {machine['cpu']}; commit {report.commit()}; medians"
    points = medians(in_memory, IN_MEMORY)
    what = "Allreduce of float32, 2 ranks of one host"
    draw(folder / "latency.svg", what, "us", series(points, IN_MEMORY, 1e6), source)
    draw(folder / "bandwidth.svg", f"{what}: bus bandwidth", "GB/s", series(points, IN_MEMORY, 1e-9, 2), source)
    shown = {"shared memory, 2 ranks": points}
    for world, samples in over_tcp.items():
        points = medians(samples, OVER_TCP)
        title = f"Allreduce of float32 over TCP on loopback, {world} ranks: bus bandwidth"
        draw(folder / f"tcp_{world}.svg", title, "GB/s", series(points, OVER_TCP, 1e-9, world), source)
        shown[f"tcp, {world} ranks"] = points
    return shown
