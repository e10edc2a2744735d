"""Step time of the demo's model, 32 samples per process: one process beside plain torch, two beside DDP with gloo."""

from __future__ import annotations

import os

import ranks
import report

ROUNDS = 15
STEPS = 30


def main() -> None:
    """Writes build/bench/step.json."""
    # The same threads for one process as for each of two.
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, len(os.sched_getaffinity(0)) // 2)))
    rows = []
    for world in (1, 2):
        times = {
            name: [s * 1e3 for s in v]
            for name, v in ranks.start(world, "step_ranks.py", str(ROUNDS), str(STEPS)).items()
        }
        rows.append(report.row(f"step, {world} process" + "es" * (world > 1), "ms", times.pop("farandole"), **times))
    report.write("step", rows)


if __name__ == "__main__":
    main()
