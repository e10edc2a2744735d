"""Optimizers that outlive a job: shutdown() and init() again in the same processes, as elastic training does."""

from __future__ import annotations

import os
from typing import Any

import no_compiler
import torch
from torch import nn

import farandole.torch as hvd


class Part:
    """A model whose gradient on each rank is a number, and its optimizer."""

    def __init__(self, **options: Any) -> None:
        self.weights = [nn.Parameter(torch.zeros(n)) for n in (3, 1000, 7)]
        # The same names in all of them.
        named = [(f"weight.{i}", weight) for i, weight in enumerate(self.weights)]
        wrapped = torch.optim.SGD(self.weights, lr=1.0)
        # Several are under way at a time, and some for ever.
        self.optimizer = hvd.DistributedOptimizer(wrapped, named, synchronize_in_backward=False, **options)
        self.ranks = options.get("process_set", hvd.global_process_set)

    def backward(self, factor: float) -> None:
        sum((factor * 6 * (hvd.rank() + 1) * weight).sum() for weight in self.weights).backward()

    def step(self, factor: float) -> None:
        self.optimizer.zero_grad()
        self.backward(factor)

    def check(self, factor: float) -> None:
        self.optimizer.synchronize()
        members = self.ranks.ranks if self.ranks.included() else [hvd.rank()]
        expected = factor * 6 * sum(rank + 1 for rank in members) / len(members)
        for weight in self.weights:
            assert torch.allclose(weight.grad, torch.full_like(weight, expected)), (weight.grad[0], expected)
        with self.optimizer.skip_synchronize():
            self.optimizer.step()

    def shared(self) -> bool:
        return all(s.place is not None and s.place.holds(s.parameter.grad) for s in self.optimizer._reducer.slots)


def train(parts: list[Part], team: Part, steps: int) -> None:
    for step in range(1, steps):
        for part in (*parts, team):
            part.step(step)
        for part in (*parts, team):
            part.check(step)
        assert all(part.shared() for part in parts)


def main() -> None:
    torch.set_num_threads(1)
    members = hvd.ProcessSet([0, 2])
    hvd.init(process_sets=[members])
    parts = [Part(), Part(groups=2), Part(backward_passes_per_step=1, groups=None)]
    team = Part(process_set=members)
    unused = Part()
    adasum = nn.Parameter(torch.zeros(2))
    together = hvd.DistributedOptimizer(torch.optim.SGD([adasum], lr=1.0), op=hvd.Adasum)
    for life in range(4):
        train(parts, team, 5)
        adasum.grad = torch.full((2,), float(life + 1))
        together.step()
        assert adasum.tolist() == [-sum(range(1, life + 2))] * 2  # the mean, where all are equal
        # What others never answer does not stay under way.
        if hvd.rank() == life % 3:
            parts[1].step(1)
            assert parts[1].optimizer._reducer.outstanding()
        os.write(1, b"life %d\n" % life)
        hvd.shutdown()
        assert not parts[1].optimizer._reducer.outstanding()
        if life == 0:
            try:
                parts[0].backward(1)
            except hvd.NotInitializedError:
                pass
            else:
                raise AssertionError("no error")
        hvd.init(process_sets=[members])
    # As long as nobody uses it, nobody counts its names.
    if hvd.rank() == 1:
        Part()
    train([*parts, unused], team, 3)
    hvd.shutdown()


if __name__ == "__main__":
    no_compiler.leave_out()
    main()
