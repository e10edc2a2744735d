"""Functions that torch.compile compiles, beside the same ones as they are: equal results and gradients, no graph break.

`compiled_worker.py`: any number of ranks above 1.
"""

from __future__ import annotations

import copy
import math
import os
from typing import Any, Callable

import torch
import torch.nn.functional as F
from torch import nn

import farandole.torch as hvd


def inputs_of(step: int, rows: int, same: bool = True) -> torch.Tensor:
    seed = 100 * step + hvd.rank()
    rows = rows if same else rows + hvd.rank()
    return torch.randn(rows, 3, generator=torch.Generator().manual_seed(seed)).requires_grad_()


def compare(function: Callable, rows: int, same: bool = True, backend: str = "aot_eager", **options: Any) -> None:
    """The whole of `function` is one graph, which gives what the function gives, also for other values."""
    graph = torch.compile(function, fullgraph=True, backend=backend, **options)
    for step in range(3):
        inputs = inputs_of(step, rows, same)
        results = []
        for each in (function, graph):
            x = inputs.detach().clone().requires_grad_()
            y = each(x)
            (y * torch.linspace(0.5, 2, y.numel()).view(y.shape)).sum().backward()
            results.append((y.detach(), x.grad))
        for expected, got in zip(*results):
            assert torch.allclose(expected, got, atol=1e-6), (step, expected, got)


def case_allreduce() -> None:
    compare(lambda x: hvd.allreduce(2 * x, name="sum", op=hvd.Sum, prescale_factor=0.5) + 1, 4)
    compare(lambda x: hvd.allreduce(x * 2, compression=hvd.Compression.fp16), 4, backend="eager")


def case_allgather() -> None:
    compare(lambda x: hvd.allgather(2 * x).square(), 2, same=False)


def case_broadcast() -> None:
    compare(lambda x: hvd.broadcast(x.tanh(), root_rank=1, name="root") * 3, 4)


def case_reducescatter() -> None:
    compare(lambda x: hvd.reducescatter(x.tanh(), op=hvd.Sum) * 2, 2 * hvd.size() + 1)


def case_alltoall() -> None:
    compare(lambda x: hvd.alltoall(x.tanh()) * 2, 2 * hvd.size())
    # Some rows go nowhere.
    splits = [1, 2, 0, 0][: hvd.size()]
    compare(lambda x: hvd.alltoall(2 * x, splits, name="split")[0] + 1, 5)


def case_process_set() -> None:
    alone = hvd.add_process_set([0])
    if hvd.rank() == 0:
        compare(lambda x: hvd.allreduce(x, op=hvd.Sum, process_set=alone) * 2, 3)
    hvd.remove_process_set(alone)


def case_a_new_job() -> None:
    graph = torch.compile(lambda x: hvd.allgather(x) + hvd.allreduce(x).sum(), fullgraph=True, backend="aot_eager")
    for _ in range(2):
        x = torch.full((2, 3), float(hvd.rank()))
        mean = (hvd.size() - 1) / 2
        assert torch.equal(graph(x), hvd.allgather(x) + 6 * mean)
        hvd.shutdown()
        hvd.init()


def case_model_with_the_optimizer() -> None:
    torch.manual_seed(5)
    first = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 1))
    losses = []
    for backend in (None, "aot_eager"):
        model = copy.deepcopy(first)
        optimizer = hvd.DistributedOptimizer(torch.optim.Adam(model.parameters(), lr=0.05), model.named_parameters())
        run = model if backend is None else torch.compile(model, fullgraph=True, backend=backend)
        losses.append([])
        for step in range(8):
            x = inputs_of(step, 6).detach()
            optimizer.zero_grad()
            loss = F.mse_loss(run(x), x.sum(1, keepdim=True))
            loss.backward()
            optimizer.step()
            losses[-1].append(loss.item())
        assert all(slot.place.holds(slot.parameter.grad) for slot in optimizer._reducer.slots)
    # A GPU's libraries may choose other kernels for what is compiled.
    tolerance = 0.0 if torch.empty(0).is_cpu else 1e-5
    assert all(math.isclose(a, b, rel_tol=tolerance) for a, b in zip(*losses)), losses
    assert losses[0][-1] < losses[0][0], losses


def main() -> None:
    torch.set_num_threads(1)
    hvd.init()
    for name, case in list(globals().items()):
        if name.startswith("case_"):
            torch._dynamo.reset()
            case()
            os.write(1, b"passed %s\n" % name.encode())
    hvd.shutdown()


if __name__ == "__main__":
    main()
