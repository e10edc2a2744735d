"""pytorch-ignite's Horovod backend, as its documentation uses it, and every collective that it offers."""

from __future__ import annotations

import ignite.distributed as idist
import torch
from ignite.engine import Engine
from ignite.metrics import Average
from torch import nn


def training(local_rank: int) -> None:
    rank = idist.get_rank()
    assert (idist.backend(), idist.get_world_size(), idist.get_local_rank()) == ("horovod", 2, local_rank)
    torch.manual_seed(rank)
    model = idist.auto_model(nn.Linear(5, 2))
    optimizer = idist.auto_optim(torch.optim.SGD(model.parameters(), lr=0.1))
    rows = torch.randn(64, 5, generator=torch.Generator().manual_seed(3))
    loader = idist.auto_dataloader(torch.utils.data.TensorDataset(rows, torch.arange(64) % 2), batch_size=8)

    def step(engine: Engine, batch: tuple[torch.Tensor, torch.Tensor]) -> float:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(batch[0]), batch[1])
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        return loss.item()

    trainer = Engine(step)
    Average().attach(trainer, "loss")
    trainer.run(loader, max_epochs=3)
    both = idist.all_gather(torch.cat([p.detach().view(-1) for p in model.parameters()])[None])
    assert torch.equal(both[0], both[1])
    assert idist.all_reduce(rank) == 1 and idist.broadcast(float(rank), src=1) == 1.0
    assert idist.all_gather(f"text {rank}") == ["text 0", "text 1"]
    idist.barrier()
    print("loss", round(trainer.state.metrics["loss"], 6), flush=True)


if __name__ == "__main__":
    with idist.Parallel(backend="horovod") as parallel:
        parallel.run(training)
