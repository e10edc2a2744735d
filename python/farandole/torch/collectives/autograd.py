# ruff: noqa: D102
"""The collectives as functions of autograd: what the gradient of each is."""

from __future__ import annotations

from typing import Any

import torch

from farandole.core import handles, reduce_ops
from farandole.process import basics
from farandole.process_sets import ProcessSet
from farandole.torch.collectives import operations


def gradient_name(name: str | None) -> str | None:
    """What the operation on the gradient is called."""
    return None if not name else f"{name}.grad"


def reducescatter_gradient_factor(
    op: int, prescale_factor: float, postscale_factor: float, process_set: ProcessSet
) -> float:
    """What gradients are multiplied with before they are gathered."""
    size = process_set.size() if reduce_ops.resolve(op) == reduce_ops.Sum else 1
    return float(prescale_factor) * float(postscale_factor) * (size or 1)


class Allreduce(torch.autograd.Function):
    """The gradient is reduced with the same operation and factors."""

    @staticmethod
    def forward(
        ctx: Any,
        tensor: torch.Tensor,
        name: str | None,
        op: int,
        prescale_factor: float,
        postscale_factor: float,
        process_set: ProcessSet,
    ) -> torch.Tensor:
        ctx.arguments = (gradient_name(name), op, prescale_factor, postscale_factor, process_set)
        handle = operations.allreduce_async(
            tensor,
            name=name,
            op=op,
            prescale_factor=prescale_factor,
            postscale_factor=postscale_factor,
            process_set=process_set,
        )
        return handles.synchronize(handle)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[Any, ...]:
        return (Allreduce.apply(gradient, *ctx.arguments), None, None, None, None, None)


class Allgather(torch.autograd.Function):
    """The gradient is averaged over the ranks, and each takes its own rows."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, name: str | None, process_set: ProcessSet) -> torch.Tensor:
        handle = operations.allgather_async(tensor, name, process_set)
        ctx.name, ctx.process_set, ctx.rows = gradient_name(name), process_set, tensor.shape[0]
        return handles.synchronize(handle)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[Any, ...]:
        reduced = Allreduce.apply(gradient, ctx.name, reduce_ops.Average, 1.0, 1.0, ctx.process_set)
        own = torch.tensor([ctx.rows], dtype=torch.int64, device="cpu")
        rows_name = None if ctx.name is None else f"{ctx.name}.rows"
        rows = handles.synchronize(operations.allgather_async(own, rows_name, ctx.process_set))
        start = int(rows[: ctx.process_set.rank()].sum())
        return reduced.narrow(0, start, ctx.rows), None, None


class Alltoall(torch.autograd.Function):
    """Gradients go back to where the rows came from."""

    @staticmethod
    def forward(
        ctx: Any, tensor: torch.Tensor, splits: Any, name: str | None, process_set: ProcessSet
    ) -> tuple[torch.Tensor, torch.Tensor]:
        ctx.arguments = (gradient_name(name), process_set)
        # Empty splits are even ones whose result has the received numbers of rows.
        given = [] if splits is None else splits
        result, ctx.received = handles.synchronize(operations.alltoall_async(tensor, given, name, process_set))
        ctx.mark_non_differentiable(ctx.received)
        ctx.rows = tensor.shape[0]
        return result, ctx.received

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor, _: Any) -> tuple[Any, ...]:
        back, _ = Alltoall.apply(gradient, ctx.received, *ctx.arguments)
        if len(back) < ctx.rows:  # rows that went nowhere
            back = torch.cat([back, back.new_zeros(ctx.rows - len(back), *back.shape[1:])])
        return back, None, None, None


class Reducescatter(torch.autograd.Function):
    """Gradients are gathered, times the number of ranks for a Sum."""

    @staticmethod
    def forward(
        ctx: Any,
        tensor: torch.Tensor,
        name: str | None,
        op: int,
        process_set: ProcessSet,
        prescale_factor: float,
        postscale_factor: float,
    ) -> torch.Tensor:
        handle = operations.reducescatter_async(tensor, name, op, process_set, prescale_factor, postscale_factor)
        ctx.name, ctx.process_set = gradient_name(name), process_set
        ctx.factor = reducescatter_gradient_factor(op, prescale_factor, postscale_factor, process_set)
        return handles.synchronize(handle)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[Any, ...]:
        gathered = Allgather.apply(gradient * ctx.factor, ctx.name, ctx.process_set)
        return gathered, None, None, None, None, None


class Broadcast(torch.autograd.Function):
    """The gradient is averaged over the ranks on the root, and zero elsewhere."""

    @staticmethod
    def forward(
        ctx: Any, tensor: torch.Tensor, root_rank: int, name: str | None, process_set: ProcessSet
    ) -> torch.Tensor:
        ctx.root_rank = root_rank
        ctx.name = gradient_name(name)
        ctx.process_set = process_set
        return handles.synchronize(operations.broadcast_async(tensor, root_rank, name, process_set))

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[Any, ...]:
        reduced = Allreduce.apply(gradient, ctx.name, reduce_ops.Average, 1.0, 1.0, ctx.process_set)
        if basics.rank() != ctx.root_rank:
            reduced = torch.zeros_like(reduced)
        return reduced, None, None, None
