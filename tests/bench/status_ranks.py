"""One rank of bench_status: the same steps with and without queries, by turns. Rank 0 also drives the queries."""

from __future__ import annotations

import os
import subprocess
import sys

import ranks
import step_ranks
import torch

import farandole.torch as hvd
from farandole.launch.status import job_files


class Queries:
    """tests/bench/status_load against the controller of this job."""

    def __init__(self) -> None:
        program = ranks.HERE.parents[1] / "bazel-bin" / "tests" / "bench" / "status_load"
        (file,) = [f for f in job_files.read_all() if f.job == os.environ["FARANDOLE_JOB"]]
        self._process = subprocess.Popen(
            [program, file.controller, file.job], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.turn(file.token)

    def turn(self, word: str) -> int:
        """Says the token first, then turns them "on" or "off"; returns how many have been answered so far."""
        self._process.stdin.write(f"{word}\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def close(self) -> None:
        self._process.stdin.close()
        self._process.wait()


def main() -> None:
    """argv: rounds, steps per round. Reports {"without", "with": [seconds of each round]} and "queries"."""
    rounds, steps = int(sys.argv[1]), int(sys.argv[2])
    hvd.init()
    aligner = ranks.Aligner(hvd.rank(), hvd.size())
    torch.manual_seed(0)
    model = step_ranks.Net()
    optimizer = hvd.DistributedOptimizer(step_ranks.plain(model), named_parameters=model.named_parameters())
    trainer = step_ranks.Trainer(model, optimizer)
    queries = Queries() if hvd.rank() == 0 else None
    trainer.steps(50)
    times: dict[str, list[float]] = {"without": [], "with": []}
    answered = 0
    for turn in range(2 * rounds):
        # Which one is first changes, so that a drift of the machine cancels out.
        name = ("without", "with")[(turn + turn // 2) % 2]
        if queries is not None:
            answered = queries.turn("on" if name == "with" else "off")
        aligner.wait(ranks.rest)
        times[name].append(trainer.steps(steps))
        aligner.wait(ranks.rest)
    if queries is not None:
        answered = queries.turn("off")
        queries.close()
        ranks.report({**times, "queries": answered})
    hvd.shutdown()


if __name__ == "__main__":
    main()
