"""Differentiable collectives on groups of tensors, which are executed together or not at all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from farandole.core import reduce_ops
from farandole.core.handles import synchronize
from farandole.process_sets import ProcessSet, global_process_set
from farandole.torch.collectives import grouped, operations
from farandole.torch.collectives.autograd import gradient_name, reducescatter_gradient_factor
from farandole.torch.compression import Compression, Compressor, compress


def _spread(results: Sequence[torch.Tensor], places: list[int], count: int) -> list[torch.Tensor | None]:
    """`results` at their places in a list of `count`; None elsewhere."""
    spread: list[torch.Tensor | None] = [None] * count
    for place, result in zip(places, results):
        spread[place] = result
    return spread


def _differentiable(tensors: Sequence[torch.Tensor]) -> list[int]:
    """Places of the tensors that can have a gradient; the same on all ranks, since the types are."""
    return [i for i, tensor in enumerate(tensors) if tensor.dtype.is_floating_point]


class _GroupedAllreduce(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        name: str | None,
        op: int,
        prescale_factor: float,
        postscale_factor: float,
        process_set: ProcessSet,
        *tensors: torch.Tensor,
    ) -> tuple[torch.Tensor, ...]:
        handle = grouped.grouped_allreduce_async(
            tensors,
            name=name,
            op=op,
            prescale_factor=prescale_factor,
            postscale_factor=postscale_factor,
            process_set=process_set,
        )
        ctx.arguments = (gradient_name(name), op, prescale_factor, postscale_factor, process_set)
        ctx.places = _differentiable(tensors)
        return synchronize(handle)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[Any, ...]:
        reduced = _GroupedAllreduce.apply(*ctx.arguments, *(gradients[i] for i in ctx.places))
        return (None, None, None, None, None, *_spread(reduced, ctx.places, len(gradients)))


class _GroupedAllgather(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, name: str | None, process_set: ProcessSet, *tensors: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        handle = grouped.grouped_allgather_async(tensors, name, process_set)
        ctx.name, ctx.process_set = gradient_name(name), process_set
        ctx.places = _differentiable(tensors)
        ctx.rows = [tensors[i].shape[0] for i in ctx.places]
        return synchronize(handle)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[Any, ...]:
        wanted = (gradients[i] for i in ctx.places)
        reduced = _GroupedAllreduce.apply(ctx.name, reduce_ops.Average, 1.0, 1.0, ctx.process_set, *wanted)
        rows_name = None if ctx.name is None else f"{ctx.name}.rows"
        own = torch.tensor([ctx.rows], dtype=torch.int64, device="cpu")
        rows = synchronize(operations.allgather_async(own, rows_name, ctx.process_set))
        starts = rows[: ctx.process_set.rank()].sum(dim=0).tolist()
        own_rows = [gradient.narrow(0, start, count) for gradient, start, count in zip(reduced, starts, ctx.rows)]
        return (None, None, *_spread(own_rows, ctx.places, len(gradients)))


class _GroupedReducescatter(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        name: str | None,
        op: int,
        process_set: ProcessSet,
        prescale_factor: float,
        postscale_factor: float,
        *tensors: torch.Tensor,
    ) -> tuple[torch.Tensor, ...]:
        handle = grouped.grouped_reducescatter_async(tensors, name, op, process_set, prescale_factor, postscale_factor)
        ctx.name, ctx.process_set = gradient_name(name), process_set
        ctx.places = _differentiable(tensors)
        ctx.factor = reducescatter_gradient_factor(op, prescale_factor, postscale_factor, process_set)
        return synchronize(handle)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[Any, ...]:
        wanted = (gradients[i] * ctx.factor for i in ctx.places)
        gathered = _GroupedAllgather.apply(ctx.name, ctx.process_set, *wanted)
        return (None, None, None, None, None, *_spread(gathered, ctx.places, len(gradients)))


def _compress(tensors: Sequence[torch.Tensor], compression: type[Compressor]) -> list[tuple[torch.Tensor, object]]:
    return [compress(tensor, compression) for tensor in grouped.as_list(tensors)]


def _decompress(
    results: Sequence[torch.Tensor], compressed: list[tuple[torch.Tensor, object]], compression: type[Compressor]
) -> tuple[torch.Tensor, ...]:
    return tuple(compression.decompress(result, context) for result, (_, context) in zip(results, compressed))


def grouped_allreduce(
    tensors: Sequence[torch.Tensor],
    average: bool | None = None,
    name: str | None = None,
    compression: type[Compressor] = Compression.none,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> tuple[torch.Tensor, ...]:
    """Allreduces several tensors, together or not at all. Differentiable, as `allreduce` is.

    Args:
        tensors: a list of at least one tensor, of any shapes and types, in the same order on all ranks.
        average: deprecated, use `op`.
        name: the same on all ranks, and not that of another operation of this kind under way. None: such operations are
            numbered in the order of the calls, which then has to be the same on all ranks.
        compression: one of `Compression`; what is sent has its type, the result that of each tensor.
        op: as for `allreduce`.
        prescale_factor: each tensor is multiplied by this before the reduction.
        postscale_factor: each result of the reduction is multiplied by this.
        process_set: the ranks that take part; all of them have to call. Default: all ranks of the job.

    Returns:
        New tensors, in the order of `tensors`.

    Raises:
        ValueError: a type that is not supported, a wrong argument, a name that is in use, or not initialised.
        UnsupportedOperationError: Adasum of a tensor that is not floating-point.
        TensorMismatchError: the ranks disagree about the tensor.
        HorovodInternalError: a peer was lost.
    """
    op = reduce_ops.resolve(op, average)
    compressed = _compress(tensors, compression)
    sent = (tensor for tensor, _ in compressed)
    reduced = _GroupedAllreduce.apply(name, op, prescale_factor, postscale_factor, process_set, *sent)
    return _decompress(reduced, compressed, compression)


def grouped_allgather(
    tensors: Sequence[torch.Tensor], name: str | None = None, process_set: ProcessSet = global_process_set
) -> tuple[torch.Tensor, ...]:
    """Allgathers each of several tensors, together or not at all. Differentiable, as `allgather` is.

    Args:
        tensors: a list of at least one tensor, as `allgather` takes them, in the same order on all ranks.
        name: the same on all ranks, and not that of another operation of this kind under way. None: such operations are
            numbered in the order of the calls, which then has to be the same on all ranks.
        process_set: the ranks that take part; all of them have to call. Default: all ranks of the job.

    Returns:
        New tensors, in the order of `tensors`.

    Raises:
        ValueError: a type that is not supported, a wrong argument, a name that is in use, or not initialised.
        TensorMismatchError: the ranks disagree about the tensor.
        HorovodInternalError: a peer was lost.
    """
    return _GroupedAllgather.apply(name, process_set, *grouped.as_list(tensors))


def grouped_reducescatter(
    tensors: Sequence[torch.Tensor],
    name: str | None = None,
    compression: type[Compressor] = Compression.none,
    op: int = reduce_ops.Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> tuple[torch.Tensor, ...]:
    """Reduces several tensors over all ranks, together or not at all, and returns some rows of each result to each
    rank.

    Differentiable, and divided, as `reducescatter` is.

    Args:
        tensors: a list of at least one tensor, as `reducescatter` takes them, in the same order on all ranks.
        name: the same on all ranks, and not that of another operation of this kind under way. None: such operations are
            numbered in the order of the calls, which then has to be the same on all ranks.
        compression: one of `Compression`; what is sent has its type, the result that of each tensor.
        op: Average or Sum.
        process_set: the ranks that take part; all of them have to call. Default: all ranks of the job.
        prescale_factor: each tensor is multiplied by this before the reduction.
        postscale_factor: each result of the reduction is multiplied by this.

    Returns:
        New tensors with the rows of this rank, in the order of `tensors`.

    Raises:
        ValueError: a type that is not supported, a wrong argument, a name that is in use, or not initialised.
        UnsupportedOperationError: an operation other than Average and Sum.
        TensorMismatchError: the ranks disagree about the tensor.
        HorovodInternalError: a peer was lost.
    """
    compressed = _compress(tensors, compression)
    sent = (tensor for tensor, _ in compressed)
    reduced = _GroupedReducescatter.apply(name, op, process_set, prescale_factor, postscale_factor, *sent)
    return _decompress(reduced, compressed, compression)
