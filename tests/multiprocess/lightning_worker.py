"""Lightning's strategy for Horovod, of the last release that had one."""

from __future__ import annotations

import pytorch_lightning as pl
import torch
from torch import nn

import horovod.torch as hvd


class Model(pl.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(5, 2)

    def training_step(self, batch: tuple[torch.Tensor, torch.Tensor], index: int) -> torch.Tensor:
        return nn.functional.cross_entropy(self.layer(batch[0]), batch[1])

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)

    def train_dataloader(self) -> torch.utils.data.DataLoader:
        rows = torch.randn(64, 5, generator=torch.Generator().manual_seed(3))
        return torch.utils.data.DataLoader(torch.utils.data.TensorDataset(rows, torch.arange(64) % 2), batch_size=8)


def main() -> None:
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    trainer = pl.Trainer(strategy="horovod", accelerator="cpu", devices=1, max_epochs=2, gradient_clip_val=0.5, **quiet)
    model = Model()
    before = model.layer.weight.detach().clone()
    trainer.fit(model)
    assert trainer.world_size == 2 and not torch.equal(before, model.layer.weight)
    hvd.init()
    both = hvd.allgather(torch.cat([p.detach().view(-1) for p in model.parameters()])[None])
    assert torch.equal(both[0], both[1])
    print("rank", trainer.global_rank, flush=True)


if __name__ == "__main__":
    main()
