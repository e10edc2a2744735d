"""What it costs a job that ten statuses a second are asked for: the demo's step with and without, by turns."""

from __future__ import annotations

import os

import ranks
import report

ROUNDS = 15
STEPS = 200


def main() -> None:
    """Writes build/bench/status.json. The spread is that of the rounds without queries."""
    rounds, steps = int(os.environ.get("BENCH_ROUNDS", ROUNDS)), int(os.environ.get("BENCH_STEPS", STEPS))
    measured = ranks.start(2, "status_ranks.py", str(rounds), str(steps))
    print(f"{measured['queries']} queries were answered")
    without = [s * 1e3 for s in measured["without"]]
    asked = [s * 1e3 for s in measured["with"]]
    row = report.row("step, 2 processes, 10 queries a second", "ms", asked, without=without)
    lower, upper = report.quartiles(without)
    row.spread = [lower, upper]
    row.goal = "median changes by less than the spread (quartiles) of the rounds without"
    row.met = abs(row.value - row.peers["without"]) < upper - lower
    report.write("status", [row])


if __name__ == "__main__":
    main()
