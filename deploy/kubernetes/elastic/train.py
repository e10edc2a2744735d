"""A small network learns to tell two rings of points apart, while processes come and go."""

import torch
import torch.nn.functional as F

import farandole.torch as hvd
from farandole.torch import elastic

POINTS, STEPS = 256, 200


def points(generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Points as float32 [POINTS, 2] and the ring that each lies on, int64 [POINTS]."""
    ring = torch.randint(2, (POINTS,), generator=generator)
    angle = torch.rand(POINTS, generator=generator) * 6.2832
    radius = 1.0 + ring + 0.2 * torch.randn(POINTS, generator=generator)
    return torch.stack((radius * angle.cos(), radius * angle.sin()), 1), ring


def main() -> None:
    """Rank 0 prints how many of the points that no rank has seen are told apart."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(2, 32), torch.nn.ReLU(), torch.nn.Linear(32, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    hvd.init()
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    state = elastic.TorchState(model, optimizer, step=0)

    @elastic.run
    def train(state: elastic.TorchState) -> None:
        while state.step < STEPS:
            # Other points in each step and on each rank, whichever ranks there are.
            x, ring = points(torch.Generator().manual_seed(1 + state.step * 65536 + hvd.rank()))
            optimizer.zero_grad()
            F.cross_entropy(model(x), ring).backward()
            optimizer.step()
            state.step += 1
            state.commit()

    train(state)
    if hvd.rank() == 0:
        x, ring = points(torch.Generator().manual_seed(0))
        right = (model(x).argmax(1) == ring).float().mean()
        print(f"accuracy {right:.3f}, ranks {hvd.size()}", flush=True)
    hvd.shutdown()


if __name__ == "__main__":
    main()
