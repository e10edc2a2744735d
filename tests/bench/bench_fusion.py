"""The default fusion threshold beside others: 161 tensors of ResNet-50's sizes (102 MB) submitted at once, and training
steps."""

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


def rows(what: str, medium: str) -> list[report.Row]:
    """Two ranks under the default, with the other thresholds as its peers; the goal is a ratio within a round."""
    os.environ["FARANDOLE_COMMUNICATOR"] = medium
    os.environ["OMP_NUM_THREADS"] = "1"
    thresholds = (DEFAULT_MIB, *OTHERS_MIB)
    times = ranks.start(2, "fusion_ranks.py", what, str(ROUNDS), *map(str, thresholds))
    ms = {int(threshold): [s * 1e3 for s in seconds] for threshold, seconds in times.items()}
    others = {f"{t} MiB": ms[t] for t in OTHERS_MIB}
    whole = report.row(f"{what}, {medium}, 2 ranks, {DEFAULT_MIB} MiB", "ms", ms[DEFAULT_MIB], **others)
    best = min(OTHERS_MIB, key=lambda t: statistics.median(ms[t]))
    ratios = [default / other for default, other in zip(ms[DEFAULT_MIB], ms[best])]
    ratio = report.row(f"the same beside {best} MiB", "ratio", ratios)
    ratio.goal, ratio.met = f"at most {GOAL}", ratio.value <= GOAL
    return [whole, ratio]


def main() -> None:
    """Writes build/bench/fusion.json."""
    whats = ("burst of 102 MB", "step of resnet18", "step of gpt")
    report.write("fusion", [row for what in whats for medium in ("shm", "tcp") for row in rows(what, medium)])


if __name__ == "__main__":
    main()
