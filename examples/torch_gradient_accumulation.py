"""Digits in steps of several small batches: gradients add up in each process and are reduced once a step.

farandole run -np 2 python examples/torch_gradient_accumulation.py --passes 4
"""

from __future__ import annotations

import argparse

import torch
import torch.nn.functional as F
from torch_digits import Net, accuracy, load_data

import farandole.torch as hvd


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--passes", type=int, default=4, help="backward passes in a step")
    parser.add_argument("--batch-size", type=int, default=16, help="of each pass of each process")
    parser.add_argument("--lr", type=float, default=0.003)
    args = parser.parse_args()

    hvd.init()
    torch.manual_seed(hvd.rank())
    train, test = load_data()
    images, labels = train.tensors
    model = Net()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    optimizer = hvd.DistributedOptimizer(
        optimizer, named_parameters=model.named_parameters(), backward_passes_per_step=args.passes
    )

    position = hvd.rank() * args.batch_size
    for _ in range(args.steps):
        optimizer.zero_grad()
        for _ in range(args.passes):
            batch = slice(position, position + args.batch_size)
            # Gradients of the passes are summed: their mean is wanted.
            (F.cross_entropy(model(images[batch]), labels[batch]) / args.passes).backward()
            position = (position + hvd.size() * args.batch_size) % (len(labels) - args.batch_size)
        optimizer.step()

    if hvd.rank() == 0:
        together = args.batch_size * args.passes * hvd.size()
        print(f"test accuracy {accuracy(model, test):.4f}, images in a step {together}, processes {hvd.size()}")
    hvd.shutdown()


if __name__ == "__main__":
    main()
