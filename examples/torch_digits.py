"""Trains a small convolutional network on scikit-learn's scanned digits, with any number of processes.

farandole run -np 2 python examples/torch_digits.py
python examples/torch_digits.py
"""

from __future__ import annotations

import argparse
import time

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler
from tqdm import tqdm

import farandole.torch as hvd


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3, padding=1)
        self.conv2 = nn.Conv2d(16, 32, 3, padding=1)
        self.fc1 = nn.Linear(32 * 4 * 4, 64)
        self.fc2 = nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.relu(self.conv1(x))
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = F.relu(self.fc1(x.flatten(1)))
        return self.fc2(x)


def load_data() -> tuple[TensorDataset, TensorDataset]:
    images, labels = load_digits(return_X_y=True)
    images = torch.tensor(images / 16.0, dtype=torch.float32).reshape(-1, 1, 8, 8)
    labels = torch.tensor(labels)
    x, x_test, y, y_test = train_test_split(images, labels, test_size=0.2, random_state=0, stratify=labels)
    return TensorDataset(x, y), TensorDataset(x_test, y_test)


def accuracy(model: nn.Module, data: TensorDataset) -> float:
    model.eval()
    images, labels = data.tensors
    with torch.no_grad():
        return (model(images).argmax(1) == labels).float().mean().item()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--batch-size", type=int, default=32, help="of each process")
    parser.add_argument("--lr", type=float, default=0.001, help="of one process")
    args = parser.parse_args()

    hvd.init()
    started = time.monotonic()
    torch.manual_seed(hvd.rank())  # weights differ here, broadcast_parameters makes them equal

    train, test = load_data()
    sampler = DistributedSampler(train, num_replicas=hvd.size(), rank=hvd.rank())
    loader = DataLoader(train, batch_size=args.batch_size, sampler=sampler)

    model = Net()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr * hvd.size())
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())

    for epoch in range(args.epochs):
        model.train()
        sampler.set_epoch(epoch)
        progress = tqdm(loader, desc=f"epoch {epoch + 1}/{args.epochs}", disable=hvd.rank() != 0)
        for images, labels in progress:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
            progress.set_postfix(loss=f"{loss.item():.3f}", refresh=False)

    if hvd.rank() == 0:
        seconds = time.monotonic() - started
        print(f"test accuracy {accuracy(model, test):.4f}, processes {hvd.size()}, seconds {seconds:.1f}")
    hvd.shutdown()


if __name__ == "__main__":
    main()
