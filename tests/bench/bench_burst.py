"""161 tensors of ResNet-50's sizes (102 MB) submitted at once: the default fusion threshold beside others."""

from __future__ import annotations

import os
import statistics

import ranks
import report

ROUNDS = 7
DEFAULT_MIB = 128
OTHERS_MIB = (32, 8, 1)
# The default may take that much longer than the quickest.
GOAL = 1.05


def rows(medium: str, world: int) -> list[report.Row]:
    """The default, with the other thresholds as its peers; the goal is a ratio within a round."""
    os.environ["FARANDOLE_COMMUNICATOR"] = medium
    thresholds = (DEFAULT_MIB, *OTHERS_MIB)
    times = ranks.start(world, "burst_ranks.py", str(ROUNDS), *map(str, thresholds))
    ms = {int(threshold): [s * 1e3 for s in seconds] for threshold, seconds in times.items()}
    others = {f"{t} MiB": ms[t] for t in OTHERS_MIB}
    whole = report.row(f"burst of 102 MB, {medium}, {world} ranks, {DEFAULT_MIB} MiB", "ms", ms[DEFAULT_MIB], **others)
    best = min(OTHERS_MIB, key=lambda t: statistics.median(ms[t]))
    ratios = [default / other for default, other in zip(ms[DEFAULT_MIB], ms[best])]
    ratio = report.row(f"the same beside {best} MiB", "ratio", ratios)
    ratio.goal, ratio.met = f"at most {GOAL}", ratio.value <= GOAL
    return [whole, ratio]


def main() -> None:
    """Writes build/bench/burst.json."""
    report.write("burst", rows("shm", 2) + rows("tcp", 2))


if __name__ == "__main__":
    main()
