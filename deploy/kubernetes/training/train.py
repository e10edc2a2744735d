"""A small network learns to tell two rings of points apart. It needs no data and no packages beside torch."""

import torch
import torch.nn.functional as F

import farandole.torch as hvd

POINTS, STEPS = 256, 200


def points(generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Points as float32 [POINTS, 2] and the ring that each lies on, int64 [POINTS]."""
    ring = torch.randint(2, (POINTS,), generator=generator)
    angle = torch.rand(POINTS, generator=generator) * 6.2832
    radius = 1.0 + ring + 0.2 * torch.randn(POINTS, generator=generator)
    return torch.stack((radius * angle.cos(), radius * angle.sin()), 1), ring


def main() -> None:
    """Rank 0 prints how many of the points that no rank has seen are told apart."""
    hvd.init()
    device = torch.device("cpu")
    if torch.cuda.is_available():
        device = torch.device("cuda", hvd.local_rank())
        torch.cuda.set_device(device)
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(2, 32), torch.nn.ReLU(), torch.nn.Linear(32, 2)).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    mine = torch.Generator().manual_seed(1 + hvd.rank())
    for _ in range(STEPS):
        x, ring = points(mine)
        optimizer.zero_grad()
        F.cross_entropy(model(x.to(device)), ring.to(device)).backward()
        optimizer.step()
    if hvd.rank() == 0:
        x, ring = points(torch.Generator().manual_seed(0))
        right = (model(x.to(device)).argmax(1).cpu() == ring).float().mean()
        print(f"accuracy {right:.3f}, ranks {hvd.size()}", flush=True)
    hvd.shutdown()


if __name__ == "__main__":
    main()
