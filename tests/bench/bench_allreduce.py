"""Allreduce of float32 through the whole stack beside torch.distributed with gloo, 4 B to 64 MiB, 2 and 4 ranks."""

from __future__ import annotations

import statistics

import ranks
import report

SIZES = [4, 64, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20]
ROUNDS = 15
LARGE = 1 << 20


def label(bytes_: int) -> str:
    """4 B, 64 KiB, 1 MiB."""
    for unit, scale in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if bytes_ >= scale:
            return f"{bytes_ // scale} {unit}"
    return f"{bytes_} B"


def rows(world: int) -> list[report.Row]:
    """Three rows per size: time, bus bandwidth as nccl-tests defines it, and the ratio to gloo over the rounds."""
    result = ranks.start(world, "allreduce_ranks.py", str(ROUNDS), *map(str, SIZES))
    found = []
    for size in SIZES:
        ours, gloo = result[str(size)]["farandole"], result[str(size)]["gloo"]
        bus = 2 * (world - 1) / world * size / 1e9
        ratio = [g / o for g, o in zip(gloo, ours)]
        name = f"allreduce {world} ranks {label(size)}"
        found.append(report.row(f"{name} time", "us", [s * 1e6 for s in ours], gloo=[s * 1e6 for s in gloo]))
        found.append(report.row(f"{name} bus bandwidth", "GB/s", [bus / s for s in ours], gloo=[bus / s for s in gloo]))
        line = report.row(f"{name} ratio", "x", ratio)
        if world == 2:
            line.goal = "lower quartile >= 1" + (", median >= 2" if size >= LARGE else "")
            line.met = line.spread[0] >= 1 and (size < LARGE or statistics.median(ratio) >= 2)
        found.append(line)
    return found


def main() -> None:
    """Writes build/bench/allreduce.json."""
    report.write("allreduce", rows(2) + rows(4))


if __name__ == "__main__":
    main()
