"""Memory and threads that importing and init add to a process beside gloo's, and the size of the wheel."""

from __future__ import annotations

import ranks
import report

ROUNDS = 5
WHAT = [
    ("import and init add threads", "init threads", "", 1),
    ("import and init add resident", "init kib", "MiB", 1024),
    ("import, init and 1 MiB allreduce add threads", "use threads", "", 1),
    ("import, init and 1 MiB allreduce add resident", "use kib", "MiB", 1024),
]


def main() -> None:
    """Writes build/bench/footprint.json."""
    found: dict[str, list[dict]] = {"farandole": [], "gloo": []}
    for _ in range(ROUNDS):
        for peer, results in found.items():
            results.append(ranks.start(2, "footprint_ranks.py", peer))
    rows = [
        report.row(
            name, unit, [r[key] / scale for r in found["farandole"]], gloo=[r[key] / scale for r in found["gloo"]]
        )
        for name, key, unit, scale in WHAT
    ]
    wheels = list((report.ROOT / "build" / "wheel" / "dist").glob("farandole-*.whl"))
    rows += [report.Row("wheel", wheel.stat().st_size / 2**20, "MiB") for wheel in wheels]
    report.write("footprint", rows)


if __name__ == "__main__":
    main()
