"""Steps of JAX with gradients in 161 arrays: `make bench-jax`.

argv: the Python that has JAX.
"""

from __future__ import annotations

import sys

import ranks
import report

ROUNDS = 100


def main(python: str) -> None:
    """Writes build/bench/jax.json."""
    two, one = (ranks.start(n, "jax_ranks.py", str(ROUNDS), python=python) for n in (2, 1))
    over_fused = [tree / fused for tree, fused in zip(two["tree"], two["fused"])]
    beside = report.row("step with a tree of 161, over one with one array", "x", over_fused)
    beside.goal, beside.met = "at most 1.1", beside.value <= 1.1
    over_alone = [100 * (tree / alone - 1) for tree, alone in zip(one["tree"], one["alone"])]
    lone = report.row("one rank: more than a step without", "%", over_alone)
    lone.goal, lone.met = "under 2 %", lone.value < 2
    rows = [
        beside,
        lone,
        report.row("step, 2 ranks", "ms", [1e3 * t for t in two["tree"]], without=[1e3 * t for t in two["alone"]]),
        report.row("allreduce of 4 KB in a compiled function, 2 ranks", "us", [1e6 * t for t in two["small"]]),
    ]
    report.write("jax", rows, "make bench-jax")
    report.print_goals(rows)


if __name__ == "__main__":
    main(sys.argv[1])
