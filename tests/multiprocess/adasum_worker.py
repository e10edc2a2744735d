"""The optimizer of op=Adasum beside a reference in numpy that plays all ranks."""

from __future__ import annotations

import copy
import os
from typing import Any

import no_compiler
import numpy as np
import torch
from torch import nn

import farandole.torch as hvd


def pair(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    dot, norm_a, norm_b = a.ravel() @ b.ravel(), a.ravel() @ a.ravel(), b.ravel() @ b.ravel()
    own = 1 - dot / (2 * norm_a) if norm_a else 1.0
    other = 1 - dot / (2 * norm_b) if norm_b else 1.0
    return own * a + other * b


def adasum(operands: list[np.ndarray]) -> np.ndarray:
    """Neighbours are combined, then neighbours of the results; one without a neighbour goes on as it is."""
    while len(operands) > 1:
        operands = [
            pair(*operands[i : i + 2]) if i + 1 < len(operands) else operands[i] for i in range(0, len(operands), 2)
        ]
    return operands[0]


def model_of() -> nn.Module:
    torch.manual_seed(4)
    return nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 2)).double()


def loss_of(model: nn.Module, step: int, rank: int) -> torch.Tensor:
    inputs = torch.randn(8, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(50 * step + rank))
    # Whoever is not rank 0 does not use the first bias in some steps.
    hidden = nn.functional.linear(inputs, model[0].weight, model[0].bias if rank == 0 or step % 2 else None)
    return model[2](hidden.tanh()).square().mean()


def compare(make: Any, tolerance: float = 1e-12, **options: Any) -> None:
    members = options.get("process_set", hvd.global_process_set)
    ranks = members.ranks if members.included() else [hvd.rank()]
    ours = model_of()
    optimizer = hvd.DistributedOptimizer(make(ours.parameters()), ours.named_parameters(), op=hvd.Adasum, **options)
    others = [model_of() for _ in ranks]
    theirs = [make(model.parameters()) for model in others]
    for step in range(6):
        optimizer.zero_grad()
        loss_of(ours, step, hvd.rank()).backward()
        optimizer.step()
        before = copy.deepcopy(others[0])
        for rank, model, each in zip(ranks, others, theirs):
            model.load_state_dict(before.state_dict())
            each.zero_grad()
            loss_of(model, step, rank).backward()
            each.step()
        for start, *ends, got in zip(before.parameters(), *(m.parameters() for m in others), ours.parameters()):
            start = start.detach().cpu().numpy()
            wanted = start + adasum([end.detach().cpu().numpy() - start for end in ends])
            got = got.detach().cpu().numpy()
            assert np.allclose(got, wanted, rtol=tolerance, atol=tolerance), (step, got - wanted)
            with torch.no_grad():
                for end in ends:
                    end.copy_(torch.from_numpy(wanted))


def sgd(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9)


def case_adasum() -> None:
    compare(sgd)
    compare(lambda parameters: torch.optim.Adam(parameters, lr=0.01), tolerance=1e-9)


def case_adasum_of_some() -> None:
    if hvd.size() > 2:
        some = hvd.add_process_set([rank for rank in range(hvd.size()) if rank != 1])
        compare(sgd, process_set=some)
        hvd.remove_process_set(some)


def case_compression() -> None:
    compare(sgd, tolerance=2e-2, compression=hvd.Compression.fp16)


def case_ranks_that_differ() -> None:
    weights = [nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(3 if hvd.rank() else 4))]
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(weights, lr=1.0), op=hvd.Adasum)
    sum(weight.sum() for weight in weights).backward()
    try:
        optimizer.step()
    except hvd.TensorMismatchError as error:
        assert "noname.0.1" in str(error), error
    else:
        raise AssertionError("no error")
    assert all(bool((weight == 1).all()) for weight in weights), "as before the step"


def main() -> None:
    torch.set_num_threads(1)
    hvd.init()
    for name, case in list(globals().items()):
        if name.startswith("case_"):
            case()
            os.write(1, b"passed %s\n" % name.encode())
    hvd.shutdown()


if __name__ == "__main__":
    no_compiler.leave_out()
    main()
