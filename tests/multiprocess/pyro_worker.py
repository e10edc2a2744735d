"""Variational inference with Pyro's HorovodOptimizer, as its example uses it: an optimizer for each parameter, made
where the parameter is first seen, which is after its first backward pass."""

from __future__ import annotations

import pyro
import pyro.distributions as dist
import torch
from pyro.infer import SVI, Trace_ELBO
from pyro.infer.autoguide import AutoNormal
from pyro.optim import Adam, HorovodOptimizer
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

import horovod.torch as hvd

ROWS, BATCH = 256, 16
WEIGHTS = torch.tensor([1.5, -0.5, 0.25])


def model(rows: torch.Tensor, values: torch.Tensor) -> None:
    weights = pyro.sample("weights", dist.Normal(0.0, 1.0).expand([3]).to_event(1))
    scale = pyro.sample("scale", dist.LogNormal(0.0, 1.0))
    with pyro.plate("data", ROWS, len(rows)):
        pyro.sample("values", dist.Normal(rows @ weights, scale), obs=values)


def training() -> None:
    drawn = torch.Generator().manual_seed(3)
    rows = torch.randn(ROWS, 3, generator=drawn)
    values = rows @ WEIGHTS + 0.1 * torch.randn(ROWS, generator=drawn)
    data = TensorDataset(rows, values)
    sampler = DistributedSampler(data, hvd.size(), hvd.rank())
    loader = DataLoader(data, batch_size=BATCH, sampler=sampler)

    pyro.set_rng_seed(hvd.rank())
    guide = AutoNormal(model)
    guide(rows[:BATCH], values[:BATCH])
    hvd.broadcast_parameters(guide.state_dict(), root_rank=0)
    svi = SVI(model, guide, HorovodOptimizer(Adam({"lr": 0.05})), Trace_ELBO())
    for epoch in range(20):
        sampler.set_epoch(epoch)
        for batch in loader:
            svi.step(*batch)

    found = torch.cat([parameter.detach().view(-1) for _, parameter in sorted(pyro.get_param_store().items())])
    both = hvd.allgather(found[None])
    assert torch.equal(both[0], both[1]), both
    error = (guide.median()["weights"] - WEIGHTS).abs().max().item()
    assert error < 0.1, error
    print("parameters", len(found), flush=True)


if __name__ == "__main__":
    hvd.init()
    training()
