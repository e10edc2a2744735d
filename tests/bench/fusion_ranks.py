"""One rank of bench_fusion: gradients of ResNet-50 submitted at once, or training steps, under several thresholds by
turns."""

from __future__ import annotations

import os
import statistics
import sys
from typing import Protocol

import ranks
import torch
import train_ranks
from models import Work

import farandole.torch as hvd

MIB = 1 << 20


def resnet50_counts() -> list[int]:
    """Elements of the 161 parameters of torchvision's resnet50, the last layer first."""
    counts = [64 * 3 * 49, 64, 64]
    inside = 64
    for planes, blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for block in range(blocks):
            outside = 4 * planes
            for inputs, outputs in ((inside, planes), (9 * planes, planes), (planes, outside)):
                counts += [inputs * outputs, outputs, outputs]
            if block == 0:
                counts += [inside * outside, outside, outside]
            inside = outside
    return [*counts, 2048 * 1000, 1000][::-1]


class Measured(Protocol):
    """What one life of the job repeats."""

    def seconds(self, aligner: ranks.Aligner) -> float:
        """Of one repetition after a few that do not count; median."""


class Burst:
    """All gradients at once, in place; every sum is checked after each repetition."""

    WARM, MEASURED = 4, 6

    def __init__(self) -> None:
        self._tensors = [torch.empty(count) for count in resnet50_counts()]

    def _reduce(self) -> None:
        handles = [hvd.allreduce_async_(t, name=f"gradient.{i}", op=hvd.Sum) for i, t in enumerate(self._tensors)]
        for handle in handles:
            hvd.synchronize(handle)

    def seconds(self, aligner: ranks.Aligner) -> float:
        """One burst."""
        times = []
        for _ in range(self.WARM + self.MEASURED):
            for i, tensor in enumerate(self._tensors):
                tensor.fill_(i + hvd.rank())
            times.append(ranks.timed(aligner, self._reduce))
            for i, tensor in enumerate(self._tensors):
                expected = hvd.size() * i + sum(range(hvd.size()))
                if tensor.min() != expected or tensor.max() != expected:
                    raise SystemExit(f"sum {i} is not {expected} everywhere")
        return statistics.median(times[self.WARM :])


class Steps:
    """Training with our optimizer, which goes on in the job's next life."""

    WARM, MEASURED = 10, 10

    def __init__(self, network: str) -> None:
        self._work = Work(network, hvd.rank(), wrap_optimizer=train_ranks.with_ours)

    def seconds(self, aligner: ranks.Aligner) -> float:
        """One step."""
        return statistics.median(train_ranks.steps(self._work, self.WARM + self.MEASURED, aligner)[self.WARM :])


def main() -> None:
    """argv: what ("burst of ..." or "step of NETWORK"), rounds, thresholds in MiB. Reports {threshold: [seconds of each
    round]}."""
    what, rounds, thresholds = sys.argv[1], int(sys.argv[2]), [int(t) for t in sys.argv[3:]]
    torch.set_num_threads(1)
    hvd.init()
    ranks.pin(hvd.local_rank())
    aligner = ranks.Aligner(hvd.rank(), hvd.size())
    measured: Measured = Steps(what.removeprefix("step of ")) if what.startswith("step of ") else Burst()
    hvd.shutdown()
    times: dict[int, list[float]] = {threshold: [] for threshold in thresholds}
    for number in range(rounds):
        # Another one first every time.
        shift = number % len(thresholds)
        for threshold in thresholds[shift:] + thresholds[:shift]:
            os.environ["HOROVOD_FUSION_THRESHOLD"] = str(threshold * MIB)
            hvd.init()
            times[threshold].append(measured.seconds(aligner))
            rank = hvd.rank()
            hvd.shutdown()
    if rank == 0:
        ranks.report(times)


if __name__ == "__main__":
    main()
