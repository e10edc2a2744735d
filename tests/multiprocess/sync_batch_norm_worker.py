"""SyncBatchNorm beside torch's batch normalisation of the batches of all ranks together, with any number of ranks."""

from __future__ import annotations

import copy
import os
from typing import Any

import no_compiler
import torch
from torch import nn

import farandole.torch as hvd

CHANNELS = 5


def batch(shape: tuple[int, ...], step: int, rank: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(100 * step + rank)
    return torch.randn(*shape, dtype=torch.float64, generator=generator) * 3 + 7


def compare(shapes: list[tuple[int, ...]], dtype: torch.dtype, tolerance: float, **options: Any) -> None:
    """`shapes`: of the batch of each rank."""
    kind = {2: nn.BatchNorm1d, 3: nn.BatchNorm1d, 4: nn.BatchNorm2d, 5: nn.BatchNorm3d}[len(shapes[0])]
    whole = kind(CHANNELS, **options).to(torch.float64)
    if whole.affine:
        whole.weight.data.normal_(generator=torch.Generator().manual_seed(1))
        whole.bias.data.normal_(generator=torch.Generator().manual_seed(2))
    ours = hvd.SyncBatchNorm(CHANNELS, **options).to(torch.float64 if dtype is torch.float64 else torch.float32)
    ours.load_state_dict(whole.state_dict())
    mine = slice(sum(s[0] for s in shapes[: hvd.rank()]), sum(s[0] for s in shapes[: hvd.rank() + 1]))
    for step in range(3):
        inputs = torch.cat([batch(shape, step, rank) for rank, shape in enumerate(shapes)]).to(dtype)
        factors = torch.cat([batch(shape, step + 50, rank) for rank, shape in enumerate(shapes)]).to(dtype)
        theirs = inputs.double().clone().requires_grad_()
        expected = whole(theirs)
        (expected * factors.double()).sum().backward()
        x = inputs[mine].clone().requires_grad_()
        result = ours(x)
        assert result.dtype is dtype and result.shape == x.shape
        (result * factors[mine]).sum().backward()
        for got, wanted in ((result, expected[mine]), (x.grad, theirs.grad[mine])):
            assert torch.allclose(got.double(), wanted, atol=tolerance, rtol=tolerance), (
                (got.double() - wanted).abs().max()
            )
        for (name, got), wanted in zip(ours.named_buffers(), whole.buffers()):
            assert torch.allclose(got.double(), wanted.double(), rtol=1e-5), (name, got, wanted)
    for got, wanted in zip(ours.parameters(), whole.parameters()):
        together = hvd.allreduce(got.grad, op=hvd.Sum)
        assert torch.allclose(together.double(), wanted.grad, atol=10 * tolerance, rtol=10 * tolerance)
    in_evaluation(ours, whole, inputs[mine])


def in_evaluation(ours: nn.Module, whole: nn.Module, inputs: torch.Tensor) -> None:
    """On rank 0 alone: nothing is asked of the others."""
    if hvd.rank() == 0 and len(inputs):
        alone = copy.deepcopy(whole).eval()
        assert torch.allclose(
            ours.eval()(inputs).double(), alone(inputs.double()), atol=1e-1 if inputs.dtype.itemsize == 2 else 1e-4
        )


def case_shapes() -> None:
    for tail in ((), (4,), (3, 2), (2, 1, 3)):
        shape = (6, CHANNELS, *tail)
        compare([shape] * hvd.size(), torch.float64, 1e-10)
        compare([shape] * hvd.size(), torch.float32, 1e-4)


def case_batches_of_different_sizes() -> None:
    rows = [3, 0, 1][: hvd.size()]
    compare([(n, CHANNELS, 4) for n in rows], torch.float64, 1e-10)
    compare([(n, CHANNELS) for n in reversed(rows)], torch.float32, 1e-4)
    compare([(1, CHANNELS)] * hvd.size(), torch.float64, 1e-7)


def case_options() -> None:
    shapes = [(4, CHANNELS, 3)] * hvd.size()
    compare(shapes, torch.float64, 1e-10, momentum=None)
    compare(shapes, torch.float64, 1e-10, eps=0.1, momentum=0.3)
    compare(shapes, torch.float64, 1e-10, affine=False)
    compare(shapes, torch.float64, 1e-10, track_running_stats=False)
    compare(shapes, torch.bfloat16, 0.1)


def case_float16() -> str | None:
    try:
        nn.BatchNorm1d(CHANNELS)(torch.ones(2, CHANNELS, dtype=torch.float16))
    except RuntimeError:
        return "left out"  # torch 2.1 normalises no float16 on CPUs
    compare([(4, CHANNELS, 3)] * hvd.size(), torch.float16, 0.02)
    return None


def case_channels_last_and_large_means() -> None:
    layer, whole = hvd.SyncBatchNorm(2), nn.BatchNorm2d(2).double()
    inputs = [(batch((3, 2, 8, 8), 0, rank) + 10000).float() for rank in range(hvd.size())]
    result = layer(inputs[hvd.rank()].to(memory_format=torch.channels_last))
    expected = whole(torch.cat(inputs).double())[3 * hvd.rank() : 3 * hvd.rank() + 3]
    assert torch.allclose(result.double(), expected, atol=2e-3)


def case_too_few_values() -> None:
    rows = 1 if hvd.rank() == 0 else 0
    try:
        hvd.SyncBatchNorm(3)(torch.ones(rows, 3))
    except ValueError as error:
        assert "more than 1 value per channel" in str(error)
    else:
        raise AssertionError("no error")
    hvd.barrier()


def case_training_with_the_optimizer() -> None:
    """Equal to one process with the whole batch, as the loss is a mean and batches are equally large."""
    torch.manual_seed(0)
    ours = nn.Sequential(
        nn.Linear(4, CHANNELS), hvd.SyncBatchNorm(CHANNELS), nn.Tanh(), nn.Linear(CHANNELS, 1)
    ).double()
    whole = copy.deepcopy(ours)
    whole[1] = nn.BatchNorm1d(CHANNELS).double()
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(ours.parameters(), lr=0.1), ours.named_parameters())
    reference = torch.optim.SGD(whole.parameters(), lr=0.1)
    for step in range(5):
        inputs = [batch((4, 4), step, rank) for rank in range(hvd.size())]
        for opt, model, x in ((optimizer, ours, inputs[hvd.rank()]), (reference, whole, torch.cat(inputs))):
            opt.zero_grad()
            model(x).square().mean().backward()
            opt.step()
    for a, b in zip(ours.state_dict().values(), whole.state_dict().values()):
        assert torch.allclose(a, b, atol=1e-10), (a, b)


def main() -> None:
    torch.set_num_threads(1)
    hvd.init()
    for name, case in list(globals().items()):
        if name.startswith("case_"):
            outcome = case() or "passed"
            os.write(1, f"{outcome} {name}\n".encode())
    hvd.shutdown()


if __name__ == "__main__":
    no_compiler.leave_out()
    main()
