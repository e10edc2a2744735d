"""One rank of bench_step: steps of the demo's model with our optimizer and, on several ranks, with torch's DDP."""

from __future__ import annotations

import statistics
import sys
import time

import ranks
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

import farandole.torch as hvd

sys.path.insert(0, str(ranks.HERE.parents[1] / "examples"))
from torch_digits import Net, load_data  # noqa: E402

BATCH = 32


class Trainer:
    """A model, its optimizer and batches of the demo's data."""

    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        self.model, self.optimizer = model, optimizer
        self.images, self.labels = load_data()[0].tensors
        self.position = hvd.rank() * BATCH

    def steps(self, count: int) -> float:
        """Median seconds of a step."""
        times = []
        for _ in range(count):
            begin = time.perf_counter()
            batch = slice(self.position, self.position + BATCH)
            self.optimizer.zero_grad()
            F.cross_entropy(self.model(self.images[batch]), self.labels[batch]).backward()
            self.optimizer.step()
            times.append(time.perf_counter() - begin)
            self.position = (self.position + hvd.size() * BATCH) % (len(self.labels) - BATCH)
        return statistics.median(times)


def plain(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.Adam(model.parameters(), lr=1e-3)


def main() -> None:
    """argv: rounds, steps per round. Reports {trainer: [seconds of each round]}."""
    rounds, steps = int(sys.argv[1]), int(sys.argv[2])
    hvd.init()
    torch.manual_seed(0)
    ours = Net()
    wrapped = hvd.DistributedOptimizer(plain(ours), named_parameters=ours.named_parameters())
    trainers = {"farandole": Trainer(ours, wrapped)}
    if hvd.size() > 1:
        ranks.init_gloo(hvd.rank(), hvd.size())
        theirs = nn.parallel.DistributedDataParallel(Net())
        trainers["ddp_gloo"] = Trainer(theirs, plain(theirs))
    else:
        alone = Net()
        trainers["plain_torch"] = Trainer(alone, plain(alone))
    for trainer in trainers.values():
        trainer.steps(10)
    times: dict[str, list[float]] = {name: [] for name in trainers}
    for _ in range(rounds):
        for name, trainer in trainers.items():
            times[name].append(trainer.steps(steps))
    if hvd.rank() == 0:
        ranks.report(times)
    if dist.is_initialized():
        dist.destroy_process_group()
    hvd.shutdown()


if __name__ == "__main__":
    main()
