"""One rank of bench_burst: gradients of ResNet-50 submitted at once, under one fusion threshold after the other."""

from __future__ import annotations

import os
import statistics
import sys

import ranks
import torch

import farandole.torch as hvd

MIB = 1 << 20
WARM, MEASURED = 4, 6


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


def burst(tensors: list[torch.Tensor]) -> None:
    handles = [hvd.allreduce_async_(tensor, name=f"gradient.{i}", op=hvd.Sum) for i, tensor in enumerate(tensors)]
    for handle in handles:
        hvd.synchronize(handle)


def seconds_of(threshold_mib: int, aligner: ranks.Aligner, tensors: list[torch.Tensor]) -> float:
    """Median of the bursts of one life of the job; every tensor is checked after each."""
    os.environ["HOROVOD_FUSION_THRESHOLD"] = str(threshold_mib * MIB)
    hvd.init()
    times = []
    for number in range(WARM + MEASURED):
        for i, tensor in enumerate(tensors):
            tensor.fill_(i + hvd.rank())
        seconds = ranks.timed(aligner, lambda: burst(tensors))
        for i, tensor in enumerate(tensors):
            expected = hvd.size() * i + sum(range(hvd.size()))
            if tensor.min() != expected or tensor.max() != expected:
                raise SystemExit(f"sum {i} is not {expected} everywhere")
        if number >= WARM:
            times.append(seconds)
    hvd.shutdown()
    return statistics.median(times)


def main() -> None:
    """argv: rounds, thresholds in MiB. Reports {threshold: [seconds of each round]}."""
    rounds, thresholds = int(sys.argv[1]), [int(t) for t in sys.argv[2:]]
    hvd.init()
    rank, size = hvd.rank(), hvd.size()
    hvd.shutdown()
    aligner = ranks.Aligner(rank, size)
    tensors = [torch.empty(count) for count in resnet50_counts()]
    times: dict[str, list[float]] = {str(t): [] for t in thresholds}
    for number in range(rounds):
        # Another one first every time.
        for i in range(len(thresholds)):
            threshold = thresholds[(i + number) % len(thresholds)]
            times[str(threshold)].append(seconds_of(threshold, aligner, tensors))
    if rank == 0:
        ranks.report(times)


if __name__ == "__main__":
    main()
