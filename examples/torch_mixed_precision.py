"""Digits in mixed precision: layers in bfloat16 or float16, weights in float32, gradients scaled and clipped.

farandole run -np 2 python examples/torch_mixed_precision.py
farandole run -np 2 python examples/torch_mixed_precision.py --dtype float16
"""

from __future__ import annotations

import argparse

import torch
import torch.nn.functional as F
from torch import nn
from torch_digits import Net, accuracy, load_data

import farandole.torch as hvd


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dtype", choices=("bfloat16", "float16"), default="bfloat16")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--batch-size", type=int, default=32, help="of each process")
    parser.add_argument("--lr", type=float, default=0.002)
    args = parser.parse_args()

    hvd.init()
    torch.manual_seed(hvd.rank())
    train, test = load_data()
    images, labels = train.tensors
    model = Net()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    optimizer = hvd.DistributedOptimizer(
        optimizer, named_parameters=model.named_parameters(), compression=hvd.Compression.fp16
    )
    # float16 has few exponents: losses are scaled up, or small gradients would vanish. bfloat16 does not need it.
    scaler = torch.amp.GradScaler("cpu", enabled=args.dtype == "float16", init_scale=2.0**10)

    for step in range(args.steps):
        start = (step * hvd.size() + hvd.rank()) * args.batch_size % (len(labels) - args.batch_size)
        batch = slice(start, start + args.batch_size)
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=getattr(torch, args.dtype)):
            loss = F.cross_entropy(model(images[batch]), labels[batch])
        scaler.scale(loss).backward()
        # Reduced by now: all ranks find the same infinities and skip the same steps.
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()

    if hvd.rank() == 0:
        print(f"test accuracy {accuracy(model, test):.4f}, {args.dtype}, processes {hvd.size()}")
    hvd.shutdown()


if __name__ == "__main__":
    main()
