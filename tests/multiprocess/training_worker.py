"""Trains a small network and prints the loss of each step, summed over the whole batch of all ranks.

training_worker.py DTYPE PASSES [STEPS [PAUSE_S]]
"""

from __future__ import annotations

import os
import sys
import time

import no_compiler
import torch
from torch import nn

import farandole.torch as hvd

ROWS = 24  # of all ranks together
DEVICE = torch.empty(0).device


def batch(step: int, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    # Drawn on the CPU, so that they are the same wherever the training is.
    generator = torch.Generator("cpu").manual_seed(step)
    images = torch.randn(ROWS, 1, 8, 8, dtype=torch.float64, generator=generator, device="cpu").to(DEVICE, dtype)
    return images, (images.sum((1, 2, 3)) > 0).long()


def main() -> None:
    hvd.init()
    dtype = getattr(torch, sys.argv[1])
    passes = int(sys.argv[2])
    steps = int(sys.argv[3]) if len(sys.argv) > 3 else 50
    pause_s = float(sys.argv[4]) if len(sys.argv) > 4 else 0.0
    # One write for a line: the ranks may share the launcher's output as it is.
    os.write(1, b"pid %d %d\n" % (hvd.rank(), os.getpid()))
    torch.manual_seed(17)
    with torch.device("cpu"):
        model = nn.Sequential(
            nn.Conv2d(1, 4, 3), nn.Tanh(), nn.Flatten(), nn.Linear(144, 16), nn.Tanh(), nn.Linear(16, 2)
        )
    model.to(DEVICE, dtype)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters(), backward_passes_per_step=passes)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    rows = ROWS // hvd.size() // passes
    for step in range(steps):
        images, labels = batch(step, dtype)
        optimizer.zero_grad()
        loss_sum = torch.zeros((), dtype=dtype)
        for turn in range(passes):
            start = (hvd.rank() * passes + turn) * rows
            part = slice(start, start + rows)
            loss = nn.functional.cross_entropy(model(images[part]), labels[part]) / passes
            loss.backward()
            loss_sum += loss.detach()
        optimizer.step()
        loss_sum = hvd.allreduce(loss_sum, name="loss")
        if hvd.rank() == 0:
            os.write(1, b"loss %s\n" % repr(loss_sum.item()).encode())
        time.sleep(pause_s)
    os.write(1, b"done %d %d\n" % (hvd.rank(), os.getpid()))
    hvd.shutdown()


if __name__ == "__main__":
    no_compiler.leave_out()
    main()
