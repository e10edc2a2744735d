"""A worker of bench_horovod's elastic job: small steps until it is ended, each a line in a file: process, rank, size,
time. argv: `farandole` or `horovod`, the file."""

import importlib
import os
import sys
import time

import torch

hvd = importlib.import_module(f"{sys.argv[1]}.torch")
hvd.init()
model = torch.nn.Linear(64, 10)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
state = hvd.elastic.TorchState(model, optimizer, step=0)
lines = os.open(sys.argv[2], os.O_WRONLY | os.O_APPEND)


@hvd.elastic.run
def train(state: object) -> None:
    """Steps that are committed one by one."""
    while True:
        optimizer.zero_grad()
        model(torch.randn(16, 64)).square().mean().backward()
        optimizer.step()
        state.step += 1
        os.write(lines, f"{os.getpid()} {hvd.rank()} {hvd.size()} {time.monotonic()}\n".encode())
        state.commit()
        # What is left of it when the other worker is killed counts as recovery.
        time.sleep(0.001)


train(state)
