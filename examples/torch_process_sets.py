"""Two teams train two models side by side, then the better one is given to all. Each team is a process set.

farandole run -np 2 python examples/torch_process_sets.py
farandole run -np 4 python examples/torch_process_sets.py
"""

from __future__ import annotations

import argparse

import torch
import torch.nn.functional as F
from torch import nn
from torch_digits import accuracy, load_data

import farandole.torch as hvd


def model_of(width: int) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, width), nn.ReLU(), nn.Linear(width, 10))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=200, help="of each team")
    parser.add_argument("--batch-size", type=int, default=32, help="of each process")
    parser.add_argument("--widths", type=int, nargs=2, default=[16, 64], help="of each team's hidden layer")
    args = parser.parse_args()

    hvd.init()
    if hvd.size() < 2:
        raise SystemExit("two teams need at least two processes: farandole run -np 2 python " + __file__)
    # All ranks register all sets, in the same order; each then uses the one that it is in.
    teams = [hvd.add_process_set(list(range(first, hvd.size(), 2))) for first in range(2)]
    number = hvd.rank() % 2
    team = teams[number]

    torch.manual_seed(hvd.rank())
    train, test = load_data()
    images, labels = train.tensors
    model = model_of(args.widths[number])
    for name, tensor in sorted(model.state_dict().items()):
        hvd.broadcast_(tensor, team.ranks[0], name=name, process_set=team)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.Adam(model.parameters(), lr=0.005), named_parameters=model.named_parameters(), process_set=team
    )

    for step in range(args.steps):
        # The members of a team take the batches of a step by turns.
        start = (step * team.size() + team.rank()) * args.batch_size % (len(labels) - args.batch_size)
        batch = slice(start, start + args.batch_size)
        optimizer.zero_grad()
        F.cross_entropy(model(images[batch]), labels[batch]).backward()
        optimizer.step()

    # Beyond the teams: what each has reached, from its first rank.
    reached = hvd.allgather(torch.tensor([accuracy(model, test)]), name="accuracy")[:2].tolist()
    best = reached.index(max(reached))
    if number != best:
        model = model_of(args.widths[best])
    hvd.broadcast_parameters(model.state_dict(), root_rank=best)
    accuracies = hvd.allgather(torch.tensor([accuracy(model, test)]), name="final")
    assert bool((accuracies == accuracies[0]).all()), "all ranks have the same model now"
    if hvd.rank() == 0:
        teams_text = ", ".join(f"team {i} {value:.4f}" for i, value in enumerate(reached))
        print(f"test accuracy {accuracies[0].item():.4f} ({teams_text}), processes {hvd.size()}")
    hvd.shutdown()


if __name__ == "__main__":
    main()
