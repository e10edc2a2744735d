"""A worker of bench_elastic.py: trains a small model, and tells when each turn has taken its first step."""

from __future__ import annotations

import os
import sys
import time

began = time.monotonic()

import torch  # noqa: E402

alone = time.monotonic()

# Which torch.optim imports for the first optimizer of a process, whoever uses it.
import torch._dynamo  # noqa: E402
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402

imported = time.monotonic()

import farandole.torch as hvd  # noqa: E402
from farandole.torch import elastic  # noqa: E402


def main() -> None:
    """Trains until it is ended; the argument is the number of data-loader workers."""
    loaders = int(sys.argv[1])

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    data = TensorDataset(torch.randn(4096, 64), torch.randint(10, (4096,)))
    hvd.init()
    print(f"import {os.getpid()} {alone - began} {imported - began}", flush=True)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    sampler = elastic.ElasticSampler(data)
    state = elastic.TorchState(model, optimizer, sampler=sampler, epoch=0)

    @elastic.run
    def train(state: elastic.TorchState) -> None:
        first = True
        while True:
            for batch, (x, y) in enumerate(DataLoader(data, 16, sampler=state.sampler, num_workers=loaders)):
                state.optimizer.zero_grad()
                torch.nn.functional.cross_entropy(state.model(x), y).backward()
                state.optimizer.step()
                if first:
                    first = False
                    print(f"first {hvd.rank()} {hvd.size()} {os.getpid()} {time.monotonic()}", flush=True)
                state.sampler.record_batch(batch, 16)
                state.commit()
            state.epoch += 1
            state.sampler.set_epoch(state.epoch)

    train(state)


if __name__ == "__main__":
    main()
