"""Trains a small network on scikit-learn's scanned digits while processes are lost and come.

farandole run -np 2 --min-np 1 --max-np 3 -H localhost:4 python examples/torch_elastic.py
kill -9 one of the processes: the others go on from the last commit, and another one joins them.
"""

from __future__ import annotations

import argparse
import os

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import farandole.torch as hvd
from farandole.torch import elastic


def load_data() -> tuple[TensorDataset, TensorDataset]:
    images, labels = load_digits(return_X_y=True)
    images, labels = torch.tensor(images / 16.0, dtype=torch.float32), torch.tensor(labels)
    x, x_test, y, y_test = train_test_split(images, labels, test_size=0.2, random_state=0, stratify=labels)
    return TensorDataset(x, y), TensorDataset(x_test, y_test)


def accuracy(model: nn.Module, data: TensorDataset) -> float:
    images, labels = data.tensors
    with torch.no_grad():
        return (model(images).argmax(1) == labels).float().mean().item()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=32, help="of each process")
    parser.add_argument("--lr", type=float, default=0.002, help="of one process")
    parser.add_argument("--commit-every", type=int, default=5, metavar="BATCHES")
    parser.add_argument("--loader-workers", type=int, default=0, help="data-loading processes of each process")
    args = parser.parse_args()

    # What takes long comes before init(): the others train on until this process is ready.
    train_data, test_data = load_data()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    optimizer = torch.optim.Adam(model.parameters())
    hvd.init()
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    sampler = elastic.ElasticSampler(train_data)
    state = elastic.TorchState(model, optimizer, sampler=sampler, epoch=0)

    def scale_rate() -> None:
        for group in optimizer.param_groups:
            group["lr"] = args.lr * hvd.size()

    scale_rate()
    state.register_reset_callbacks([scale_rate])

    @elastic.run
    def train(state: elastic.TorchState) -> None:
        print(f"rank {hvd.rank()} of {hvd.size()}, pid {os.getpid()}: epoch {state.epoch}", flush=True)
        while state.epoch < args.epochs:
            loader = DataLoader(
                train_data, batch_size=args.batch_size, sampler=state.sampler, num_workers=args.loader_workers
            )
            for batch, (images, labels) in enumerate(loader):
                state.optimizer.zero_grad()
                F.cross_entropy(state.model(images), labels).backward()
                state.optimizer.step()
                state.sampler.record_batch(batch, args.batch_size)
                if batch % args.commit_every == args.commit_every - 1:
                    state.commit()
            state.epoch += 1
            state.sampler.set_epoch(state.epoch)
            state.commit()

    train(state)
    if hvd.rank() == 0:
        print(f"test accuracy {accuracy(model, test_data):.4f}, processes {hvd.size()}", flush=True)
    hvd.shutdown()


if __name__ == "__main__":
    main()
