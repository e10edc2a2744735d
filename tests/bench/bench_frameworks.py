"""The front ends beside their frameworks, and that for TensorFlow beside Horovod 0.28.1 with gloo, built for the same
TensorFlow: `make bench-frameworks`.

argv: the environments, which have TensorFlow 2.15 and its Horovod, Keras 3 with its backends, JAX, and MXNet.
"""

from __future__ import annotations

import os
import statistics
import sys
from pathlib import Path

import horovod_peer
import ranks
import report
from players import Task, by_turns

QUICK = os.environ.get("FARANDOLE_BENCH_QUICK") == "1"
ROUNDS = 3 if QUICK else 11
ALONE_ROUNDS = 20 if QUICK else 200
TREE_ROUNDS = 20 if QUICK else 100
PEER = horovod_peer.NAME

# What, calls and blocks of a turn, unit and its number in a second, at most which part of Horovod's time.
BESIDE_HOROVOD = [
    (Task("keras", 0, 5, 3), "step of a Keras CNN", "ms", 1e3, 0.85),
    (Task("eager", 0, 50, 3), "one small tensor, eager", "us", 1e6, 0.3),
    (Task("function", 0, 50, 3), "one small tensor, in a function", "us", 1e6, 0.3),
    (Task("many", 0, 5, 3), "161 small tensors at once", "ms", 1e3, None),
]


def python_of(environment: Path) -> Path:
    """Its interpreter."""
    return environment / "bin" / "python"


def beside_horovod(tensorflow: Path, horovod: Path) -> list[report.Row]:
    """2 ranks; for each task a row of times and one of the part that they are of Horovod's."""
    ours, theirs = horovod_peer.players(2, "tensorflow_ranks.py", python_of(tensorflow), horovod)
    rows = []
    try:
        for task, name, unit, scale, most in BESIDE_HOROVOD:
            found = by_turns({"farandole": (ours, task), PEER: (theirs, task)}, ROUNDS)
            mine, peer = found["farandole"], found[PEER]
            times = {PEER: [s * scale for s in peer.medians]}
            rows.append(report.row(f"TensorFlow, 2 ranks: {name}", unit, [s * scale for s in mine.medians], **times))
            part = report.row(f"{name}: ours / {PEER}", "x", mine.over(peer))
            if most is not None:
                part.goal, part.met = f"at most {most}", part.value <= most
            rows.append(part)
    finally:
        ours.close()
        theirs.close()
    return rows


def over(name: str, with_us: list[float], without: list[float]) -> report.Row:
    """What the one rank of a job takes longer, in percent of a step."""
    row = report.row(name, "%", [100 * (a / b - 1) for a, b in zip(with_us, without)])
    row.goal, row.met = "under 2 %", row.value < 2
    row.part_of = "one rank: more than a step without"
    row.peers["step in ms"] = 1e3 * statistics.median(without)
    return row


def alone(way: str, python: Path) -> report.Row:
    """Of a step of the convolutional network."""
    times = ranks.start(1, "alone_ranks.py", way, str(ALONE_ROUNDS), python=str(python))
    return over(f"one rank, {way}: more than a step without", times["ours"], times["without"])


def trees(python: Path) -> list[report.Row]:
    """JAX, gradients in 161 arrays."""
    two, one = (ranks.start(n, "jax_ranks.py", str(TREE_ROUNDS), python=str(python)) for n in (2, 1))
    over_fused = [tree / fused for tree, fused in zip(two["tree"], two["fused"])]
    beside = report.row("JAX: step with a tree of 161, over one with one array", "x", over_fused)
    beside.goal, beside.met = "at most 1.1", beside.value <= 1.1
    return [
        beside,
        over("one rank, jax: more than a step without", one["tree"], one["alone"]),
        report.row("JAX: step, 2 ranks", "ms", [1e3 * t for t in two["tree"]], without=[1e3 * t for t in two["alone"]]),
        report.row("JAX: allreduce of 4 KB in a compiled function, 2 ranks", "us", [1e6 * t for t in two["small"]]),
    ]


def main(tensorflow: Path, horovod: Path, keras: Path, jax: Path, mxnet: Path) -> None:
    """Writes build/bench/frameworks.json."""
    rows = beside_horovod(tensorflow, horovod)
    rows += trees(python_of(jax))
    rows.append(alone("torch", Path(sys.executable)))
    rows += [alone(way, python_of(tensorflow)) for way in ("tensorflow", "tf.keras")]
    rows += [alone(f"keras-{backend}", python_of(keras)) for backend in ("tensorflow", "jax", "torch")]
    rows.append(alone("mxnet", python_of(mxnet)))
    report.write("frameworks", rows, "make bench-frameworks" + (" QUICK=1" if QUICK else ""))
    report.print_goals(rows)


if __name__ == "__main__":
    main(*(Path(argument) for argument in sys.argv[1:]))
